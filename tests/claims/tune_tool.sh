#!/usr/bin/env bash
# Claim: `nacre tune` on the digits sample: a terminal sees a progress bar, a pipe does not; the page with the curves
# is complete; a run that is killed or interrupted and started again writes the same bytes as one that is not; each
# wrong input gets one sentence, and nothing is written.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "a dozen trainings: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
network=$samples/digits.onnx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM tune_tool NOT SHOWN: $*"; exit 1; }
export NACRE_PROGRESS_MS=0  # shows every step, where any is shown

# Writes the first ROWS images and labels as IDX: without the 128 bytes of the .npy header, then the elements.
rows=320
{ printf '\0\0\x08\x04\0\0\x01\x40\0\0\0\x01\0\0\0\x08\0\0\0\x08'; head -c $((128 + 64 * rows)) "$samples/digits_images.npy" | tail -c +129; } >"$work/images.idx"
{ printf '\0\0\x08\x01\0\0\x01\x40'; head -c $((128 + rows)) "$samples/digits_labels.npy" | tail -c +129; } | gzip >"$work/labels.idx.gz"
data=(--data "$work/images.idx" --labels "$work/labels.idx.gz" --cast-samples)
loss=(--loss softmax_cross_entropy --train-last 2 --lr 0.02 --schedule cosine,warmup=4 --validate 0.25 --batch 16)
run() {  # run NAME ARGUMENTS..: trains with files of its own
  local name=$1
  shift
  mkdir -p "$work/$name"
  "$NACRE_TOOL" tune "$network" "${data[@]}" "${loss[@]}" --epochs 4 --checkpoint "$work/$name/run" -o "$work/$name/tuned.nacre" \
    --csv "$work/$name/log.csv" --html "$work/$name/page.html" "$@"
}
# cut VARIABLE=VALUE.. run ..: runs with variables of tests/power_cut.c, which counts the calls that change a
# checkpoint.
cut() (
  export LD_PRELOAD=$NACRE_BUILD/tests/libpower_cut.so${LD_PRELOAD:+:$LD_PRELOAD} POWER_CUT_FILES=.checkpoint
  while [ "$1" != run ]; do export "${1?}"; shift; done
  "$@"
)
sums() { (cd "$work/$1" && sha256sum tuned.nacre log.csv page.html); }

# 1. Uninterrupted, in a pipe.
cut POWER_CUT_COUNT="$work/calls" run whole >"$work/whole.txt" 2>"$work/whole.err" || { cat "$work/whole.err"; fail "the training"; }
cat "$work/whole.txt"
[ "$(grep -c '^epoch ' "$work/whole.txt")" -eq 4 ] || fail "not a line for each of 4 epochs"
half=$(($(cat "$work/calls") / 2)) || fail "no call was counted that changes a checkpoint"
! grep -q $'\r' "$work/whole.txt" "$work/whole.err" || fail "a progress bar in a pipe"
[ "$(wc -l <"$work/whole/log.csv")" -eq 5 ] || fail "the log has not 5 lines"
"$NACRE_TOOL" check "$work/whole/tuned.nacre" >/dev/null || fail "nacre check refuses the tuned model"

# The written model is as nacre convert makes it: for one row at a time, with as many bytes. The printed accuracy is
# the accuracy of the file.
like=0
number() { sed -n "s/^.*\"$1\": \([0-9.]*\).*/\1/p" | head -n 1; }
for policy in float32 int8/static_from_float32; do
  as=()
  [ $policy = float32 ] || as=(--policy $policy)
  "$NACRE_TOOL" tune "$network" "${data[@]}" --loss softmax_cross_entropy --train-last 2 --lr 0.02 --validate 0.25 --batch 16 --epochs 1 "${as[@]}" \
    -o "$work/deployed.nacre" --json >"$work/deployed.json" || fail "the training under $policy"
  calibrate=()
  [ $policy = float32 ] || calibrate=(--calibrate "$samples/digits_images.npy" --cast-samples)
  "$NACRE_TOOL" convert "$network" "${as[@]}" "${calibrate[@]}" -o "$work/converted.nacre" --json >"$work/converted.json" || fail "convert under $policy"
  for what in arena_bytes weight_bytes; do
    [ "$(number $what <"$work/deployed.json")" = "$(number $what <"$work/converted.json")" ] || fail "$policy: other $what than nacre convert's"
  done
  written=$(sed -n '/"written"/,$p' "$work/deployed.json" | number accuracy)
  echo "  $policy: arena $(number arena_bytes <"$work/deployed.json"), weights $(number weight_bytes <"$work/deployed.json"), as nacre convert's; $written right"
  like=$((like + 1))
