#!/usr/bin/env bash
# Runs the tool on x86 processors that QEMU's user mode emulates: each must choose the tier (kernels of one instruction set)
# that it can run, and run no other's code. Nehalem has no AVX: portable. Haswell and QEMU 7.2's -cpu max: avx2.
#
#   tests/emulated_x86.sh [BUILD DIR [CASES PER KERNEL]]
#
# kernels_correct runs with `portable` alone: for vpmovsxbw and its like QEMU 7.2 reads 32 bytes where the instruction reads
# 16, and stops at the guard pages behind an operand. avx2 runs a network instead.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/test} cases=${2:-8}
nacre=$build/tools/nacre
shared=${NACRE_SHARED-../shared}
work=build/emulated_x86
mkdir -p "$work"
passed=0 failed=0
if [ "$(uname -m)" != x86_64 ]; then
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

# say RESULT TEXT
say() {
  if [ "$1" = ok ]; then passed=$((passed + 1)); echo "ok      $2"; else failed=$((failed + 1)); echo "FAILED  $2"; fi
}

if [ -d "$shared/models/mlperf_tiny" ]; then
  convert=("$shared/models/mlperf_tiny/kws_ref_model.tflite")
else
  convert=(tools/samples/digits.onnx --policy int8/static_from_float32 --calibrate tools/samples/digits_images.npy --cast-samples)
fi
"$nacre" convert "${convert[@]}" -o "$work/int8.nacre" >/dev/null
rm -rf "$work/reference"
"$nacre" run "$work/int8.nacre" --kernels reference --seed 1 --output "$work/reference" >/dev/null

# processor CPU TIER
processor() {
  local cpu=$1 tier=$2 result=ok chosen log=$work/$1.txt
  local qemu=(qemu-x86_64 -cpu "$cpu")
  chosen=$("${qemu[@]}" "$nacre" kernels 2>"$log" | awk '$NF == "auto" {print $1}') || result=failed
  [ "$chosen" = "$tier" ] || result=failed
  rm -rf "$work/out"
  "${qemu[@]}" "$nacre" run "$work/int8.nacre" --seed 1 --output "$work/out" >>"$log" 2>&1 || result=failed
  diff -rq "$work/reference" "$work/out" >>"$log" 2>&1 || result=failed
  say $result "$cpu: $chosen is chosen; an int8 network gives the bytes of the reference"
  [ $result = ok ] || tail -n 5 "$log"
}
processor Nehalem portable
processor Haswell avx2
processor max avx2

result=ok
qemu-x86_64 -cpu Nehalem "$build/tests/claim_tests" kernels_correct "$cases" 1 portable >"$work/kernels.txt" 2>&1 || result=failed
say $result "Nehalem: $(grep '^portable  *[0-9]' "$work/kernels.txt" | sed 's/, *[0-9]* left.*//; s/  */ /g' || echo 'no kernel ran')"
[ $result = ok ] || grep -E 'FAILED|NOT SHOWN|qemu' "$work/kernels.txt" | head -n 20

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
