#!/usr/bin/env bash
# Builds and runs every test that needs no Python, on a fresh Debian or Ubuntu machine: installs what is missing first.
#
#   tools/test.sh [--peers] [--long] [--quick]
#
#   --peers   also the comparisons with systems from PyPI (numpy, ml_dtypes, onnx, onnxruntime), the Python package, and
#             the pages in Chromium
#   --long    also the whole sweeps, which take hours
#   --quick   only the plain build: no sanitizers, fuzzers, firmware or emulated processors
#
# ../shared (or NACRE_SHARED) holds trained networks and golden data; what needs them is skipped, and counted, without it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

peers=false long=false quick=false
for argument in "$@"; do
  case $argument in
    --peers) peers=true ;;
    --long) long=true ;;
    --quick) quick=true ;;
    --help | -h) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: $argument: unknown; --help says what there is" >&2; exit 2 ;;
  esac
done
groups=(build tools tests mpi)
$quick || groups+=(firmware arm fuzz)
! $peers || groups+=(peers browser)
need_packages "${groups[@]}"
export NACRE_LONG=$($long && echo 1 || echo 0)
! $long || export NACRE_TEST_SECONDS=${NACRE_TEST_SECONDS:-21600}
if [ -d "${NACRE_SHARED-../shared}" ]; then NACRE_SHARED=$(cd "${NACRE_SHARED-../shared}" && pwd); else NACRE_SHARED=; fi
export NACRE_SHARED
[ -n "$NACRE_SHARED" ] || echo "no ../shared: tests that need trained networks are skipped" >&2

# build NAME [MESON OPTION...]: build/NAME, with a log that is shown when it fails.
build() {
  local name=$1 log=build/$1.log started=$SECONDS
  shift
  mkdir -p build
  if { [ -f "build/$name/build.ninja" ] || meson setup "build/$name" "$@"; } >"$log" 2>&1 && ninja -C "build/$name" >>"$log" 2>&1; then
    echo "built build/$name in $((SECONDS - started)) s"
  else
    grep -nE 'error|FAILED' "$log" | head -n 20 >&2
    tail -n 30 "$log" >&2
    echo "test.sh: build/$name failed; the whole log is in $log" >&2
    return 1
  fi
}

total_passed=0 total_failed=0 total_skipped=0
# counted TITLE STATUS SECONDS: adds the closing line of build/TITLE.out to the totals.
counted() {
  local p f s
  read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "build/${1// /-}.out" | tail -n 1) || { p=0 f=1 s=0; }
  [ "$2" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  echo "$1: $p passed, $f failed, $s skipped in $3 s"
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
# aside TITLE COMMAND...: the same in silence, for what runs beside something else; show_aside TITLE shows and counts it.
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

started=$SECONDS
python=
! $peers || python=$(bash tools/peers.sh)
export NACRE_PEERS_PYTHON=$python
build test --buildtype=release -Dtests=true -Dbench=true -Dwerror=true -Dx86_tiers=$($long && echo all || echo runnable)
run "plain build" tests/run.sh build/test
! $peers || run "peers" tests/peers/run.sh build/test
if ! $quick; then
  # With clang, because the fuzz targets need it: they share this build's libraries. Without benchmarks, whose times would
  # mean nothing, without optimisation but of the engine, and without the tiers, which are never sanitized. Of the claims
  # those that run the engine on its own models, hostile ones and files, and of the suites all but that of the commands,
  # which starts hundreds of programs; with --long all.
  CC=clang-19 CXX=clang++-19 build asan --buildtype=plain -Doptimization=0 -Dtests=true -Dfuzz=true -Dx86_tiers= -Db_sanitize=address,undefined -Db_lundef=false \
    -Dcpp_args=-fsanitize=fuzzer-no-link
  claims='exact_memory|fake_port|forged_checkpoints|golden_policies|hostile_bytes|no_heap|op_table|packed_weights'
  claims+='|step_is_a_transaction|training_no_heap|workers_identical'
  if $long; then cat build/asan/tests/programs.txt
  else grep -E "^[a-z]+ unit |^claims ($claims) " build/asan/tests/programs.txt | grep -v '^commands '; fi >build/asan/chosen.txt
  run "address and undefined behaviour sanitizers" env NACRE_SANITIZED=1 NACRE_TEST_PROGRAMS="$PWD/build/asan/chosen.txt" NACRE_TEST_SECONDS="${NACRE_TEST_SECONDS:-7200}" ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 tests/run.sh build/asan
  # Images run on one processor: what else is emulated goes beside them.
  set -m  # a group of its own, which Ctrl-C ends as a whole
  {
    aside "other tiers" tests/other_tiers.sh build/test
    aside "arm" tests/arm.sh build/test
    aside "emulated x86" tests/emulated_x86.sh build/test
  } &
  beside=$!
  set +m
  trap 'kill -- "-$beside" 2>/dev/null || true' EXIT
  run "firmware" tests/firmware.sh
  wait "$beside" || true
  for part in "other tiers" "arm" "emulated x86"; do show_aside "$part"; done
  run "fuzzers" tests/fuzz/run.sh build/asan
fi

printf '\n%s\n' "wall time $((SECONDS - started)) s"
printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
[ "$total_failed" -eq 0 ]
