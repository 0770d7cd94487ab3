#!/usr/bin/env bash
# Builds Nacre and runs its tests, on a fresh Debian or Ubuntu machine: installs what is missing first.
#
#   tools/test.sh [--full] [--peers] [--long] [--third K]
#
#   --full    also tests that take minutes (class full of tests/classes.txt), sanitizers, fuzzers, the firmware and other
#             processors
#   --peers   also the comparisons with systems from PyPI (numpy, ml_dtypes, onnx, onnxruntime), the Python package, and
#             the pages in Chromium
#   --long    all that --full runs, and the whole sweeps, which take hours
#   --third K of the tests that tests/classes.txt splits into thirds only 0, 1 or 2, or by the commit's hash: commit. A test whose
#             content did not change since it passed gives its stored result (NACRE_STORED, a folder outside of the tree)
#
# ../shared (or NACRE_SHARED) holds trained networks and golden data; what needs them is skipped, and counted, without it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

. tests/classes.sh

peers=false long=false full=false third=
while [ $# -gt 0 ]; do
  case $1 in
    --peers) peers=true ;;
    --full) full=true ;;
    --long) full=true long=true ;;
    --third) third=${2-} && shift ;;
    --help | -h) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: $1: unknown; --help says what there is" >&2; exit 2 ;;
  esac
  shift
