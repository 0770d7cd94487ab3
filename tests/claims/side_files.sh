#!/usr/bin/env bash
# Claim: a file that a command writes beside its main output costs nothing of that output. The log or the page of a
# training may fail in any way, from the first epoch or a later one. The tool says so once, the training goes on, its
# model has the bytes of an undisturbed training, and the exit code is 5. The policies beside a converted model, the
# table of a comparison, pictures and the map of a search cost nothing either.
#   NACRE_LONG=1   each epoch of twelve is the first that fails
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "forty trainings: too long in a sanitized build"; exit 77; }
[ -c /dev/full ] || { echo "this system has no device that is always full"; exit 77; }
tool=$NACRE_TOOL samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM side_files NOT SHOWN: $*"; exit 1; }
cd "$work" || exit 1
epochs=4
[ "${NACRE_LONG-0}" != 1 ] || epochs=12
data=(--data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy")
train=(tune "$samples/digits.onnx" --loss softmax_cross_entropy --train-last 1 "${data[@]}" --cast-samples --epochs $epochs)
"$tool" "${train[@]}" -o whole.nacre >printed.txt 2>&1 || { cat printed.txt; fail "the training"; }

trained=0
# judge WHAT STATUS: judges the training that wrote t.nacre.
judge() {
  [ "$2" -eq 5 ] || { cat said.txt; fail "$1: ends with $2, not 5"; }
  cmp -s whole.nacre t.nacre || { cat said.txt; fail "$1: no model, or another"; }
  [ "$(grep -c '^warning: .*; the training goes on without it' said.txt)" -eq 1 ] || { cat said.txt; fail "$1: not said once"; }
  grep '^nacre: .*' said.txt >line.txt && grep 't.nacre is written' said.txt >line.txt || { cat said.txt; fail "$1: the end does not say that the model is written"; }
  [ "$(grep -c '^epoch ' printed.txt)" -eq $epochs ] || fail "$1: the training did not go on"
  trained=$((trained + 1))
  rm -f t.nacre
}
for option in --csv --html; do
  ln -sf /dev/full full
  "$tool" "${train[@]}" -o t.nacre $option full >printed.txt 2>said.txt
  judge "$option on a full device" $?
  mkfifo pipe
  "$tool" "${train[@]}" -o t.nacre $option pipe >printed.txt 2>said.txt
  judge "$option into a pipe without a reader" $?
  (exec 3<pipe; read -r -n 1 -u 3 first; echo "${first-}" >line.txt) &  # a reader that ends
  "$tool" "${train[@]}" -o t.nacre $option pipe >printed.txt 2>said.txt
  judge "$option into a pipe whose reader ends" $?
  wait
  rm pipe
  # The folder is removed when it holds so many epochs. On a busy machine some trainings end before, or write the last.
  for ((epoch = 1; epoch < epochs; ++epoch)); do
    for ((attempt = 0; attempt < 5; ++attempt)); do
      rm -rf side gone printed.txt && mkdir side
      "$tool" "${train[@]}" -o t.nacre $option side/log >printed.txt 2>said.txt &
      training=$!
      until [ "$(grep -sc '^epoch ' printed.txt)" -ge $epoch ] 2>/dev/null || ! kill -0 $training 2>/dev/null; do :; done
      mv side gone
      wait $training
      status=$?
      [ $status -eq 0 ] || ! grep -q '; the training goes on without it' said.txt || break
      cmp -s whole.nacre t.nacre || fail "$option: no model, or another"
    done
    judge "$option into a folder that is gone after epoch $epoch" $status
  done
done

# ---- Beside other commands ----
"$tool" convert "$samples/digits.onnx" -o a.nacre >printed.txt 2>&1 && "$tool" convert "$samples/digits.onnx" -o b.nacre --policy float16 >printed.txt 2>&1 || fail "convert"
others=0
# beside WORDS_PRINTED WORDS..: the command must end with 5, say so, and still print its result.
beside() {
  local words=$1 status
  shift
  "$tool" "$@" >printed.txt 2>said.txt
  status=$?
  [ $status -eq 5 ] || { cat said.txt; fail "$1 ${*: -2}: ends with $status, not 5"; }
  grep '^nacre: .*No space left' said.txt >line.txt || { cat said.txt; fail "$1 ${*: -2}: is not said"; }
  grep -- "$words" printed.txt >line.txt || fail "$1 ${*: -2}: its result is not printed"
  others=$((others + 1))
}
beside 'arena ' convert "$samples/digits.onnx" -o m.nacre --emit-policy /dev/full
cmp -s a.nacre m.nacre || fail "convert --emit-policy: no model, or another"
beside 'SQNR dB' compare a.nacre b.nacre "${data[@]:0:2}" --cast-inputs --csv /dev/full
beside 'arena' inspect a.nacre --svg /dev/full
beside 'arena' inspect a.nacre --html /dev/full
beside 'Pareto front' search "$samples/digits.onnx" "${data[@]}" --cast-inputs --policies float32,float16 --max-drop 50 --budget 2 -o /dev/full
echo "CLAIM side_files shown: $trained of $trained trainings have their model where a log or page fails in an epoch (full device, folder gone, pipe without a reader or whose reader ends), $others other commands their result"
