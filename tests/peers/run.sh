#!/usr/bin/env bash
# Runs the comparisons with systems from PyPI, and the tests of the Python package: tests/peers/run.sh BUILD, with the
# interpreter of tools/peers.sh in NACRE_PEERS_PYTHON. Closes with  N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/classes.sh
build=$1 passed=0 failed=0 skipped=0
export NACRE_TOOL=$build/tools/nacre

# count NAME COMMAND... runs a test beside others, one per processor. Exit code 77 means that its needs are not met.
logs=build/peers-logs names=()
rm -rf "$logs"
mkdir -p "$logs"
set -m  # each job gets a process group, which the trap below ends as a whole
trap 'for group in $(jobs -p); do kill -- "-$group" 2>/dev/null; done' EXIT
count() {
  local name=$1
  shift
  in_this_run "peers/$name" || return 0
  names+=("$name")
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  { status=0; "$@" >"$logs/$name.log" 2>&1 || status=$?; echo "$status" >"$logs/$name.status"; } &
}
# compare NAME PROGRAM... runs tests/peers/NAME.py. Its numbers change only with the files that it reads.
compare() {
  local name=$1
  shift
  count "$name" tests/stored.sh "$name" "$@" tests/peers tools/samples -- "$NACRE_PEERS_PYTHON" "tests/peers/$name.py" "$@"
}

compare digits "$build/tools/nacre" "$build/tools/digits"
for name in onnxruntime_parity random_networks half_networks folded_networks operators ml_operators; do compare $name "$build/tools/nacre"; done
compare formats "$build/tests/formats_dump"
count format tests/format.sh
count cases "$NACRE_PEERS_PYTHON" tests/peers/cases.py "$build/tools/nacre"
wait
count python_parity tests/claims/python_parity.sh "$build"  # alone: it builds in the build
wait
count federated tests/claims/federated.sh "$build"
count python_whole tests/claims/python_whole.sh "$build"
count guides_run tests/claims/guides_run.sh
count hacking tests/hacking.sh --apply
for name in docs_site report_in_browser; do count $name bash tests/claims/$name.sh; done
wait
for name in "${names[@]}"; do
  cat "$logs/$name.log"
  case $(cat "$logs/$name.status") in 0) passed=$((passed + 1)) ;; 77) skipped=$((skipped + 1)) ;; *) failed=$((failed + 1)) ;; esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
