#!/usr/bin/env bash
# Checks commands on a full disk: those listed below end with one sentence and code 5, leave no file that was not there, and keep
# what was. A training that cannot save goes on, once there is room, to the bytes of one that always had room. A limit on the size
# of files stands for the disk (write() then fails in the same place); root also fills a file system of 1 MB.
set -uo pipefail
tool=$NACRE_TOOL samples=$NACRE_ROOT/tools/samples
network=$samples/digits.onnx
work=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$work/disk"; rm -rf "$work"' EXIT
fail() { echo "full_disk FAILED: $*"; exit 1; }
cd "$work" || exit 1
mkdir out
data=(--data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy")
"$tool" convert "$network" -o a.nacre >/dev/null && "$tool" convert "$network" -o b.nacre --policy int8_from_float32 >/dev/null || fail "convert"
"$tool" convert "$network" -o train.nacre --train softmax_cross_entropy --batch 16 >/dev/null || fail "convert --train"
tune=("$tool" tune "$network" "${data[@]}" --cast-samples --loss softmax_cross_entropy --train-last 1 --batch 64 --lr 0.02)
"${tune[@]}" --epochs 1 --checkpoint good -o tuned.nacre >/dev/null || fail "tune"

listed() { (cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2; find . | sort); }
refused=0
# refused_in FOLDER WORDS COMMAND.. expects a refusal that leaves the folder as it was.
refused_in() {
  local folder=$1 words=$2 before said status
  shift 2
  before=$(listed "$folder")
  said=$("$@" 2>&1 >/dev/null)
  status=$?
  [ $status -eq 5 ] || fail "code $status instead of 5: ${*:2:6}: $said"
  grep -E "^nacre: .*($words)" <<<"$said" >/dev/null || fail "'$said' instead of '$words': ${*:2:6}"
  [ "$(grep -c '^nacre: ' <<<"$said")" -eq 1 ] || fail "more than a sentence: $said"
  [ "$before" = "$(listed "$folder")" ] || fail "left something, or changed it: ${*:2:6}"
  refused=$((refused + 1))
}
# every WORDS WRAPPER.. runs the commands below, which write into out/, each through the wrapper, and expects refusals.
every() {
  local words=$1
  shift
  local outputs=(
    "convert $network -o out/m.nacre" "convert $network -o out/m.nacre --golden 2"
    "inspect a.nacre --svg out/m.svg" "inspect a.nacre --html out/m.html" "kernels a.nacre -o out/m.h"
    "run a.nacre --seed 1 --all-tensors out/tensors"
    "compare a.nacre b.nacre ${data[*]:0:2} --cast-inputs --csv out/m.csv"
    "report a.nacre b.nacre ${data[*]} --cast-inputs -o out/page.html"
    "search $network ${data[*]} --cast-inputs --max-drop 50 --policies float32,int8_from_float32 -o out/map.json"
    "export train.nacre --checkpoint export_good -o out/e.nacre"
    "firmware a.nacre -o out/src" "man -o out/man"
    "tune $network ${data[*]} --cast-samples --loss softmax_cross_entropy --train-last 1 --batch 64 --epochs 1 -o out/t.nacre"
    "tune $network ${data[*]} --cast-samples --loss softmax_cross_entropy --train-last 1 --batch 64 --epochs 1 -o out/t.nacre --csv out/t.csv"
    "tune $network ${data[*]} --cast-samples --loss softmax_cross_entropy --train-last 1 --batch 64 --epochs 1 -o out/t.nacre --html out/t.html"
    "tune $network ${data[*]} --cast-samples --loss softmax_cross_entropy --train-last 1 --batch 64 --epochs 1 --checkpoint out/run -o out/t.nacre")
  local output words_of
  for output in "${outputs[@]}"; do
    IFS=' ' read -ra words_of <<<"$output"
    refused_in out "$words" "$@" "$tool" "${words_of[@]}"
  done
}
"$tool" tune train.nacre "${data[@]}" --cast-samples --epochs 1 --checkpoint export_good >/dev/null || fail "tune of a training model"

# ---- Files that cannot grow ----
limited() { (ulimit -f 0; exec "$@"); }
every 'File too large' limited
for path in m.nacre m.csv; do echo kept >"out/$path"; done  # what was there before stays
refused_in out 'File too large' limited "$tool" convert "$network" -o out/m.nacre
refused_in out 'File too large' limited "$tool" compare a.nacre b.nacre "${data[@]:0:2}" --cast-inputs --csv out/m.csv
rm -rf out && mkdir out

# ---- A device that is always full ----
if [ -c /dev/full ]; then
  refused_in out 'No space left' "$tool" convert "$network" -o /dev/full
  refused_in out 'No space left' "$tool" inspect a.nacre --svg /dev/full
  for command in "size a.nacre" "inspect a.nacre" "convert $network -o -" "policies"; do
    IFS=' ' read -ra words_of <<<"$command"
    said=$("$tool" "${words_of[@]}" 2>&1 >/dev/full)
    status=$?
    [ $status -eq 5 ] && grep 'No space left' <<<"$said" >/dev/null || fail "$command > /dev/full ends with $status: $said"
    refused=$((refused + 1))
  done
fi

# ---- A training that cannot save ----
train=("${tune[@]}" --epochs 4 --checkpoint run -o run.nacre --csv run.csv)
run_in() { (mkdir -p "$1" && cd "$1" && shift && "$@"); }
run_in whole "${train[@]}" >/dev/null || fail "the training"
run_in cut "${tune[@]}" --epochs 1 --checkpoint run >/dev/null || fail "the first epoch"
run_in cut refused_in run 'File too large' limited "${train[@]}" || exit 1
refused=$((refused + 1))
run_in cut "${train[@]}" >went_on.txt || fail "the training does not go on"
grep '^goes on from run: epoch 2' went_on.txt >/dev/null || fail "it began anew"
same() { [ "$(cd whole && sha256sum run.nacre run.csv)" = "$(cd "$1" && sha256sum run.nacre run.csv)" ] || fail "$1: other bytes"; }
same cut
went_on=1

# ---- A disk of 1 MB ----
mkdir disk
how="a limit on the size of files"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null; then
  mounted=1
  how+=" and a disk of 1 MB"
  rm -rf out && ln -s disk/out out && mkdir disk/out
  fill() { cat /dev/zero >disk/filling 2>/dev/null; [ "$(df --output=avail disk | tail -n 1)" -eq 0 ] || fail "the disk is not full"; }
  free() { rm -f disk/filling; }
  fill
  every 'No space left' env
  free
  run_in disk/cut "${tune[@]}" --epochs 1 --checkpoint run >/dev/null || fail "the first epoch on a small disk"
  fill
  run_in disk/cut refused_in run 'No space left' "${train[@]}" || exit 1
  refused=$((refused + 1))
  free
  run_in disk/cut "${train[@]}" >went_on.txt || fail "the training does not go on when there is room"
  grep '^goes on from run: epoch 2' went_on.txt >/dev/null || fail "it began anew"
  same disk/cut
  went_on=2
fi
echo "full disk ($how): $refused of $refused commands say so and leave nothing, $went_on trainings went on to the bytes of one that had room"
