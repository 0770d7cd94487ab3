#!/usr/bin/env bash
# Claim threads_refused: the system may give fewer threads or less memory than 64 threads need. Then run, bench, tune
# and Python end with one sentence and exit code 1 within 2 seconds, or do their work. Limits are set on the address
# space, on data (both refuse a thread's stack) and on processes, from one that refuses the first thread to one that
# allows all.
#
# NACRE_PYTHON names a Python that has the package nacre. Without it the claim leaves Python out, and says so.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ -z "${NACRE_SANITIZED-}" ] || { echo "a sanitized program takes terabytes of addresses"; exit 77; }
tool=$(realpath "${NACRE_TOOL:-build/test/tools/nacre}")
exec python3 tests/claims/threads_refused.py "$tool" "$PWD/tools/samples"
