#!/usr/bin/env bash
# Claim mpi_equal: `nacre tune --mpi` on 1, 2 and 4 ranks writes what one process without MPI writes, to the byte: checkpoint
# (state, position, sums of losses and right answers), log and model.
#
#   networks   ResNet-8 with its batch norms (pretrainedResnet.h5 of the shared data), and a transformer block with dropout; each
#              step of 4 micro-batches, the last of an epoch not whole
#   policies   float32, mixed_bfloat16, mixed_float16 with a loss scale that overflows at first, float8
#   killed     a rank ends by SIGKILL: not 0 is returned, mpirun says which rank, the checkpoint is whole, and 2 ranks that go on
#              with it end with the bytes of the training that was never cut off
#   asked      SIGTERM and SIGINT to mpirun: the checkpoint is saved, and the training goes on to the same bytes; without a checkpoint the
#              model is written
#   slow       a rank that stands still for 8 s is waited for, and named
#   refused    ranks with other files, policies, options, kernels or data; too few micro-batches; a file missing on one rank; a log that
#              rank 0 cannot write in the middle of it
#   from C     ports/mpi/nacre_mpi.h with MPI's Fortran handle (tests/mpi_user.c), 1 to 4 ranks
#   GPUs       a program for a GPU, on a simulated one for each rank (tests/gpu_tool.cc), sums by way of the host and by NCCL: as one process
#   fewer bits --compress: all ranks have one state (nacre tune ends where not), and the loss falls as far as without it, within 5%
#
# NACRE_LONG=1: 100 steps instead of 12. NACRE_MPI_EQUAL=1: only the first two.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "fifty trainings: too long in a sanitized build"; exit 77; }
command -v mpirun >/dev/null || { echo "no mpirun (tools/packages.sh mpi): mpi_equal is left out"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM mpi_equal NOT SHOWN: $*"; exit 1; }
# Options of Open MPI: run as root, more ranks than cores, processes of one machine without a network.
ranks=(mpirun --oversubscribe --mca btl self,vader)
[ "$(id -u)" != 0 ] || ranks+=(--allow-run-as-root)
"${ranks[@]}" -n 1 "$NACRE_TOOL" tune nothing --mpi --data nothing >"$work/try.txt" 2>&1
! grep -q 'this build has no MPI' "$work/try.txt" || { echo "a build without MPI (-Dmpi): mpi_equal is left out"; exit 77; }

steps=12
[ "${NACRE_LONG-0}" != 1 ] || steps=100
policies=(float32 mixed_bfloat16 mixed_float16 float8_from_float32)
"$NACRE_BUILD/tests/distributed_models" "$work" $((steps * 32 + 11 - 32)) $((steps * 8 + 3 - 8)) 1048576 "${policies[@]}" ||
  fail "the models"
resnet=${NACRE_SHARED-}/models/mlperf_tiny/pretrainedResnet.h5
networks=(transformer)
if [ -f "$resnet" ]; then networks+=(resnet8); else echo "  no shared networks: ResNet-8 is left out"; fi

# arguments NETWORK POLICY [EPOCHS [STEPS]]: puts the arguments of nacre tune into `given`. Checkpoints come after so
# many steps, not after a minute, because the claim also compares which slot holds which checkpoint.
arguments() {
  if [ "$1" = transformer ]; then
    given=("$work/transformer_$2.nacre" --data "$work/sequences.npy" --labels "$work/sequence_labels.npy" --batch 32 --lr 0.002)
  else
    given=("$resnet" --loss softmax_cross_entropy --data "$work/images.npy" --labels "$work/image_labels.npy" --batch 8 --micro-batch 2
      --optimizer momentum --lr 0.002 --policy "$2")
    [ "$2" != mixed_float16 ] || given+=(--loss-scale dynamic=1048576,period=10)
  fi
  given+=(--epochs "${3-1}" --max-refused 30 --checkpoint-every "${4-1000000}")
}
# train RANKS NAME ARGUMENTS..: trains; with 0 ranks without MPI.
train() {
  local count=$1 name=$2 start=()
  shift 2
  mkdir -p "$work/$name"
  [ "$count" = 0 ] || { start=("${ranks[@]}" -n "$count"); set -- "$@" --mpi; }
  "${start[@]}" "$NACRE_TOOL" tune "$@" --checkpoint "$work/$name/run" --csv "$work/$name/log.csv" -o "$work/$name/tuned.nacre" \
    >"$work/$name/out.txt" 2>"$work/$name/err.txt"
}
sums() { (cd "$work/$1" && sha256sum tuned.nacre log.csv run/slot?.checkpoint); }

equal=0 refused_steps=0
for network in "${networks[@]}"; do
  for policy in "${policies[@]}"; do
    arguments $network $policy
    train 0 alone "${given[@]}" || { cat "$work/alone/err.txt"; fail "$network in $policy, alone"; }
    for count in 1 2 4; do
      train $count shared "${given[@]}" || { cat "$work/shared/err.txt"; fail "$network in $policy on $count ranks"; }
      [ "$(sums shared)" = "$(sums alone)" ] || fail "$network in $policy: $count ranks give other bytes than one process: $(diff <(sums shared) <(sums alone) | grep '^>' | cut -c69- | xargs)"
      equal=$((equal + 1))
      rm -r "$work/shared"
    done
    IFS=, read -r _ done_steps refused _ _ loss _ < <(sed -n 2p "$work/alone/log.csv")
    echo "  $network in $policy: $done_steps steps, $refused refused, loss $loss: 1, 2 and 4 ranks as one process"
    [ "$done_steps" = "$steps" ] || fail "$network in $policy: $done_steps steps, not $steps"
    if [ $policy = mixed_float16 ]; then
      [ "$refused" -gt 0 ] && [ "$refused" -lt "$steps" ] || fail "$network in mixed_float16: $refused of $steps steps overflowed"
      refused_steps=$((refused_steps + refused))
    fi
    rm -r "$work/alone"
  done
done
# Shows that the comparison of bytes can fail: other micro-batches make another training.
arguments transformer float32
train 0 alone "${given[@]}" && train 2 shared "${given[@]}" --seed 2 || fail "two trainings"
[ "$(sums shared)" != "$(sums alone)" ] || fail "another order of rows gave the same bytes"
rm -r "$work/shared"
if [ "${NACRE_MPI_EQUAL-}" = 1 ]; then
  echo "CLAIM mpi_equal shown in part: $equal trainings of $steps steps on 1, 2 and 4 ranks equal to one process to the byte, $refused_steps steps of mixed_float16 refused"
  exit 0
fi

# ---- A rank that dies ----

# rank_of PID: prints the rank that Open MPI gave the process.
rank_of() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'; }
# process_of RANK DIRECTORY: prints the process of the training with this checkpoint.
process_of() {
  local pid
  for pid in $(pgrep -f -- "tune .*$2/run"); do
    [ "$(rank_of "$pid")" = "$1" ] && [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$NACRE_TOOL")" ] && { echo "$pid"; return; }
  done
}
arguments transformer float32 150 5
# started RANK DIRECTORY: prints the rank's process, once there is a checkpoint.
started() {
  local pid=
  for _ in $(seq 600); do
    [ -n "$pid" ] || pid=$(process_of "$1" "$2")
    [ -n "$pid" ] && [ -s "$2/run/slot1.checkpoint" ] && { echo "$pid"; return 0; }
    sleep 0.02
  done
  return 1
}
train 0 whole "${given[@]}" || fail "the training that is never cut off"
train 4 cut "${given[@]}" &
mpi=$!
victim=$(started 2 "$work/cut") || fail "rank 2 was not found"
kill -9 "$victim"
wait $mpi
status=$?
[ $status != 0 ] || fail "a killed rank, and mpirun returned 0"
killed=$(grep -m 1 -oE 'rank 2 .*signal 9 \(Killed\)' "$work/cut/err.txt") || { cat "$work/cut/err.txt"; fail "nothing says that rank 2 was killed"; }
[ ! -e "$work/cut/tuned.nacre" ] || fail "a model was written by a training that was cut off"
train 2 cut "${given[@]}" || { cat "$work/cut/err.txt"; fail "2 of 4 ranks do not go on"; }
grep -q '^goes on from' "$work/cut/out.txt" || fail "2 of 4 ranks began anew"
[ "$(sums cut)" = "$(sums whole)" ] || fail "2 of 4 ranks went on to other bytes"
echo "  killed: $killed; $(head -n 1 "$work/cut/out.txt" | sed 's/from .*: /from its checkpoint on 2 ranks: /'), to the same bytes"

# ---- mpirun that is asked to end ----

# Open MPI passes SIGTERM on to the ranks after a second, and SIGKILL a second later (odls_base_sigkill_timeout). A
# short training would have ended before.
asked=0
# ask SIGNAL: sends it to the mpirun that the background job $mpi started.
ask() { kill "-$1" "$(pgrep -P "$mpi" -x mpirun)" && ! wait "$mpi" || fail "mpirun returned 0 after SIG$1"; }
arguments transformer float32 100000
unsaved=("${given[@]:0:${#given[@]}-2}")
arguments transformer float32 500 5
train 0 long "${given[@]}" || fail "the long training that is never cut off"
for signal in TERM INT; do
  train 2 "asked_$signal" "${given[@]}" &
  mpi=$!
  started 0 "$work/asked_$signal" >/dev/null || fail "rank 0 was not found"
  ask $signal
  grep -q "^stopped in epoch .*asked_$signal/run, the same command goes on" "$work/asked_$signal/out.txt" || fail "nothing is said to be kept after SIG$signal"
  [ ! -e "$work/asked_$signal/tuned.nacre" ] || fail "SIG$signal left a model beside its checkpoint"
  train 2 "asked_$signal" "${given[@]}" || fail "2 ranks do not go on after SIG$signal"
  grep -q '^goes on from' "$work/asked_$signal/out.txt" || fail "2 ranks began anew after SIG$signal"
  for file in tuned.nacre log.csv; do cmp "$work/long/$file" "$work/asked_$signal/$file" || fail "after SIG$signal other bytes of $file"; done
  "${ranks[@]}" -n 2 "$NACRE_TOOL" tune --mpi "${unsaved[@]}" -o "$work/unsaved.nacre" >"$work/unsaved.txt" 2>&1 &
  mpi=$!
  for _ in $(seq 600); do ! grep '^epoch ' "$work/unsaved.txt" >/dev/null || break; sleep 0.1; done
  kill -$signal $mpi && ! wait $mpi || fail "mpirun returned 0 after SIG$signal"
  grep -q '^stopped in epoch .*: what [0-9,]* steps taught is in .*unsaved.nacre' "$work/unsaved.txt" || fail "no model is said to be kept after SIG$signal"
  "$NACRE_TOOL" check "$work/unsaved.nacre" >/dev/null || fail "the model that is kept after SIG$signal is refused"
  rm "$work/unsaved.nacre"
  asked=$((asked + 1))
done
arguments transformer float32 150 5
echo "  asked to end: $(head -n 1 "$work/asked_INT/out.txt"); of 2 signals to mpirun $asked keep the checkpoint, or the model where there is none"

# ---- A rank that stands still ----

train 2 slow "${given[@]}" &
mpi=$!
slow=$(started 1 "$work/slow") || fail "rank 1 was not found"
kill -STOP "$slow"
sleep 8
kill -CONT "$slow"
wait $mpi || { cat "$work/slow/err.txt"; fail "a rank that stood still ended the training"; }
grep -q "^waits for rank 1: 5 s" "$work/slow/err.txt" || { cat "$work/slow/err.txt" "$work/slow/out.txt" | tail -n 5; fail "nobody said which rank was waited for"; }
[ "$(sums slow)" = "$(sums whole)" ] || fail "a slow rank changed the bytes"

# ---- Ranks that do not fit together ----

refused=0
# refuse WORDS LINE : LINE: runs the two ranks' commands. Rank 0 must print one sentence with these words, and nothing
# may be written.
refuse() {
  local words=$1 status
  shift
  rm -rf "$work/none" "$work/none.nacre"
  "${ranks[@]}" "$@" >"$work/refused.txt" 2>&1
  status=$?
  [ $status != 0 ] && [ "$(grep -c '^nacre: ' "$work/refused.txt")" = 1 ] && grep -qF -- "$words" "$work/refused.txt" ||
    { cat "$work/refused.txt"; fail "not one sentence with '$words'"; }
  [ ! -e "$work/none.nacre" ] && [ ! -e "$work/none/slot0.checkpoint" ] || fail "'$words', and something was written"
  refused=$((refused + 1))
}
tune_all=("$NACRE_TOOL" tune --mpi --checkpoint "$work/none" -o "$work/none.nacre")
data=(--data "$work/sequences.npy" --labels "$work/sequence_labels.npy")
float32=("${tune_all[@]}" "$work/transformer_float32.nacre" --batch 32)
refuse "rank 1 has 'model " -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${tune_all[@]}" "$work/transformer_mixed_bfloat16.nacre" --batch 32 "${data[@]}"
refuse "rank 1 has '--lr 0.5'" -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${float32[@]}" "${data[@]}" --lr 0.5
refuse "rank 1 has 'epochs 3'" -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${float32[@]}" "${data[@]}" --epochs 3
refuse "rank 1 has 'kernels reference'" -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${float32[@]}" "${data[@]}" --kernels reference
refuse "rank 1 has 'compress float8'" -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${float32[@]}" "${data[@]}" --compress float8
head -c -4 "$work/sequence_labels.npy" >"$work/other_labels.npy"
printf '\3\0\0\0' >>"$work/other_labels.npy"
cmp -s "$work/other_labels.npy" "$work/sequence_labels.npy" && printf '\1' | dd of="$work/other_labels.npy" bs=1 seek=$(($(stat -c %s "$work/other_labels.npy") - 4)) conv=notrunc status=none
refuse "rank 1 has 'data " -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${float32[@]}" --data "$work/sequences.npy" --labels "$work/other_labels.npy"
refuse "too few for 5 ranks" -n 5 "${float32[@]}" "${data[@]}"
refuse "rank 1: " -n 1 "${float32[@]}" "${data[@]}" : -n 1 "${tune_all[@]}" "$work/no_such_file.nacre" "${data[@]}"
"$NACRE_TOOL" tune "$work/transformer_float32.nacre" "${data[@]}" --mpi -o "$work/none.nacre" >"$work/refused.txt" 2>&1 && fail "--mpi without mpirun"
grep -q 'was not started by mpirun' "$work/refused.txt" || fail "--mpi without mpirun is not answered"
"${ranks[@]}" -n 2 "$NACRE_TOOL" tune "$work/transformer_float32.nacre" "${data[@]}" -o "$work/none.nacre" >"$work/refused.txt" 2>&1 && fail "mpirun without --mpi"
grep -q 'add --mpi' "$work/refused.txt" && [ ! -e "$work/none.nacre" ] || fail "mpirun without --mpi is not answered"
timeout 60 "${ranks[@]}" -n 2 "${float32[@]}" "${data[@]}" --csv /dev/full >"$work/refused.txt" 2>&1 && fail "a log on a full disk"
[ "$(grep -c '^nacre: ' "$work/refused.txt")" = 1 ] && grep -q '^nacre: /dev/full' "$work/refused.txt" || { cat "$work/refused.txt"; fail "a log on a full disk is not answered"; }
refused=$((refused + 3))

# ---- From C ----

# as_c RANKS CODING: prints the different states of all ranks; 0 ranks mean one process without MPI.
as_c() {
  if [ "$1" = 0 ]; then "$NACRE_BUILD/tests/mpi_user" "$work/transformer_$3.nacre" 20 "$2" alone
  else "${ranks[@]}" -n "$1" "$NACRE_BUILD/tests/mpi_user" "$work/transformer_$3.nacre" 20 "$2" 2>"$work/c_err.txt"; fi | grep '^state ' | sort -u
}
from_c=0
for policy in float32 mixed_float16; do
  alone=$(as_c 0 0 $policy)
  for count in 1 2 3 4; do
    [ -n "$alone" ] && [ "$(as_c $count 0 $policy)" = "$alone" ] || { cat "$work/c_err.txt"; fail "from C in $policy, $count ranks give other bytes than one process"; }
    from_c=$((from_c + 1))
  done
done
sent=()
for coding in 0 1 2; do
  [ "$(as_c 4 $coding float32 | wc -l)" = 1 ] || fail "from C with coding $coding the ranks have different states"
  sent+=("$(sed -n 's/^sent //p' "$work/c_err.txt")")
done
[ $((sent[1] * 100)) -lt $((sent[0] * 55)) ] && [ $((sent[2] * 100)) -lt $((sent[0] * 30)) ] || fail "bytes sent: ${sent[*]}"
"${ranks[@]}" -n 2 "$NACRE_BUILD/tests/mpi_user" "$work/transformer_float32.nacre" 1 0 other >"$work/refused.txt" 2>&1 && fail "from C, other kernels"
grep -q "rank 1 has 'kernels others' where rank 0 has 'kernels reference'" "$work/refused.txt" || fail "from C, other kernels are not named"
"${ranks[@]}" -n 2 "$NACRE_BUILD/tests/mpi_user" "$work/transformer_float32.nacre" 1 0 none >"$work/refused.txt" 2>&1 && fail "from C, no trainer"
grep -q 'mpi_user: an argument is NULL' "$work/refused.txt" || fail "from C, no trainer is not named"
refused=$((refused + 2))

# ---- On GPUs, by way of the host and by NCCL ----

gpu_tool=$NACRE_BUILD/tests/gpu_tool on_gpus=0 by_nccl=0 samples=$NACRE_ROOT/tools/samples
# 45 digits make 2 steps of 16 rows and one of 13.
{ printf '\0\0\x08\x04\0\0\0\x2d\0\0\0\x01\0\0\0\x08\0\0\0\x08'; head -c $((128 + 64 * 45)) "$samples/digits_images.npy" | tail -c +129; } >"$work/images.idx"
{ printf '\0\0\x08\x01\0\0\0\x2d'; head -c $((128 + 45)) "$samples/digits_labels.npy" | tail -c +129; } >"$work/labels.idx"
# on_gpu RANKS: trains as train does, with the program for a GPU.
on_gpu() {
  local start=()
  [ "$1" = 0 ] || start=("${ranks[@]}" -n "$1")
  rm -rf "$work/gpu_$1"
  mkdir "$work/gpu_$1"
  timeout 120 "${start[@]}" "$gpu_tool" tune "$work/gpu.nacre" --data "$work/images.idx" --labels "$work/labels.idx" --cast-samples --batch 16 --lr 0.002 --max-refused 30 \
    --checkpoint-every 1000000 --epochs 1 $([ "$1" = 0 ] || echo --mpi) --checkpoint "$work/gpu_$1/run" --csv "$work/gpu_$1/log.csv" -o "$work/gpu_$1/tuned.nacre" \
    >"$work/gpu_$1/out.txt" 2>"$work/gpu_$1/err.txt"
}
gpus_equal() { [ "$(sums "gpu_$1")" = "$(sums gpu_0)" ] || fail "$policy: $1 ranks with a GPU each, $2, give other bytes than one process"; }
export NACRE_SIMULATED_GPUS=3
for policy in float32 mixed_bfloat16 mixed_float16; do
  "$gpu_tool" convert "$samples/digits.onnx" --train softmax_cross_entropy --optimizer adam --batch 4 \
    --loss-scale dynamic=1048576,period=3 --policy $policy --target cuda/sm90 -o "$work/gpu.nacre" >"$work/out.txt" 2>&1 || { cat "$work/out.txt"; fail "a program for a GPU"; }
  on_gpu 0 || fail "a GPU of one process"
  for count in 1 2 3; do
    on_gpu $count || { tail -n 5 "$work/gpu_$count/err.txt"; fail "a GPU for each of $count ranks"; }
    gpus_equal $count "by way of the host"
    on_gpus=$((on_gpus + 1))
  done
  grep -q 'by way of the host: rank 0 finds no NCCL' "$work/gpu_3/err.txt" || fail "nobody says that there is no NCCL"
  for count in 2 3; do
    NACRE_SIMULATED_NCCL=0 on_gpu $count || { tail -n 5 "$work/gpu_$count/err.txt"; fail "NCCL among $count ranks"; }
    gpus_equal $count "by NCCL"
    grep -q '^fake nccl: [1-9]' "$work/gpu_$count/err.txt" || { cat "$work/gpu_$count/err.txt"; fail "NCCL was not used"; }
    by_nccl=$((by_nccl + 1))
  done
done
NACRE_SIMULATED_NCCL=0 NACRE_SIMULATED_GPUS=2 on_gpu 3 || fail "three ranks with two GPUs"
gpus_equal 3 "of two"
grep -q 'rank 2 shares its GPU with another' "$work/gpu_3/err.txt" || fail "nobody says that a GPU is shared"
NACRE_SIMULATED_NCCL=999999 on_gpu 2 || fail "an NCCL that one rank cannot open"
gpus_equal 2 "without NCCL"
grep -q 'by way of the host: rank 1: ncclCommInitRank: invalid usage' "$work/gpu_2/err.txt" || { cat "$work/gpu_2/err.txt"; fail "nobody says that NCCL does not open"; }
NACRE_SIMULATED_NCCL=5 on_gpu 3 && fail "a message that NCCL refuses"
grep -q 'nacre: rank 2: ncclSend: invalid usage' "$work/gpu_3/err.txt" && [ ! -e "$work/gpu_3/tuned.nacre" ] || { cat "$work/gpu_3/err.txt"; fail "a message that NCCL refuses is not answered"; }

# ---- In fewer bits ----

arguments transformer float32 20
loss_of() { tail -n 1 "$work/$1/log.csv" | cut -d, -f6; }
train 4 whole_bits "${given[@]}" || fail "the training that sends all bits"
whole=$(loss_of whole_bits)
first=$(sed -n 2p "$work/whole_bits/log.csv" | cut -d, -f6)
coded=()
for coding in bfloat16 float8; do
  train 4 $coding "${given[@]}" --compress $coding || { cat "$work/$coding/err.txt"; fail "--compress $coding"; }
  loss=$(loss_of $coding)
  # The losses may differ by 5% of how far the loss has fallen.
  awk -v a="$loss" -v b="$whole" -v f="$first" 'BEGIN { d = a > b ? a - b : b - a; exit !(d <= 0.05 * (f - b) && f > b) }' ||
    fail "--compress $coding ends at the loss $loss, without at $whole, from $first"
  coded+=("$coding $loss")
done
echo "CLAIM mpi_equal shown: $equal trainings of $steps steps (${networks[*]} in ${policies[*]}) on 1, 2 and 4 ranks equal to one process to the byte, $refused_steps steps of mixed_float16 refused; a killed rank ended all with code $status, and 2 of 4 ranks went on to the same bytes; after each of $asked signals to mpirun too; a rank that stood still for 8 s was named and waited for; $refused wrong pairings refused; from C $from_c trainings of 20 steps on 1 to 4 ranks equal too; with a simulated GPU for each rank $on_gpus by way of the host and $by_nccl by a simulated NCCL; bytes sent by rank 0 of 4: ${sent[0]}, in bfloat16 ${sent[1]}, in float8 ${sent[2]}; loss after 20 epochs $whole, compressed: ${coded[*]}"
