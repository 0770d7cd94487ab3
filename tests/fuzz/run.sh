#!/usr/bin/env bash
# Builds the libFuzzer targets with clang and runs each over its kept corpus: tests/fuzz/run.sh [TARGET ...]
#
#   NACRE_FUZZ_SECONDS   of each target (60)
#
# A finding stops its target; the input is left in build/fuzz/findings. New inputs go to build/fuzz/corpus, never into the tree.
# Closes with  N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=build/fuzz
seconds=${NACRE_FUZZ_SECONDS:-60}
targets=("$@")
[ $# -gt 0 ] || targets=(open tflite onnx)

passed=0 failed=0
log=build/fuzz.log
mkdir -p build
if ! { [ -f $build/build.ninja ] || CXX=${CXX:-clang++-19} meson setup $build --buildtype=plain -Doptimization=1 -Dfuzz=true -Dtests=false \
  -Db_sanitize=address,undefined -Db_lundef=false -Dcpp_args=-fsanitize=fuzzer-no-link; } >$log 2>&1 ||
  ! ninja -C $build "${targets[@]/#/tests/fuzz_}" >>$log 2>&1; then
  tail -n 30 $log
  echo "fuzz: the build failed; the whole log is in $log"
  echo "0 passed, ${#targets[@]} failed, 0 skipped"
  exit 1
fi

mkdir -p $build/findings
for target in "${targets[@]}"; do
  kept=() out=$build/$target.log
  for folder in "tests/corpus/$target" "tests/fuzz/corpus/$target"; do [ ! -d "$folder" ] || kept+=("$folder"); done
  mkdir -p "$build/corpus/$target"
  if $build/tests/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=1 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "${kept[@]}" >"$out" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out")
    echo "fuzz_$target: $runs inputs in $seconds s, 0 findings"
    passed=$((passed + 1))
  else
    grep -E 'ERROR|runtime error|broken promise|Test unit written|SUMMARY' "$out" | head -n 8
    tail -n 5 "$out"
    echo "fuzz_$target: FAILED, the whole log is in $out"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
