#!/usr/bin/env bash
# Claim report_in_browser: Chromium opens the pages of nacre report, inspect and tune (report_in_browser.py says what
# is checked). The script makes the pages: of the digits sample under several policies, of models that infer and that
# train, of a network of 500 layers, and of one with hostile names. If the shared networks are there, it also makes
# pages of the five networks of MLPerf Tiny.
#
#   tests/claims/report_in_browser.sh [--write]
#
#   --write   the screenshots go to bench/pages/ too
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, the package group browser and NACRE_PEERS_PYTHON (tools/peers.sh).
# NACRE_BROWSER names another Chromium than the system's.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
shared=${NACRE_SHARED-../shared}
python=${NACRE_PEERS_PYTHON:-$(bash tools/peers.sh)}
browser=${NACRE_BROWSER:-$(command -v chromium || command -v chromium-browser || true)}
fail() { echo "CLAIM report_in_browser NOT SHOWN: $*"; exit 1; }
[ -n "$browser" ] || { echo "no Chromium (bash tools/packages.sh browser, or NACRE_BROWSER): report_in_browser is left out"; exit 77; }
work=$PWD/build/pages
rm -rf "$work"
mkdir -p "$work"
samples=tools/samples
set=(--data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --indices "$samples/digits_test.npy" --cast-inputs)
make() { "$nacre" "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "nacre $*"; }; }

policies=float32,bfloat16,int8_from_float32,int8/static_from_float32,int8/weights_from_float32,int4/32_from_float32,float8_from_float32
printf "%s\n" zero one two three four five six seven "eight, whose name is longer than a column" nine >"$work/labels.txt"
make convert "$samples/digits.onnx" -o "$work/digits.nacre" --labels "$work/labels.txt"
make convert "$samples/digits.onnx" -o "$work/digits_int8.nacre" --policy int8_from_float32 --labels "$work/labels.txt"
make convert "$samples/digits.onnx" -o "$work/digits_train.nacre" --train softmax_cross_entropy --optimizer adam --batch 32
make report "$samples/digits.onnx" --policies "$policies" "${set[@]}" --profile --kernels reference -o "$work/report_policies.html"
make report "$samples/digits.onnx" --policies "$policies" "${set[@]}" --kernels reference -o "$work/report_judged.html"
make report "$work/digits.nacre" "$work/digits_int8.nacre" "${set[@]}" --no-latency -o "$work/report_two.html"
make report "$work/digits.nacre" -o "$work/report_one.html"
make inspect "$work/digits_int8.nacre" --html "$work/inspect_digits_int8.html"
make inspect "$work/digits_train.nacre" --html "$work/inspect_training.html"
make tune "$samples/digits.onnx" --loss softmax_cross_entropy --data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" \
  --cast-samples --validate 0.2 --epochs 6 --train-last 2 --lr 0.02 -o "$work/tuned.nacre" --html "$work/tune.html"
"$python" tests/claims/report_in_browser_networks.py "$work" || fail "the networks of 500 layers and with hostile names"
for name in deep hostile; do
  make convert "$work/$name.onnx" -o "$work/$name.nacre"
  make inspect "$work/$name.nacre" --html "$work/inspect_$name.html"
done
make convert "$work/hostile.onnx" -o "$work/hostile_int8.nacre" --policy int8_from_float32
name='"><img src=x onerror=alert(1)>.nacre'
cp "$work/hostile_int8.nacre" "$work/$name"
make inspect "$work/$name" --html "$work/inspect_hostile_file.html"
make report "$work/hostile.nacre" "$work/$name" --data "$work/hostile.npy" --profile --kernels reference -o "$work/report_hostile.html"
for name in ad01_int8 kws_ref_model pretrainedResnet_quant str_ww_ref_model vww_96_int8; do
  [ -f "$shared/models/mlperf_tiny/$name.tflite" ] || continue
  make convert "$shared/models/mlperf_tiny/$name.tflite" -o "$work/$name.nacre"
  make inspect "$work/$name.nacre" --html "$work/inspect_$name.html"
done
# Without times the page must have the same bytes again.
make report "$work/digits.nacre" "$work/digits_int8.nacre" "${set[@]}" --no-latency -o "$work/again"
cmp -s "$work/again" "$work/report_two.html" || fail "the same report twice gives other bytes"
make inspect "$work/deep.nacre" --html "$work/again"
cmp -s "$work/again" "$work/inspect_deep.html" || fail "the same page twice gives other bytes"
deep_bytes=$(wc -c <"$work/inspect_deep.html")

shots=("$work/shots")
[ "${1-}" != --write ] || shots+=(bench/pages)
"$python" tests/claims/report_in_browser.py "$browser" "$work" "${shots[@]}" >"$work/result" || { cat "$work/result"; fail "see above"; }
cat "$work/result"
echo "CLAIM report_in_browser shown: $(tail -n 1 "$work/result"); a page of 500 layers has $deep_bytes bytes"
