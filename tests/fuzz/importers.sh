#!/usr/bin/env bash
# Claim fuzz_importers: runs the fuzzers of the importers onnx, tflite and keras; counts executions, edges and findings.
#
#   tests/fuzz/importers.sh BUILD [SECONDS]     seconds for each (300); a build as tests/fuzz/run.sh takes it
#
# Seeds are the kept corpora and, for onnx, the models of ONNX's own tests in the folder NACRE_SHARED or ../shared.
# results/fuzz_importers.txt holds what it printed.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { echo "usage: tests/fuzz/importers.sh BUILD [SECONDS]" >&2; exit 2; }
build=$1 seconds=${2:-300} work=build/fuzz
tests=$(ls "${NACRE_SHARED:-../shared}"/onnx/*.tar.xz 2>/dev/null | head -n 1)
rm -rf "$work/seeds/onnx" && mkdir -p "$work/seeds/onnx"
[ -z "$tests" ] || tar -xJf "$tests" -C "$work/seeds/onnx" --wildcards '*/model.onnx'

said= open=0
for target in onnx tflite keras; do
  NACRE_FUZZ_SECONDS=$seconds tests/fuzz/run.sh "$build" $target || open=$((open + 1))
  log=$work/$target.log
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  seeds=$(sed -n 's/^INFO: seed corpus: files: \([0-9]*\).*/\1/p' "$log")
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | tr -dc 0-9)
  findings=$(grep -cE 'SUMMARY: (AddressSanitizer|UndefinedBehaviorSanitizer|libFuzzer)' "$log")
  said+="$target ${runs:-no} executions from ${seeds:-no} seeds in $seconds s, ${edges:-no} edges, $findings findings; "
done
echo "CLAIM fuzz_importers $([ $open -eq 0 ] && echo shown || echo 'NOT shown'): $said$open open"
[ $open -eq 0 ]
