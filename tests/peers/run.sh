#!/usr/bin/env bash
# The comparisons with systems from PyPI, and the Python package: tests/peers/run.sh BUILD, with the interpreter of tools/peers.sh in NACRE_PEERS_PYTHON.
# Closes with  N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/classes.sh
build=$1 passed=0 failed=0 skipped=0
export NACRE_TOOL=$build/tools/nacre

# count NAME COMMAND...: 77 is a test whose needs are not there.
count() {
  local name=$1 status=0
  shift
  in_this_run "peers/$name" || return 0
  "$@" || status=$?
  case $status in 0) passed=$((passed + 1)) ;; 77) skipped=$((skipped + 1)) ;; *) failed=$((failed + 1)) ;; esac
}
# compare NAME PROGRAM...: tests/peers/NAME.py. Its numbers change only with what it reads.
compare() {
  local name=$1
  shift
  count "$name" tests/stored.sh "$name" "$@" tests/peers tools/samples -- "$NACRE_PEERS_PYTHON" "tests/peers/$name.py" "$@"
}

compare digits "$build/tools/nacre" "$build/tools/digits"
for name in onnxruntime_parity random_networks half_networks folded_networks operators ml_operators; do compare $name "$build/tools/nacre"; done
compare formats "$build/tests/formats_dump"
count cases "$NACRE_PEERS_PYTHON" tests/peers/cases.py "$build/tools/nacre"
for name in python_parity federated; do count $name tests/claims/$name.sh "$build"; done
for name in docs_site report_in_browser; do count $name bash tests/claims/$name.sh; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
