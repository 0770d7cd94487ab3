#!/usr/bin/env bash
# Claim, second half of power_cuts: a training is killed with SIGKILL 20 times, each time at a random one of its next
# calls that change a file (tests/power_cut.c). Each time the same command starts it again. In the end it has written the
# bytes of an undisturbed training. A training that ends before its 20 kills begins anew after its files are compared.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "some thirty trainings: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM power_cuts_process NOT SHOWN: $*"; exit 1; }
rows=320
{ printf '\0\0\x08\x04\0\0\x01\x40\0\0\0\x01\0\0\0\x08\0\0\0\x08'; head -c $((128 + 64 * rows)) "$samples/digits_images.npy" | tail -c +129; } >"$work/images.idx"
{ printf '\0\0\x08\x01\0\0\x01\x40'; head -c $((128 + rows)) "$samples/digits_labels.npy" | tail -c +129; } >"$work/labels.idx"
# tune DIR VARIABLE=VALUE: trains with a variable of tests/power_cut.c.
tune() {
  LD_PRELOAD=$NACRE_BUILD/tests/libpower_cut.so${LD_PRELOAD:+:$LD_PRELOAD} env POWER_CUT_FILES="$1/" "$2" \
    "$NACRE_TOOL" tune "$samples/digits.onnx" --data "$work/images.idx" --labels "$work/labels.idx" --cast-samples \
    --loss softmax_cross_entropy --train-last 2 --optimizer adam --lr 0.005 --validate 0.25 --batch 16 --epochs 5 \
    --checkpoint "$1/run" --checkpoint-every 1 -o "$1/tuned.nacre" --csv "$1/log.csv" >/dev/null 2>"$1/errors"
}
sum_of() { cat "$1/tuned.nacre" "$1/log.csv" | sha256sum | cut -c 1-64; }

mkdir "$work/whole"
tune "$work/whole" POWER_CUT_COUNT="$work/calls" || { cat "$work/whole/errors"; fail "the training"; }
expected=$(sum_of "$work/whole")
calls=$(cat "$work/calls") || fail "nothing was counted"

RANDOM=11
kills=0 completed=0 processes=0 inside=0
mkdir "$work/cut"
while :; do
  at=0
  [ $kills -eq 20 ] || at=$((1 + RANDOM * calls / 32768))
  tune "$work/cut" POWER_CUT_AT=$at 2>/dev/null
  status=$?
  processes=$((processes + 1))
  # The tool must say so if a slot was cut off while it was saved.
  ! grep -qv '^.*warning: .*slot[01].checkpoint is .* is taken' "$work/cut/errors" || { cat "$work/cut/errors"; fail "a training that was cut off cannot go on"; }
  if [ $status -eq 137 ]; then
    kills=$((kills + 1))
    [ ! -s "$work/cut/run/slot0.checkpoint" ] || inside=$((inside + 1))
    continue
  fi
  [ $status -eq 0 ] || fail "exit code $status"
  [ "$(sum_of "$work/cut")" = "$expected" ] || fail "other bytes after $kills kills"
  completed=$((completed + 1))
  [ $kills -lt 20 ] || break
  rm -rf "$work/cut" && mkdir "$work/cut"
done
echo "CLAIM power_cuts_process shown: $kills of 20 SIGKILLs at places drawn by lot from $calls calls that change a file, $inside with a checkpoint begun, $processes processes; $completed of $completed trainings end with sha256 ${expected:0:16}"