done
[ "$third" != commit ] || third=$(third_of_commit)
case $third in '' | 0 | 1 | 2) ;; *) echo "test.sh: --third $third: expected 0, 1, 2 or commit" >&2; exit 2 ;; esac
export NACRE_THIRD=$third
[ -z "$third" ] || export NACRE_STORED=${NACRE_STORED-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/nacre/results}
# A compiler cache, where there is one, serves clones in other folders too: paths are taken from the clone, headers may be precompiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
mkdir -p build
rm -f build/asked.txt build/left_out.txt build/failures.txt build/*.out
groups=(build tools tests mpi)
! $full || groups+=(firmware arm fuzz)
! $peers || groups+=(peers browser)
need_packages "${groups[@]}"
export NACRE_FULL=$($full && echo 1 || echo 0) NACRE_LONG=$($long && echo 1 || echo 0)
! $long || export NACRE_TEST_SECONDS=${NACRE_TEST_SECONDS:-21600}
if [ -d "${NACRE_SHARED-../shared}" ]; then NACRE_SHARED=$(cd "${NACRE_SHARED-../shared}" && pwd); else NACRE_SHARED=; fi
export NACRE_SHARED
[ -n "$NACRE_SHARED" ] || echo "no ../shared: tests that need trained networks are skipped" >&2

# configured FOLDER [MESON OPTION...]: configures the folder, unless an earlier run did so with the same options.
configured() {
  local asked=$1/asked_options.txt
  [ ! -f "$1/build.ninja" ] || [ "$(cat "$asked" 2>/dev/null)" != "${*:2}" ] || return 0
  meson setup $([ ! -f "$1/build.ninja" ] || echo --reconfigure) "$@" && echo "${*:2}" >"$asked"
}
# build NAME [MESON OPTION...]: configures and builds build/NAME; shows the end of its log if that fails.
build() {
  local name=$1 log=build/$1.log started=$SECONDS
  shift
  mkdir -p build
  if configured "build/$name" "$@" >"$log" 2>&1 && ninja -C "build/$name" >>"$log" 2>&1; then
    echo "built build/$name in $((SECONDS - started)) s"
  else
    grep -nE 'error|FAILED' "$log" | head -n 20 >&2
    tail -n 30 "$log" >&2
    echo "test.sh: build/$name failed; the whole log is in $log" >&2
    return 1
  fi
}

total_passed=0 total_failed=0 total_skipped=0
# counted TITLE STATUS SECONDS: adds the closing line of build/TITLE.out to the totals, and what failed to build/failures.txt.
counted() {
  local p f s
  read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "build/${1// /-}.out" | tail -n 1) || { p=0 f=1 s=0; }
  [ "$2" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  echo "$1: $p passed, $f failed, $s skipped in $3 s"
  [ "$f" -eq 0 ] || { echo "$1:"; grep -aE '^== .*log$|FAILED|NOT SHOWN|ended with code' "build/${1// /-}.out" | cut -c1-300 | awk '!seen[$0]++' | tail -n 20 || true; } >>build/failures.txt
  total_passed=$((total_passed + p)) total_failed=$((total_failed + f)) total_skipped=$((total_skipped + s))
}
closing='^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$'
# run TITLE COMMAND...: shows the output and counts it.
run() {
  local title=$1 status=0 begun=$SECONDS
  shift
  printf '\n== %s\n' "$title"
  set +e
  "$@" 2>&1 | tee "build/${title// /-}.out" | grep -vE "$closing"
  status=${PIPESTATUS[0]}
  set -e
  counted "$title" "$status" $((SECONDS - begun))
}
# aside TITLE COMMAND...: runs a command and keeps its output in a file; show_aside TITLE shows and counts the output.
aside() {
  local out=build/${1// /-}.out begun=$SECONDS status=0
  shift
  rm -f "$out.status"
  "$@" >"$out" 2>&1 || status=$?
  echo "$status $((SECONDS - begun))" >"$out.status"
}
show_aside() {
  local out=build/${1// /-}.out status=1 taken=0
  printf '\n== %s\n' "$1"
  grep -vE "$closing" "$out" || true
  read -r status taken <"$out.status" || true
  counted "$1" "$status" "$taken"
}

# beside COMMAND...: runs it in the background, in a process group of its own, which the end of this script kills.
started_beside=()
beside() {
  set -m
  "$@" &
  set +m
  started_beside+=($!)
}
trap 'for group in "${started_beside[@]}"; do kill -- "-$group" 2>/dev/null || true; done' EXIT
# part STAGE COMMAND...: runs the command if this run has the stage.
part() { ! in_this_run "stage/$1" || "${@:2}"; }
firmware_sources=(engine ports firmware include schema meson.build meson_options.txt tests tools/samples build/test/tools/nacre)

started=$SECONDS
# Python's environments are made while the build runs, because they mostly wait for the network.
environments() { bash tools/peers.sh && bash tools/peers.sh tests/python/requirements.txt python; }
! $peers || beside environments >build/environments.out 2>build/environments.log
# Sets the tiers of fast kernels to build: the best one for this machine, all that it can run, or with --long all.
tiers=native
! { $full && in_this_run stage/runnable_tiers; } || tiers=runnable
! $long || tiers=all
# In the third that has the sanitizers, the plain build has only the commands' suite; the sanitized one has the others.
suites=all
! $full || [ -z "$third" ] || ! in_this_run stage/sanitizers || suites=commands
# With --full warnings are errors. Otherwise they are not, because another compiler may have more of them.
build test -Dbuildtype=release -Dtests=true -Dbench=true -Dwerror=$full -Dx86_tiers=$tiers -Dsuites=$suites
run "plain build" tests/run.sh build/test
# Another call of tools/peers.sh waits for one that is at work.
if $peers; then
  NACRE_PEERS_PYTHON=$(bash tools/peers.sh)
  export NACRE_PEERS_PYTHON
  # The peers run mostly one after another, so that a processor stays free for what follows.
  beside aside "peers" tests/peers/run.sh build/test
fi
sanitizers() {
  # With clang, because the fuzz targets need it: they share this build's libraries. Without benchmarks, whose times
  # mean nothing, with the tools not optimised, without the tiers of fast kernels. With --long all claims and suites.
  CC=clang-19 CXX=clang++-19 build asan -Dbuildtype=plain -Doptimization=0 -Dtests=true -Dfuzz=true -Dx86_tiers= -Db_sanitize=address,undefined -Db_lundef=false \
    -Dcpp_args=-fsanitize=fuzzer-no-link -Dcpp_link_args=-fuse-ld=lld $($long && echo -Dclaims=all -Dsuites=all || echo -Dclaims=engine -Dsuites=without_commands)
  run "address and undefined behaviour sanitizers" env NACRE_SANITIZED=1 NACRE_TEST_SECONDS="${NACRE_TEST_SECONDS:-7200}" ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 tests/run.sh build/asan
}
if $full; then
  part sanitizers sanitizers
  # An emulated processor has one thread: what is emulated runs beside the tests of the firmware.
  part other_tiers beside aside "other tiers" tests/stored.sh other_tiers engine ports schema meson.build meson_options.txt tests/other_tiers.sh -- tests/other_tiers.sh build/test
  part arm beside aside "arm" tests/stored.sh arm "${firmware_sources[@]}" -- tests/arm.sh
  part emulated_x86 beside aside "emulated x86" tests/stored.sh emulated_x86 "${firmware_sources[@]}" -- tests/emulated_x86.sh build/test
  run "firmware" tests/stored.sh "firmware_${third:-all}" "${firmware_sources[@]}" -- tests/firmware.sh
  wait || true
  for name in other_tiers arm emulated_x86; do part "$name" show_aside "${name//_/ }"; done
  part fuzzers run "fuzzers" tests/fuzz/run.sh build/asan
fi
wait || true
! $peers || show_aside "peers"

if [ -n "$third" ]; then
  printf '\nthird %s of the tests that run by turns; left out until another commit or tools/test.sh --full: %s\n' "$third" \
    "$(sort -u build/left_out.txt 2>/dev/null | paste -sd ' ')"
elif ! $full; then
  printf '\nleft out, tools/test.sh --full runs them: %s\n' "$(sort -u build/left_out.txt 2>/dev/null | paste -sd ' ')"
fi
# A row of tests/classes.txt that nobody asks for is of a test that was renamed or went.
if $peers && $full && [ -z "$third" ]; then
  for name in $(awk '!/^#/ {print $3}' tests/classes.txt); do
    grep -qxF "$name" build/asked.txt || { echo "tests/classes.txt: no test is called $name" >&2; total_failed=$((total_failed + 1)); }
  done
fi
# The end of a log names what failed, wherever the rest of it is cut.
[ ! -s build/failures.txt ] || { printf '\nfailed\n'; cat build/failures.txt; }
grep -ahE '^UNSTEADY' build/*.out || true
printf '\n%s\n' "wall time $((SECONDS - started)) s"
printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
[ "$total_failed" -eq 0 ]
