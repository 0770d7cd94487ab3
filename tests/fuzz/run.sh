#!/usr/bin/env bash
# Runs the libFuzzer targets of a build side by side, each over its kept corpus: tests/fuzz/run.sh BUILD [TARGET ...]
# (tools/test.sh makes such a build: clang, sanitizers, -Dfuzz=true, -Dcpp_args=-fsanitize=fuzzer-no-link.)
#
#   NACRE_FUZZ_SECONDS   wall time of each (40), in which the kept corpus is replayed first
#
# A finding stops its target; the input is left in build/fuzz/findings. New inputs go to build/fuzz/corpus, never into the tree.
# Closes with  N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { echo "usage: tests/fuzz/run.sh BUILD [TARGET ...]" >&2; exit 2; }
programs=$1/tests work=build/fuzz
shift
seconds=${NACRE_FUZZ_SECONDS:-40}
targets=("$@")
[ $# -gt 0 ] || targets=(open tflite onnx keras)

declare -A process
trap 'kill "${process[@]}" 2>/dev/null' EXIT
mkdir -p $work/findings
for target in "${targets[@]}"; do
  kept=()
  for folder in "tests/corpus/$target" "tests/fuzz/corpus/$target" "$work/seeds/$target"; do [ ! -d "$folder" ] || kept+=("$folder"); done
  mkdir -p "$work/corpus/$target"
  "$programs/fuzz_$target" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=2048 -max_len=65536 -verbosity=1 -print_final_stats=1 \
    -artifact_prefix="$work/findings/$target-" "$work/corpus/$target" "${kept[@]}" >"$work/$target.log" 2>&1 &
  process[$target]=$!
done

# Prints the input of a finding as lines of base64, so that a log alone is enough: | base64 -d | gunzip gives the file.
show_input() {
  local input
  input=$(sed -n 's/.*Test unit written to //p' "$1" | tail -n 1)
  [ -f "$input" ] || return 0
  gzip -9nc "$input" | base64 -w 240 | head -n 16 | sed "s/^/FAILED INPUT ${input##*/}: /" | cut -c1-300
}

passed=0 failed=0
for target in "${targets[@]}"; do
  out=$work/$target.log
  if wait "${process[$target]}"; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out")
    echo "fuzz_$target: $runs inputs in $seconds s, 0 findings"
    passed=$((passed + 1))
  else
    grep -E 'ERROR|runtime error|broken promise|Test unit written|SUMMARY' "$out" | head -n 8
    tail -n 5 "$out"
    echo "fuzz_$target: FAILED, $(grep -m 1 -E 'SUMMARY|runtime error|terminate called' "$out" | cut -c1-200); the whole log is in $out"
    show_input "$out"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
