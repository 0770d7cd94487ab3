#!/usr/bin/env bash
# Checks the CUDA port on a GPU: every kernel and whole networks beside the host, training, and compute-sanitizer.
#
#   bench/cuda.sh              both of these
#   bench/cuda.sh build        compiles build/cuda/tests/cuda_claims and makes the models; needs nvcc and no GPU
#   bench/cuda.sh run          runs them; needs a GPU, its driver and what `build` made, and nothing else: build/cuda/gpu
#                              may have been carried from another machine
#
# GPU_TARGETS: architectures [90]. NACRE_TOOL: the nacre that makes the models [built in build/bench]. NACRE_SHARED holds
# the networks of MLPerf Tiny; without it there is the digits sample alone.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/cuda/gpu

make_models() {
  local tool=${NACRE_TOOL-} shared=${NACRE_SHARED-../shared} file
  if [ -z "$tool" ]; then
    [ -f build/bench/build.ninja ] || meson setup build/bench --buildtype=release >&2
    ninja -C build/bench tools/nacre >&2
    tool=build/bench/tools/nacre
  fi
  for file in ad01_int8 ad01_fp32 kws_ref_model pretrainedResnet_quant pretrainedResnet vww_96_int8 str_ww_ref_model; do
    [ ! -f "$shared/models/mlperf_tiny/$file.tflite" ] ||
      "$tool" convert "$shared/models/mlperf_tiny/$file.tflite" -o "$folder/infer_$file.nacre" --target cuda/sm90 >&2
  done
  "$tool" convert tools/samples/digits.onnx -o "$folder/infer_digits.nacre" --target cuda/sm90 >&2
  for policy in float32 mixed_bfloat16 mixed_float16 float8/16_from_float32; do
    "$tool" convert tools/samples/digits.onnx -o "$folder/train_${policy%%/*}.nacre" --target cuda/sm90 \
      --train softmax_cross_entropy --optimizer adam --batch 32 --policy "$policy" >&2
  done
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

run() {
  local failed=0
  "$folder/cuda_claims" cuda_equal 16 1 "$folder"/infer_*.nacre || failed=1
  "$folder/cuda_claims" cuda_trains "$folder"/train_*.nacre || failed=1
  if command -v compute-sanitizer >/dev/null; then
    compute-sanitizer --error-exitcode 9 "$folder/cuda_claims" cuda_equal 1 2 | tail -n 4 || failed=1
  else
    echo "compute-sanitizer is not on this machine"
  fi
  return "$failed"
}

case ${1-all} in
  all) build && run ;;
  build) build ;;
  run) run ;;
  --help | -h) sed -n '2,12s/^# \{0,1\}//p' "$0" ;;
  *) echo "cuda.sh: $1: unknown; --help says what there is" >&2; exit 2 ;;
esac
