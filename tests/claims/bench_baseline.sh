#!/usr/bin/env bash
# Claim: one command times every network with the reference kernels, after checking its results. The timings are
# short, because the claim is that the numbers are there, not that they are exact. Without the shared networks only
# the sample is timed.
set -uo pipefail
models=$NACRE_BUILD/bench/models
shared=${NACRE_SHARED-$NACRE_ROOT/../shared}
[ -x "$models" ] || { echo "no benchmarks in this build: set -Dbench=true"; exit 77; }

paths=(float32/reference/digits) folder=() note=
if [ -d "$shared/models/mlperf_tiny" ]; then
  folder=("$shared/models/mlperf_tiny")
  paths+=(int8/reference/{ad,kws,ic,vww,str_ww} float32/reference/{ad,ic,vww} hybrid/reference/kws)
fi
[ -z "${NACRE_SANITIZED-}" ] || note=" (of a sanitized build: they mean nothing)"
out=$("$models" "${folder[@]}" --benchmark_min_time=0.01) || { echo "$out"; echo "CLAIM bench_baseline NOT SHOWN: the benchmark failed"; exit 1; }
echo "$out"
times= missing=
for path in "${paths[@]}"; do
  time=$(awk -v path="infer/$path" '$1 == path { print $2 " " $3 }' <<<"$out")
  case $time in
    [0-9]*) times+="${times:+, }${path##*/} ${path%%/*} $time" ;;
    *) missing+=" $path" ;;
  esac
done
[ -z "$missing" ] || { echo "CLAIM bench_baseline NOT SHOWN: no time for$missing"; exit 1; }
echo "CLAIM bench_baseline shown: $times$note"