done

# 2. The page: whole, three curves, nothing from outside.
page=$work/whole/page.html
[ "$(tail -n 1 "$page")" = '</html>' ] && [ "$(grep -c '<svg ' "$page")" -eq 3 ] || fail "the page is not whole"
! grep -qE 'src=|href="[^#]|@import|url\(' "$page" || fail "the page loads something"
if command -v xmllint >/dev/null; then
  awk '/^<svg /{keep=1} keep{print > (out n)} /^<\/svg>/{keep=0; n++}' out="$work/picture" "$page"
  for picture in "$work"/picture*; do xmllint --noout "$picture" || fail "a picture is no XML"; done
fi

# 3. On a terminal.
tune=$(printf '%q ' "$NACRE_TOOL" tune "$network" "${data[@]}" "${loss[@]}" --epochs 6 -o "$work/terminal.nacre")
TERM=xterm script -qec "$tune" "$work/terminal.txt" >/dev/null </dev/null || fail "the training on a terminal"
echo "on a terminal:"
tr '\r' '\n' <"$work/terminal.txt" | grep -a 'rows/s' | tail -n 2 | sed 's/\x1b\[K//g'
shown=$(tr '\r' '\n' <"$work/terminal.txt" | grep -acE 'tune \[=* *\] [0-9]+ of 90  epoch [0-9]  loss [0-9.e-]+ .* rows/s  [0-9:]+ left')
[ "$shown" -eq 90 ] || fail "the progress bar on a terminal shows $shown of 90 steps"

# 4. Killed, interrupted, started again.
same=0
cut POWER_CUT_AT=$half run killed --checkpoint-every 2 >/dev/null 2>&1
[ $? -eq 137 ] || fail "it ended before it could be killed"
[ ! -e "$work/killed/tuned.nacre" ] || fail "a killed training left a model"
run killed --checkpoint-every 2 >"$work/again.txt" || fail "the training does not go on after a kill"
grep '^goes on' "$work/again.txt" || fail "it began anew"
[ "$(sums killed)" = "$(sums whole)" ] || fail "after a kill other bytes"
same=$((same + 1))
cut POWER_CUT_AT=$half POWER_CUT_SIGNAL=2 run stopped --checkpoint-every 2 >"$work/stopped.txt"
[ $? -eq 130 ] || fail "an interrupted training does not end by the signal"
grep '^stopped in' "$work/stopped.txt" || fail "an interrupted training says nothing"
run stopped >/dev/null || fail "the training does not go on after Ctrl-C"
[ "$(sums stopped)" = "$(sums whole)" ] || fail "after Ctrl-C other bytes"
same=$((same + 1))
run whole >"$work/over.txt" || fail "a finished training cannot be named again"
[ "$(sums stopped)" = "$(sums whole)" ] && ! grep -q '^epoch ' "$work/over.txt" || fail "a finished training trains again"
same=$((same + 1))

