#!/usr/bin/env bash
# Measures how long a fresh clone takes to build and to test on an idle machine. Prints four durations and the machine:
#
#   tests/build_minutes.sh [--no-ci]      --no-ci: leaves out the last, which takes the longest
#
#   demo          tools/demo.sh, after the packages have been installed
#   test build    meson setup and ninja of build/test, as tools/test.sh makes it
#   touched       ninja after a change of one engine/ops/*.h
#   .ci/run       all of it, with NACRE_SHARED or ../shared
#
# Takes what is committed. Compiler caches are off.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nacre-minutes.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export CCACHE_DISABLE=1
shared=$(cd "${NACRE_SHARED:-$root/../shared}" 2>/dev/null && pwd) || shared=

with_ci=true
case ${1-} in
  '') ;;
  --no-ci) with_ci=false ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

# seconds TITLE GOAL COMMAND... times a command and prints a line of the table. The command's output is shown if it
# fails.
seconds() {
  local title=$1 goal=$2 start=$SECONDS
  shift 2
  if ! "$@" >"$work/log" 2>&1; then
    tail -n 30 "$work/log"
    echo "build_minutes: $title failed"
    exit 1
  fi
  printf '  %-12s %6d s   (goal %d s)\n' "$title" "$((SECONDS - start))" "$goal"
}
clone() { git clone --quiet --no-hardlinks "$root" "$work/$1"; }
test_build() {
  [ -f build/test/build.ninja ] || meson setup build/test --buildtype=release -Dtests=true -Dbench=true -Dwerror=true
  ninja -C build/test
}

bash "$root/tools/packages.sh" build tools tests firmware arm fuzz peers browser
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
read -r load _ </proc/loadavg
printf '%s, %d processors of %s, load average %s at the start\n' \
  "$(git -C "$root" rev-parse --short HEAD)" "$(nproc)" "${processor:-$(uname -m)}" "$load"

clone demo
cd "$work/demo"
seconds demo 180 ./tools/demo.sh
seconds 'test build' 300 test_build
printf '\n' >>engine/ops/dense.h
seconds touched 60 test_build
if $with_ci; then
  clone ci
  cd "$work/ci"
  rm -rf "$work/demo"
  seconds .ci/run 1800 env NACRE_SHARED="$shared" bash .ci/run
  sed -n '/^built /s/^/    /p' "$work/log"
fi
