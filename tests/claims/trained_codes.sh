#!/usr/bin/env bash
# Claim: a network that is deployed in int8 learns another domain, while its scales, zero points, steps and bytes
# stay. The digits sample in int8, calibrated on usual digits, is trained with `--train-codes` on inverted ones, of
# which it reads few.
#
#   learns    of 450 inverted test images at least 300 more are read right after two epochs
#   the same  sizes and steps of the exported model equal those of the deployed one, to the byte
#   export    a checkpoint gives the network that the training gave: no number of any layer differs
#   refused   a network without codes, or an option that does not fit: one sentence each, and no file
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "a training: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM trained_codes NOT SHOWN: $*"; exit 1; }
nacre() { "$NACRE_TOOL" "$@"; }

for domain in none inverted; do
  "$(dirname "$NACRE_TOOL")/shift_digits" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy" $domain "$work/$domain" || fail "shift_digits"
done
network=("$samples/digits.onnx" --policy int8/static_from_float32 --calibrate "$work/none/train_images.npy" --cast-samples --batch 32)
right() { nacre eval "$1" --data "$work/inverted/test_images.npy" --labels "$work/inverted/test_labels.npy" --cast-inputs --json | sed -n 's/^ *"right": \([0-9]*\),*$/\1/p' | head -n 1; }
anatomy() { nacre size "$1" --json | grep -vE '"(model|path|file|file_bytes)"'; }

nacre convert "${network[@]}" -o "$work/deployed.nacre" >/dev/null || fail "convert"
nacre convert "${network[@]}" -o "$work/train.nacre" --train softmax_cross_entropy --train-codes >/dev/null || fail "convert --train-codes"
nacre tune "$work/train.nacre" --data "$work/inverted/train_images.npy" --labels "$work/inverted/train_labels.npy" --cast-samples --epochs 2 --lr 0.003 \
  --checkpoint "$work/run" -o "$work/tuned.nacre" || fail "tune"
before=$(right "$work/deployed.nacre") after=$(right "$work/tuned.nacre")
[ "$after" -ge $((before + 300)) ] || fail "reads $after of 450 inverted digits, before $before"
[ "$(anatomy "$work/deployed.nacre")" = "$(anatomy "$work/tuned.nacre")" ] || { diff <(anatomy "$work/deployed.nacre") <(anatomy "$work/tuned.nacre"); fail "its sizes are others"; }

nacre export "$work/train.nacre" --checkpoint "$work/run" -o "$work/exported.nacre" >/dev/null || fail "export"
nacre compare "$work/tuned.nacre" "$work/exported.nacre" --data "$work/inverted/test_images.npy" --cast-inputs --csv "$work/errors.csv" >/dev/null || fail "compare"
layers=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "largest_error") column = i } NR > 1 { if (!column || $column != 0) exit 1; ++n } END { print n + 0 }' "$work/errors.csv") ||
  fail "the checkpoint gives another network"

refused=0
refuse() {  # refuse SENTENCE COMMAND..
  local sentence=$1 said
  shift
  if said=$(nacre "$@" -o "$work/refused.nacre" 2>&1); then fail "not refused: $*"; fi
  [ ! -e "$work/refused.nacre" ] && grep -qF "$sentence" <<<"$said" || { echo "$said"; fail "not answered: $*"; }
  refused=$((refused + 1))
}
refuse "there are no codes to train" convert "$samples/digits.onnx" --train softmax_cross_entropy --train-codes
refuse "matches no layer that has int8 codes" convert "${network[@]}" --train softmax_cross_entropy --train-codes --train-layers nowhere
refuse "cannot go with --lora" convert "${network[@]}" --train softmax_cross_entropy --train-codes --lora 4
refuse "in codes that it has not in this file" export "$work/train.nacre" --checkpoint "$work/run" --network "$samples/digits.onnx"
echo "CLAIM trained_codes shown: of 450 inverted digits $before read as deployed, $after with other codes, the same bytes and arena, $refused wrong inputs answered"