# After Ctrl-C without a checkpoint the model is written, from the steps so far or from the best epoch. The tool must
# say which one it keeps.
interrupted=0
# interrupted_after WORDS SIGNAL ARGUMENTS..: sends the signal when the first epoch is printed.
interrupted_after() {
  local words=$1 signal=$2 out=$work/unsaved.txt
  shift 2
  rm -f "$work/unsaved.nacre" "$out"
  "$NACRE_TOOL" tune "$network" "${data[@]}" "${loss[@]}" --epochs 100000 -o "$work/unsaved.nacre" "$@" >"$out" 2>&1 &
  local tuning=$!
  for _ in $(seq 300); do ! grep '^epoch ' "$out" >/dev/null 2>&1 || break; sleep 0.1; done
  kill "-$signal" $tuning
  wait $tuning
  [ $? -eq $((128 + signal)) ] || { cat "$out"; fail "an unsaved training does not end by signal $signal"; }
  grep -E "^stopped in epoch [0-9]+ after step [0-9]+: $words is in $work/unsaved.nacre; with --checkpoint DIR" "$out" >/dev/null ||
    { tail -n 3 "$out"; fail "an interrupted training does not say what it kept"; }
  "$NACRE_TOOL" check "$work/unsaved.nacre" >/dev/null || fail "nacre check refuses what an interrupted training kept"
  interrupted=$((interrupted + 1))
}
interrupted_after 'the best epoch, [0-9]+,' 2
interrupted_after 'what [0-9,]+ steps taught' 15 --keep last
right=$("$NACRE_TOOL" eval "$work/unsaved.nacre" --data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --cast-inputs --json | number value)
awk -v right="$right" 'BEGIN { exit !(right > 0.5) }' || fail "what was kept of an interrupted training is right in $right"

# 5. Wrong inputs: the exit code, words of the answer, then the change to a good command.
answered=0
refused() {
  local code=$1 words=$2
  shift 2
  local before after said
  before=$(cd "$work" && find . | sort | sha256sum)
  said=$("$NACRE_TOOL" tune "$@" 2>&1 >"$work/../$$.out")
  local status=$?
  after=$(cd "$work" && find . | sort | sha256sum)
  rm -f "$work/../$$.out"
  [ $status -eq "$code" ] || fail "exit code $status instead of $code for: $words: $said"
  grep -qF -- "$words" <<<"$said" || fail "'$said' instead of '$words'"
  [ "$before" = "$after" ] || fail "files were written: $words"
  printf '  %s\n' "$(head -n 1 <<<"$said")"
  answered=$((answered + 1))
}
good=("$network" "${data[@]}" --loss softmax_cross_entropy --train-last 2 --batch 16 -o "$work/x.nacre")
same_run=("$network" "${data[@]}" "${loss[@]}" --epochs 4 -o "$work/x.nacre")
printf '1,2\n3\n' >"$work/ragged.csv"
{ printf '\0\0\x08\x01\0\0\x01\x40'; head -c $((rows - 1)) /dev/zero; printf '\x0a'; } >"$work/high.idx"
{ printf '\0\0\x08\x01\0\0\0\x02\0\x01'; } >"$work/few.idx"
{ printf '\0\0\x0d\x04\0\0\0\x02\0\0\0\x01\0\0\0\x08\0\0\0\x08'; head -c 508 /dev/zero; printf '\x7f\xc0\0\0'; } >"$work/nan.idx"
echo "wrong inputs:"
refused 3 'the label at [319] is 10, but the loss takes the number of a class, 0 to 9' "$network" --data "$work/images.idx" --labels "$work/high.idx" --cast-samples "${loss[@]}" -o "$work/x.nacre"
refused 3 'holds 2 labels' "$network" --data "$work/images.idx" --labels "$work/few.idx" --cast-samples "${loss[@]}" -o "$work/x.nacre"
refused 3 'the number at [1, 0, 7, 7] is nan' "$network" --data "$work/nan.idx" --labels "$work/few.idx" "${loss[@]}" -o "$work/x.nacre"
refused 3 'holds uint8, but the input' "$network" --data "$work/images.idx" --labels "$work/labels.idx.gz" "${loss[@]}" -o "$work/x.nacre"
refused 3 'line 2: has 1 fields' "$network" --data "$work/ragged.csv" "${loss[@]}" -o "$work/x.nacre"
refused 5 'cannot be opened' "$network" --data "$work/nowhere.npy" "${loss[@]}" -o "$work/x.nacre"
refused 2 'is no file, and nothing in' "$network" --data "$work/images.idx" --labels nothing --cast-samples "${loss[@]}" -o "$work/x.nacre"
refused 2 'is no learning rate' "${good[@]}" --lr nan
refused 2 'is no learning rate' "${good[@]}" --lr -0.1
refused 2 "--schedule: 'cosin' is none of" "${good[@]}" --schedule cosin
refused 2 "is no field of cosine" "${good[@]}" --schedule cosine,every=2
refused 3 'leaves 0 to validate on' "${good[@]}" --validate 0.0001
refused 2 "--optimizer: 'sdg' is none of" "${good[@]}" --optimizer sdg
refused 2 'which loss is to be trained?' "$network" "${data[@]}" -o "$work/x.nacre"
refused 2 'holds no program that trains' "$work/whole/tuned.nacre" "${data[@]}" -o "$work/x.nacre"
refused 2 'what is learned goes nowhere' "$network" "${data[@]}" "${loss[@]}"
refused 5 'its directory is not there' "$network" "${data[@]}" "${loss[@]}" -o "$work/no/x.nacre"
refused 2 'is what --data names' "${good[@]:0:${#good[@]}-1}" "$work/images.idx"
refused 2 'is what --csv names' "${good[@]}" --csv "$work/one" --html "$work/one"
refused 2 'is what MODEL names' "$work/whole/tuned.nacre" "${data[@]}" -o "$work/whole/tuned.nacre"
refused 2 'holds the checkpoint of another training: --batch 16, now --batch 8' "$network" "${data[@]}" "${loss[@]/16/8}" --epochs 4 -o "$work/x.nacre" --checkpoint "$work/whole/run"
refused 2 '--scale' "${good[@]}" --scale 1/0
refused 2 'is no directory with checkpoints' "${good[@]}" --start-from "$work"
refused 2 '--arena-limit: 1,000 bytes cannot be reached: the least that was found is' "${good[@]}" --arena-limit 1000
refused 2 '--learned-ranges: is about layers under int8/static, and there are none' "${good[@]}" --learned-ranges
refused 2 'learned ranges are float32, and this layer computes in float64' "${good[@]}" --learned-ranges --policy int8/static_from_float64
refused 2 'int8/full is given its ranges beforehand: tune the model that nacre convert makes' "${good[@]}" --policy int8/full_from_float32
refused 2 'needs rows to judge by' "$network" "${data[@]}" --loss softmax_cross_entropy --keep best -o "$work/x.nacre"

