#!/usr/bin/env bash
# Runs the tests of a build by `meson test`, and counts: tests/run.sh BUILD. One line per folder, then the claims, then
#   N passed, N failed, N skipped
# A test's whole output is in BUILD/test-logs (NACRE_TEST_LOGS). NACRE_TEST_FILTER: only tests whose name contains it;
# NACRE_TEST_NAMES: a file of names, one a line. NACRE_TEST_SECONDS ends a test that hangs, 0 none: it is no bound on speed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
logs=${NACRE_TEST_LOGS:-$build/test-logs}
export NACRE_SHARED=${NACRE_SHARED-$root/../shared}
. "$root/tests/classes.sh"

if [ -n "${NACRE_TEST_NAMES-}" ]; then all=$(cat "$NACRE_TEST_NAMES"); else all=$(python3 "$root/tests/count.py" --list "$build"); fi
[ -n "$all" ] || { echo "$build has no tests"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
names=()
while read -r name; do
  [[ -z ${NACRE_TEST_FILTER-} || $name == *$NACRE_TEST_FILTER* ]] || continue
  [ -n "${NACRE_SANITIZED-}" ] || in_this_run "$name" || continue
  names+=("$name")
done <<<"$all"
[ "${#names[@]}" -gt 0 ] || { echo "0 passed, 0 failed, 0 skipped"; exit; }

# `meson test` runs as many tests at once as there are processors. Its progress is shown if standard error is a terminal.
log=nacre-$$
shown=/dev/null
[ ! -t 2 ] || shown=/dev/stderr
seconds=${NACRE_TEST_SECONDS:-3600}
# meson_test LOG PROCESSES NAME... runs these tests and appends to the log.
meson_test() {
  local base=$1 processes=$2
  shift 2
  meson test -C "$build" --no-rebuild --no-stdsplit --logbase "$base" --num-processes "$processes" --timeout-multiplier "$(awk "BEGIN {print $seconds / 3600}")" \
    "$@" >"$shown" 2>>"$build/meson-logs/$log.said" </dev/null
}
meson_test "$log" "$(nproc)" "${names[@]}"
# The machine may have been too busy for one or two of many tests: these run once more, alone. A failure under a
# sanitizer is not tried again.
mapfile -t again < <(python3 "$root/tests/count.py" --failed "$build/meson-logs/$log.json" | grep .)
if [ -z "${NACRE_SANITIZED-}" ] && [ "${#again[@]}" -ge 1 ] && [ "${#again[@]}" -le 2 ] && [ "${#names[@]}" -gt 2 ]; then
  meson_test "$log-again" 1 "${again[@]}"
fi
python3 "$root/tests/count.py" "$build" "$build/meson-logs/$log.json" "$logs" "${#names[@]}" || status=1
cat "$build/meson-logs/$log.said" >&2
rm -f "$build/meson-logs/$log"{,-again}.*
exit "${status:-0}"
