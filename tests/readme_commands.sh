#!/usr/bin/env bash
# Runs the commands of docs/training.md that train, one after the other as they stand there, with the digits as digits.onnx, x.npy, y.npy:
# the block after "On a PC", then the first line with nacre export in docs/tool.md. Their files fit each other: the checkpoint that tune
# left is one of the model that convert made, in every tensor, and both networks read the digits.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "20 epochs: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "readme_commands FAILED: $*"; exit 1; }
cp "$samples/digits.onnx" "$work"
cp "$samples/digits_images.npy" "$work/x.npy"
cp "$samples/digits_labels.npy" "$work/y.npy"
nacre() { "$NACRE_TOOL" "$@"; }

{
  awk '/^On a PC/ {on = 1} on && /^    / {print} on && /^The digits sample/ {exit}' "$NACRE_ROOT/docs/training.md"
  grep -m 1 '^    nacre export' "$NACRE_ROOT/docs/tool.md"
} >"$work/commands"
[ "$(grep -o '^    nacre [a-z]*' "$work/commands" | tr -d '\n')" = '    nacre tune    nacre convert    nacre size    nacre export' ] ||
  fail "docs have other commands than tune, convert, size and export"
cd "$work" || exit 1
right() { "$NACRE_TOOL" eval "$1" --data x.npy --labels y.npy --cast-inputs --json | sed -n 's/^ *"right": \([0-9]*\).*/\1/p'; }
of_tune=
nacre() {  # runs the tool; evaluates what tune wrote before export overwrites it
  [ "$1" != export ] || of_tune=$(right tuned.nacre)
  "$NACRE_TOOL" "$@"
}
. ./commands >said 2>&1 || { cat said; fail "a command"; }
cat said
grep -q '  state    59 of 59 tensors from the checkpoint' said || fail "a checkpoint that does not fit"
of_export=$(right tuned.nacre)
echo "right of 1797: tuned $of_tune, exported $of_export"
[ "${of_tune:-0}" -gt 1700 ] && [ "${of_export:-0}" -gt 1700 ] || fail "a network that did not learn"
