#!/usr/bin/env bash
# Claim, second half of power_cuts: a training whose process is killed with SIGKILL at 20 random times, each time started again
# with the same command, writes the same bytes as one that is left alone. Where it ends before its 20 kills, its files are compared
# and it begins anew.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "some thirty trainings: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM power_cuts_process NOT SHOWN: $*"; exit 1; }
rows=320
{ printf '\0\0\x08\x04\0\0\x01\x40\0\0\0\x01\0\0\0\x08\0\0\0\x08'; tail -c +129 "$samples/digits_images.npy" | head -c $((64 * rows)); } >"$work/images.idx"
{ printf '\0\0\x08\x01\0\0\x01\x40'; tail -c +129 "$samples/digits_labels.npy" | head -c $rows; } >"$work/labels.idx"
tune() {
  exec "$NACRE_TOOL" tune "$samples/digits.onnx" --data "$work/images.idx" --labels "$work/labels.idx" --cast-samples \
    --loss softmax_cross_entropy --train-last 2 --optimizer adam --lr 0.005 --validate 0.25 --batch 16 --epochs 5 \
    --checkpoint "$1/run" --checkpoint-every 1 -o "$1/tuned.nacre" --csv "$1/log.csv" >/dev/null 2>"$1/errors"
}
sum_of() { cat "$1/tuned.nacre" "$1/log.csv" | sha256sum | cut -c 1-64; }

mkdir "$work/whole"
started=$(date +%s%N)
(tune "$work/whole") || { cat "$work/whole/errors"; fail "the training"; }
taken_ms=$((($(date +%s%N) - started) / 1000000))
expected=$(sum_of "$work/whole")

RANDOM=11
kills=0 completed=0 processes=0 inside=0
mkdir "$work/cut"
while :; do
  (tune "$work/cut") & pid=$!
  processes=$((processes + 1))
  if [ $kills -lt 20 ]; then
    wait_ms=$((20 + RANDOM * taken_ms / 32768 / 2))
    sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
    if kill -9 $pid 2>/dev/null; then
      wait $pid 2>/dev/null
      [ $? -ne 137 ] || kills=$((kills + 1))
      [ ! -s "$work/cut/run/slot0.checkpoint" ] || inside=$((inside + 1))
    fi
  fi
  wait $pid 2>/dev/null
  status=$?
  [ ! -s "$work/cut/errors" ] || { cat "$work/cut/errors"; fail "a training that was cut off cannot go on"; }
  [ -e "$work/cut/tuned.nacre" ] || continue
  [ "$(sum_of "$work/cut")" = "$expected" ] || fail "other bytes after $kills kills"
  completed=$((completed + 1))
  [ $kills -lt 20 ] || break
  rm -rf "$work/cut" && mkdir "$work/cut"
done
[ "$kills" -eq 20 ] || fail "$kills kills"
echo "CLAIM power_cuts_process shown: $kills of 20 SIGKILLs at random times of $taken_ms ms, $inside with a checkpoint begun, $processes processes; $completed of $completed trainings end with sha256 ${expected:0:16}"
