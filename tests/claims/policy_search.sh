#!/usr/bin/env bash
# Claim: on the digits sample `nacre search` finds a policy map that makes a smaller model than int8/weights
# everywhere, and reads as many of the 450 test images right as float32. The script prints the demo's policy table
# first. It converts anew with the map that the search wrote, and judges it with `nacre eval`.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "fifty models, measured: too long in a sanitized build"; exit 77; }
samples=$NACRE_ROOT/tools/samples
network=$samples/digits.onnx
set_of=(--data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --indices "$samples/digits_test.npy" --cast-inputs)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM policy_search NOT SHOWN: $*"; exit 1; }

"$NACRE_BUILD/tools/policy_table" "$network" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy" ||
  fail "the policy table"
echo
"$NACRE_TOOL" search "$network" "${set_of[@]}" --max-drop 0 -o "$work/map.json" --policies \
  float32,mixed_float16,int8_from_float32,int8/weights_from_float32,int4_from_float32,int4/32_from_float32 || fail "the search"
"$NACRE_TOOL" convert "$network" -o "$work/float32.nacre" >/dev/null || fail "convert"
"$NACRE_TOOL" convert "$network" -o "$work/int8_weights.nacre" --policy int8/weights_from_float32 >/dev/null || fail "convert --policy"
"$NACRE_TOOL" convert "$network" -o "$work/found.nacre" --policy-file "$work/map.json" >/dev/null || fail "convert --policy-file"
"$NACRE_TOOL" eval "$work"/{float32,int8_weights,found}.nacre "${set_of[@]}" --json >"$work/eval.json" || fail "eval"
numbers() { sed -n "s/.*\"$1\": \([0-9]*\),*$/\1/p" "$work/eval.json" | tr '\n' ' '; }
read -r right_float right_int8 right_found <<<"$(numbers right)"
read -r bytes_float bytes_int8 bytes_found <<<"$(numbers file_bytes)"
summary="$bytes_found bytes with $right_found of 450 right; int8/weights everywhere $bytes_int8 with $right_int8, float32 $bytes_float with $right_float"
[ "$bytes_found" -lt "$bytes_int8" ] && [ "$right_found" -ge "$right_float" ] || fail "$summary"
echo "CLAIM policy_search shown: $summary"
