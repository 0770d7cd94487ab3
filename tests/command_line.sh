#!/usr/bin/env bash
# Checks the command line as a shell sees it: "-" is standard input or output, and bash completes words. Three checks
# need programs and are passed over without them: zsh and fish parse their completions; progress and colours are shown on a
# terminal alone (script); manual pages format without a warning (groff).
set -uo pipefail
tool=$NACRE_TOOL samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "command_line FAILED: $*"; exit 1; }
cd "$work" || exit 1

# ---- Standard streams ----
"$tool" convert "$samples/digits.onnx" -o file.nacre >/dev/null || fail "convert"
"$tool" convert - -o - <"$samples/digits.onnx" >piped.nacre 2>said || { cat said; fail "convert - -o -"; }
# Both models have the same bytes. "model" in run's JSON is the argument, so it differs.
cmp file.nacre piped.nacre || fail "a model through pipes has other bytes"
[ "$("$tool" run file.nacre --seed 1 --json | grep -vE '"model"|_us"')" = "$("$tool" run - --seed 1 --json <piped.nacre | grep -vE '"model"|_us"')" ] ||
  fail "a model through pipes gives other outputs"
[ -s said ] || fail "what convert -o - says is nowhere"
"$tool" convert - -o - <"$samples/digits.onnx" 2>/dev/null | "$tool" size - >/dev/null || fail "two commands in a pipe"
"$tool" run file.nacre --input - --cast-inputs <"$samples/digits_images.npy" >/dev/null || fail "run --input -"
# refused WORDS COMMAND... expects exit code 2 and these words.
refused() {
  local words=$1 status=0
  shift
  "$@" >out 2>err </dev/null || status=$?
  [ "$status" -eq 2 ] && grep -q -- "$words" err || { cat err; fail "$* ends with $status"; }
}
refused 'is standard input, which A reads' "$tool" compare - - --data x.npy
refused 'is standard output, which is no directory' "$tool" run file.nacre --seed 1 --output -
"$tool" convert - -o cut.nacre <<<"no network" 2>err && fail "no network is taken"
[ ! -e cut.nacre ] || fail "no network leaves a file"

# ---- Progress ----
# seen WORDS COMMAND... expects at least two progress bars that begin with WORDS on a terminal, and none in a pipe.
bars=0
seen() {
  local words=$1 on_terminal
  shift
  TERM=xterm NACRE_PROGRESS_MS=0 script -qec "$(printf '%q ' "$@")" terminal.txt >/dev/null </dev/null || { cat terminal.txt; fail "$* on a terminal"; }
  on_terminal=$(tr '\r' '\n' <terminal.txt | grep -acE "^$words \\[=* *\\] [0-9]+ of [0-9]+")
  [ "$on_terminal" -ge 2 ] || fail "$2 shows no progress on a terminal"
  NACRE_PROGRESS_MS=0 "$@" >out 2>err || fail "$* in a pipe"
  ! grep -q $'\r' out err || fail "$2 shows progress in a pipe"
  bars=$((bars + 1))
}
if command -v script >/dev/null; then
  set=(--data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --cast-inputs)
  "$tool" convert "$samples/digits.onnx" -o codes.nacre --policy int8_from_float32 >/dev/null || fail "convert --policy"
  seen run "$tool" run file.nacre --input "$samples/digits_images.npy" --cast-inputs
  seen eval "$tool" eval file.nacre "${set[@]}"
  seen compare "$tool" compare file.nacre codes.nacre "${set[@]:0:2}" --cast-inputs
  seen calibrate "$tool" convert "$samples/digits.onnx" -o c.nacre --policy int8/static_from_float32 --calibrate "$samples/digits_images.npy" --cast-samples
  seen 'calibrate, second run' "$tool" convert "$samples/digits.onnx" -o c.nacre --policy int8/static_from_float32 --range-method mse --calibrate "$samples/digits_images.npy" --cast-samples
  seen search "$tool" search "$samples/digits.onnx" "${set[@]}" --max-drop 50 --policies float32,int8_from_float32 -o map.json
  seen eval "$tool" report file.nacre codes.nacre "${set[@]}" -o page.html
