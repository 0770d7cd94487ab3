#!/usr/bin/env bash
# Claim threads_refused: where the system gives fewer threads or less memory than 64 threads need, run, bench, tune and Python end
# with one sentence and exit code 1 within 2 seconds, or do their work. Limits of the address space, of data (both refuse a thread's
# stack) and of processes, from what refuses the first thread to what allows all.
#
# NACRE_PYTHON: a Python that has the package nacre; without one Python is left out, and said.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ -z "${NACRE_SANITIZED-}" ] || { echo "a sanitized program takes terabytes of addresses"; exit 77; }
tool=$(realpath "${NACRE_TOOL:-build/test/tools/nacre}")
exec python3 tests/claims/threads_refused.py "$tool" "$PWD/tools/samples"
