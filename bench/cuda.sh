#!/usr/bin/env bash
# Checks and times the CUDA port on a GPU. It runs every kernel and whole networks beside the host, training, times
# beside torch's, and compute-sanitizer.
#
#   bench/cuda.sh              build and run
#   bench/cuda.sh build        compiles build/cuda/tests/cuda_claims and makes the models; needs nvcc and no GPU
#   bench/cuda.sh run          checks, times, sanitizer; needs only a GPU, its driver and what `build` made:
#                              build/cuda/gpu may have been carried from another machine. At most CUDA_SECONDS [470],
#                              each check a third of what is left
#   bench/cuda.sh models       only the models of `build`
#   bench/cuda.sh times        only the times of `run`: a table, and JSON objects in build/cuda/gpu/times.jsonl.
#                              If python3 has torch, torch and Nacre are timed in turns
#   bench/cuda.sh profile      prints which kernels take a model's time
#
# GPU_TARGETS: architectures [90]. NACRE_TOOL: the nacre that makes the models [built in build/bench]. NACRE_SHARED
# holds the networks of MLPerf Tiny. Without it only the digits sample and two multilayer perceptrons
# (cuda_networks.py) are used. For tests: CUDA_FOLDER [build/cuda/gpu], CUDA_PROGRAM [cuda_claims there], CUDA_PEER
# [cuda_torch.py], and CUDA_DEVICE=simulated with small models.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${CUDA_FOLDER:-build/cuda/gpu}
program=${CUDA_PROGRAM:-$folder/cuda_claims}
device=${CUDA_DEVICE-}
most=${CUDA_SECONDS:-470}

left() { echo $((most > SECONDS + 1 ? most - SECONDS : 1)); }

make_models() {
  local tool=${NACRE_TOOL-} shared=${NACRE_SHARED-../shared} batch=32 wide=256 narrower=1 file rows network policy
  if [ -z "$tool" ]; then
    [ -f build/bench/build.ninja ] || meson setup build/bench --buildtype=release >&2
    ninja -C build/bench tools/nacre >&2
    tool=build/bench/tools/nacre
  fi
  [ -z "$device" ] || batch=2 wide=4 narrower=32
  python3 -B bench/cuda_networks.py "$folder" "$narrower"
  infer() {  # FILE NAME ROWS: a name for one row has no number
    local number=$3
    [ "$3" != 1 ] || number=
    "$tool" convert "$1" -o "$folder/infer${number}_$2.nacre" --batch "$3" --target cuda/sm90 >&2
  }
  for file in ad01_int8 ad01_fp32 kws_ref_model pretrainedResnet_quant pretrainedResnet vww_96_int8 str_ww_ref_model; do
    [ -f "$shared/models/mlperf_tiny/$file.tflite" ] || continue
    for rows in 1 16; do infer "$shared/models/mlperf_tiny/$file.tflite" "$file" "$rows"; done
  done
  for rows in 1 16; do infer tools/samples/digits.onnx digits "$rows"; done
  for rows in 1 16 64; do infer "$folder/mlp10.onnx" mlp10 "$rows"; done
  for policy in float32 mixed_bfloat16 mixed_float16 float8/16_from_float32; do
    "$tool" convert tools/samples/digits.onnx -o "$folder/train_${policy%%/*}.nacre" --target cuda/sm90 \
      --train softmax_cross_entropy --optimizer adam --batch "$batch" --policy "$policy" >&2
  done
  "$tool" convert "$folder/mlp3.onnx" -o "$folder/train256_mlp3_mixed_bfloat16.nacre" --target cuda/sm90 \
    --train softmax_cross_entropy --optimizer sgd --batch "$wide" --policy mixed_bfloat16 >&2
}

build() {
  . tools/packages.sh
  need_packages build
  [ -f build/cuda/build.ninja ] || meson setup build/cuda --buildtype=release -Dtools=false -Dcuda=enabled >&2
  meson configure build/cuda -Dport_tests=true "-Dgpu_targets=${GPU_TARGETS:-90}" >&2
  ninja -C build/cuda tests/cuda_claims >&2
  mkdir -p "$folder"
  cp build/cuda/tests/cuda_claims "$folder/"
  make_models
  echo "made $folder: $(du -sh "$folder" | cut -f 1)"
}

times() {
  local peer=()
  if command -v python3 >/dev/null; then peer=(--peer "${CUDA_PEER:-python3 -B bench/cuda_torch.py}"); fi
  "$program" cuda_speed ${device:+"$device"} --seconds "$1" --json "$folder/times.jsonl" \
    --checked "$folder/checks.txt" ${peer[@]+"${peer[@]}"} "$folder"/{infer,train}*.nacre
}

# bounded SECONDS COMMAND...
bounded() {
  local status=0 limit=$1
  shift
  timeout -k 5 "$limit" "$@" || status=$?
  [ "$status" -ne 124 ] || echo "$*: stopped after $limit s"
  return "$status"
}

run() {
  local failed=0
  : >"$folder/checks.txt"
  bounded $(($(left) / 3 + 1)) "$program" cuda_equal ${device:+"$device"} 16 1 "$folder"/infer_*.nacre |
    tee -a "$folder/checks.txt" || failed=1
  bounded $(($(left) / 3 + 1)) "$program" cuda_trains ${device:+"$device"} "$folder"/train_*.nacre |
    tee -a "$folder/checks.txt" || failed=1
  times "$(($(left) > 60 ? $(left) - 30 : $(left)))" || failed=1
  if command -v compute-sanitizer >/dev/null; then
    bounded "$(left)" compute-sanitizer --error-exitcode 9 --report-api-errors no "$program" cuda_equal 1 2 >"$folder/sanitizer.txt" || failed=1
    { head -n 40; echo ...; tail -n 4; } <"$folder/sanitizer.txt"
  else
    echo "compute-sanitizer is not on this machine"
  fi
  echo "took $SECONDS s of at most $most"
  return "$failed"
}

case ${1-all} in
  all) build && SECONDS=0 && run ;;
  build) build ;;
  models) mkdir -p "$folder" && make_models ;;
  run) run ;;
  times) times "$(left)" ;;
  profile) bounded "$(left)" "$program" cuda_profile ${device:+"$device"} "$folder"/{infer,train}*.nacre ;;
  --help | -h) sed -n '2,21s/^# \{0,1\}//p' "$0" ;;
  *) echo "cuda.sh: $1: unknown; --help says what there is" >&2; exit 2 ;;
esac
