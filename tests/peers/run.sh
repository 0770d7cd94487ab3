#!/usr/bin/env bash
# The comparisons with systems from PyPI, and the Python package: tests/peers/run.sh BUILD, with the interpreter of tools/peers.sh in NACRE_PEERS_PYTHON.
# Closes with  N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$1 passed=0 failed=0 skipped=0
compare() { if "$NACRE_PEERS_PYTHON" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
compare tests/peers/digits.py "$build/tools/nacre" "$build/tools/digits"
compare tests/peers/onnxruntime_parity.py "$build/tools/nacre"
compare tests/peers/random_networks.py "$build/tools/nacre"
compare tests/peers/half_networks.py "$build/tools/nacre"
compare tests/peers/folded_networks.py "$build/tools/nacre"
compare tests/peers/operators.py "$build/tools/nacre"
compare tests/peers/ml_operators.py "$build/tools/nacre"
compare tests/peers/formats.py "$build/tests/formats_dump"
if tests/claims/python_parity.sh "$build"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if tests/claims/federated.sh "$build"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if NACRE_TOOL=$build/tools/nacre tests/claims/docs_site.sh; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
status=0
NACRE_TOOL=$build/tools/nacre bash tests/claims/report_in_browser.sh || status=$?
case $status in 0) passed=$((passed + 1)) ;; 77) skipped=1 ;; *) failed=$((failed + 1)) ;; esac
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
