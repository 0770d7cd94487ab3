#!/usr/bin/env bash
# Claim: one command runs every kernel of the table, after comparing its result with the oracle's. One call of each is
# timed, because the claim is about the runs, not about the times.
set -uo pipefail
kernels=$NACRE_BUILD/bench/kernels
[ -x "$kernels" ] || { echo "no benchmarks in this build: set -Dbench=true"; exit 77; }
fail() { echo "CLAIM bench_kernels NOT SHOWN: $*"; exit 1; }

said=$("$kernels" --benchmark_min_time=0 --benchmark_filter='^entry/|^layer/.*/(ad|kws)/1x(640|49)' 2>&1)
status=$?
echo "$said"
[ $status -eq 0 ] || fail "bench/kernels ended with exit code $status"
table=$(sed -n 's/^\([0-9]*\) kernels, 0 without a case;.*/\1/p' <<<"$said")
timed=$(awk '$1 ~ /^entry\// && $2 ~ /^[0-9.]+$/ && $3 ~ /^(ns|us|ms|s)$/ {n++} END {print n + 0}' <<<"$said")
[ "${table:-0}" -gt 0 ] && [ "$timed" -eq "$table" ] || fail "$timed of ${table:-no} kernels have a time"
echo "CLAIM bench_kernels shown: $timed of $table kernels of the table checked and timed by one command"