# With a checkpoint of another model, or with both slots damaged, nothing is overwritten.
cp -r "$work/whole" "$work/damaged"
for slot in "$work/damaged/run/"slot?.checkpoint; do printf 'XXXX' | dd of="$slot" bs=1 seek=100 conv=notrunc status=none; done
before=$(cat "$work/damaged/run/"slot?.checkpoint | sha256sum)
refused 3 "$work/damaged/run:" "${same_run[@]}" --checkpoint "$work/damaged/run"
[ "$before" = "$(cat "$work/damaged/run/"slot?.checkpoint | sha256sum)" ] || fail "a damaged checkpoint was written over"

# A training that diverges stops with advice, and its last good checkpoint stays.
mkdir "$work/diverging"
"$NACRE_TOOL" tune "$network" "${data[@]}" --loss softmax_cross_entropy --batch 16 --optimizer sgd --lr 1e20 --epochs 4 \
  --checkpoint "$work/diverging/run" -o "$work/diverging/x.nacre" >"$work/diverging.txt" 2>&1
[ $? -eq 1 ] && grep 'steps in a row gave gradients that are not finite: the training diverges' "$work/diverging.txt" || { cat "$work/diverging.txt"; fail "a diverging training"; }
[ ! -e "$work/diverging/x.nacre" ] || fail "a diverging training left a model"
answered=$((answered + 1))

echo "CLAIM tune_tool shown: $same of 3 runs killed, interrupted or named again give the sha256 of the whole one (model, log, page), $interrupted of 2 interrupted without a checkpoint keep a model that says of what, page with 3 pictures, bar with all $shown steps on a terminal alone, $like policies written as large as nacre convert's, $answered of $answered wrong inputs answered"
