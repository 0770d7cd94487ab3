#!/usr/bin/env bash
# Runs the tests with a clock 20 times faster than this machine's and with one 20 times slower: no test may fail for it.
# To a test whose clock is 20 times slower, the machine is 20 times faster, and the other way round.
#
#   tests/any_speed.sh BUILD          every program of tests/run.sh; NACRE_TEST_FILTER as there
#   tests/any_speed.sh BUILD --read   only those that can see the clock: they read or wait for it, or start a program that may
#
# libfaketime tells programs the time, and makes sleep and poll wait by it. Processor time stays that of the machine; no limit ends a
# test that hangs. Closes with  CLAIM any_speed ... unless it is skipped (code 77); logs are in BUILD/any-speed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
fail() { echo "CLAIM any_speed NOT SHOWN: $*"; exit 1; }
[ -z "${NACRE_ANY_SPEED-}" ] || { echo "under such a clock already"; exit 77; }
[ -z "${NACRE_SANITIZED-}" ] || { echo "a sanitizer's runtime must be loaded before libfaketime: the plain build shows it"; exit 77; }
command -v faketime >/dev/null || fail "faketime is not installed: bash tools/packages.sh tests"

# objects_of FOLDER NAME PROGRAM lists the test's own objects of the program. Files of claims that share a header
# belong to one claim.
headers_of() { grep -ohE '"tests/claims/[a-z0-9_]+\.h"' "$1" | grep -v '/claims\.h"' || true; }
objects_of() {
  local headers
  case $3 in
    */unit_tests) find "$3.p" -name "$1_*.o" -o -name "*.._$1_*.o" ;;  # the object of one source file, or of a unity file that includes several
    */claim_tests)
      headers=$(headers_of "$root/tests/claims/$2.cc")
      headers=$({ echo "$headers"; for each in $headers; do headers_of "$root/${each//\"/}"; done; } | sed '/^$/d' | sort -u | paste -sd '|')
      { echo "$root/tests/claims/$2.cc"; [ -z "$headers" ] || grep -lE "$headers" "$root"/tests/claims/*.cc; } | sort -u |
        while read -r source; do ls "$3.p/claims_$(basename "$source").o" 2>/dev/null || true; done ;;
    *) ls "$3".p/*.o ;;
  esac
}
# sees_clock FOLDER NAME PROGRAM tells whether the test can see the clock: a program by the calls of its objects, a
# script by its words.
calls='steady_clock|system_clock| (clock_gettime|gettimeofday|time|ftime|(nano|u)?sleep|clock_nanosleep|alarm|timer_create|p?poll|p?select|exec[a-z]+|posix_spawnp?|popen|system|.*run_tool.*)$'
sees_clock() {
  case $3 in
    *.sh) grep -qE 'NACRE_TOOL|NACRE_BUILD/(bench|tools)|\bsleep\b|\bdate\b|SECONDS' "$3" ;;
    *) objects_of "$@" | xargs nm -u | grep -E "$calls" >/dev/null ;;  # no -q: nm would end by SIGPIPE
  esac
}

# Prints FOLDER NAME PROGRAM of each test.
programs() {
  meson introspect --tests "$build" | python3 -c '
import json, sys
for test in json.load(sys.stdin):
    print(*test["name"].split("/"), test["cmd"][0])'
}
names=$build/any-speed/names.txt
mkdir -p "$build/any-speed"
programs | while read -r folder name program; do
  if [ "${2-}" != --read ] || sees_clock "$folder" "$name" "$program"; then echo "$folder/$name"; fi
done | grep -vx 'measured/any_speed' >"$names"
if [ "${2-}" = --read ]; then
  unset NACRE_TEST_FILTER  # the filter has chosen this script, and must not filter the programs below
  paste -sd ' ' "$names" | sed 's/^/can see the clock: /'
fi
[ -s "$names" ] || fail "no program of the list"

# Without this check a suite folder whose objects are not found would be skipped silently.
while read -r folder name program; do
  [ -n "$(objects_of "$folder" "$name" "$program" 2>/dev/null)" ] || [[ $program == *.sh ]] || fail "no objects of $folder/$name"
done < <(programs)

summary=
for rate in 20 0.05; do
  echo "== the clock $rate times as fast"
  out=$build/any-speed/x$rate.txt
  mkdir -p "$build/any-speed/x$rate"
  NACRE_ANY_SPEED=$rate NO_FAKE_STAT=1 NACRE_TEST_SECONDS=0 NACRE_TEST_NAMES=$names NACRE_TEST_LOGS=$build/any-speed/x$rate \
    faketime -f "+0 x$rate" "$root/tests/run.sh" "$build" 2>&1 | tee "$out"
  passed=${PIPESTATUS[0]}
  [ "$passed" -eq 0 ] || fail "with the clock $rate times as fast $(tail -n 1 "$out")"
  grep -qE '^[1-9][0-9]* passed' "$out" || fail "no program ran"
  summary+="${summary:+; }the clock $rate times as fast: $(tail -n 1 "$out")"
done
echo "CLAIM any_speed shown: $summary"