fi

# ---- Colours ----
# on_terminal VARIABLE=VALUE VARIABLE=VALUE COMMAND... writes to the file `shown` what the command shows on a terminal.
on_terminal() { env "${@:1:2}" script -qc "$(printf '%q ' "${@:3}")" terminal.txt >shown </dev/null; }
escape=$'\x1b'
head -c 256 /dev/zero | tr '\0' '\377' >nan.bin  # 64 times NaN
for command in "doctor" "size none.nacre" "run file.nacre --input nan.bin"; do
  # shellcheck disable=SC2086  # several words
  TERM=xterm "$tool" $command >out 2>&1
  ! grep -q "$escape" out || fail "$command writes colours into a file"
done
if command -v script >/dev/null; then
  # coloured COLOUR WORD COMMAND... expects this word in this colour.
  coloured() {
    on_terminal TERM=xterm NO_COLOR= "$tool" "${@:3}"
    grep -qF "$escape[$1m$2$escape[0m" shown || { cat -v shown; fail "nacre ${*:3} does not colour $2"; }
  }
  coloured 31 nacre: size none.nacre
  coloured 31 nacre: size
  coloured 33 warning: run file.nacre --input nan.bin
  coloured 32 there doctor
  for off in "TERM=xterm NO_COLOR=1" "TERM=dumb NO_COLOR=" "TERM= NO_COLOR="; do
    # shellcheck disable=SC2086  # two words
    on_terminal $off "$tool" size none.nacre
    { grep -q '^nacre: none' shown && ! grep -q "$escape" shown; } || fail "$off: an error has colours"
    # shellcheck disable=SC2086
    on_terminal $off "$tool" doctor
    { grep -q '^there ' shown && ! grep -q "$escape" shown; } || fail "$off: doctor has colours"
  done
fi

# ---- Completions ----
"$tool" completions bash >completions.bash && bash -n completions.bash || fail "bash completions do not parse"
# completed WORDS... prints bash's completions of the last word.
completed() {
  bash -c 'source completions.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nacre; echo "${COMPREPLY[*]}"' bash "$@"
}
[ "$(completed nacre conv)" = convert ] || fail "bash completes no command"
[ "$(completed nacre run x --kernels amx)" = amx ] || fail "bash completes no word of an option"
[ "$(completed nacre convert --policy-)" = --policy-file ] || fail "bash completes no option"
touch some.onnx
[ "$(completed nacre convert some)" = some.onnx ] || fail "bash completes no file"
shells=bash
for shell in zsh fish; do
  "$tool" completions $shell >"completions.$shell" || fail "completions $shell"
  command -v $shell >/dev/null || continue
  $shell -n "completions.$shell" || fail "$shell completions do not parse"
  shells+=" $shell"
done
! command -v fish >/dev/null || fish -c 'source completions.fish; complete -C "nacre conv"' | grep '^convert' >/dev/null || fail "fish completes no command"
"$tool" completions tcsh 2>err && fail "tcsh is taken"

# ---- Manual pages ----
"$tool" man -o man1 >/dev/null || fail "man"
pages=$(ls man1 | wc -l)
commands=$("$tool" --help | grep -c '^  [a-z][a-z]*  ')
[ "$pages" -eq $((commands + 1)) ] || fail "$pages pages for $commands commands"
if command -v groff >/dev/null; then
  for page in man1/*.1; do
    [ -z "$(groff -man -ww -z "$page" 2>&1)" ] || { groff -man -ww -z "$page" 2>&1 | head -n 3; fail "$page has warnings"; }
  done
fi

"$tool" --version | sed -n 1p | grep -x 'nacre [0-9.]*' >/dev/null || fail "--version begins otherwise"
"$tool" --version | grep '^kernels  .*auto: ' >/dev/null || fail "--version says no kernels"
echo "standard streams, progress of $bars commands and colours on a terminal alone, completions of $shells, $pages manual pages"
