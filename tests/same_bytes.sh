#!/usr/bin/env bash
# Compares what two commits make: model files, tables of kernels, machine code and refusals.
#
#   tests/same_bytes.sh BASE HEAD [--work FOLDER] [--every N]
#
# Each is built in a folder of its own (build/same_bytes); tests/same_bytes.py compares the builds. --every N: of the
# conversions and refusals each N-th. With --every 5 they took 4 minutes on two processors, behind the builds.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
base=$1 head=$2 work=build/same_bytes every=1
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$2 ;;
    --every) every=$2 ;;
    *) echo "same_bytes.sh: $1: unknown" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$work"
work=$(cd "$work" && pwd)
for side in base head; do
  commit=$(git rev-parse "${!side}^{commit}")
  tree=$work/$side
  [ -e "$tree/.git" ] && [ "$(git -C "$tree" rev-parse HEAD)" = "$commit" ] || { rm -rf "$tree"; git clone -q . "$tree"; git -C "$tree" checkout -q "$commit"; }
  (
    cd "$tree"
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    [ -f build/build.ninja ] || meson setup build --buildtype=release -Dx86_tiers=runnable >build.log
    ninja -C build >>build.log
  ) || { tail -n 20 "$tree/build.log" >&2; exit 1; }
done
exec python3 tests/same_bytes.py "$work/base/build" "$work/head/build" --every "$every"
