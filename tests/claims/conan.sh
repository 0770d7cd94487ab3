#!/usr/bin/env bash
# Claim conan: in a fresh clone `conan create . --build=missing` builds the package, README's programs of C++ and C link it, and
# both print the scores that the command `nacre run` computes. A package without ports has the target nacre::nacre alone, and
# takes FlatBuffers from a package of Conan. The licenses are inside; a compiler without C++20 is refused in a sentence.
#
#   tests/claims/conan.sh      with the tool of a build (NACRE_BUILD, else build/test); compiles the portable kernels alone
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
tool=$(realpath "${NACRE_TOOL:-${NACRE_BUILD:-build/test}/tools/nacre}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 30 "$work/said"
  echo "CLAIM conan NOT SHOWN: $1"
  exit 1
}
[ "$(uname -m)" = x86_64 ] || { echo "CLAIM conan NOT SHOWN: not x86-64"; exit 77; }
python=$(tools/peers.sh tests/conan/requirements.txt conan)
export CONAN_HOME=$work/home CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
conan() { "$(dirname "$python")/conan" "$@"; }
git clone -q "$root" "$work/clone"
cd "$work/clone"
version=$(sed -n "1s/.* version: '\([^']*\)'.*/\1/p" meson.build)
conan profile detect >"$work/said" 2>&1 || fail "conan finds no compiler"
# Nothing is fetched: the one requirement is made here.
conan remote disable '*' >"$work/said" 2>&1
launcher=()
! command -v ccache >/dev/null || launcher=(-c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_COMPILER_LAUNCHER': 'ccache'}")
# created OPTION...: makes the package; the programs of test_package print to scores.
created() {
  conan create . --build=missing -c tools.build:jobs="${NACRE_JOBS:-2}" "${launcher[@]}" "$@" >"$work/said" 2>&1 || fail "conan create . --build=missing $*"
  grep -oE '^-?[0-9.]+(e-?[0-9]+)?$' "$work/said" >"$work/scores" || fail "test_package prints no scores"
}

begun=$SECONDS
created -o 'nacre/*:tiers=none'
took=$((SECONDS - begun))
mkdir "$work/files"
tar -xJf tests/old_files/0.1.0.tar.xz -C "$work/files"
(cd "$work/files/0.1.0" && "$tool" run float32.nacre --input images.npy --cast-inputs --kernels reference --output "$work/files") >"$work/said" 2>&1 || fail "nacre run"
python3 - "$work/files/probabilities.npy" "$work/scores" >"$work/said" 2>&1 <<'PYTHON' || fail "the programs print other scores than nacre run"
import struct, sys
data = open(sys.argv[1], "rb").read()
first = 10 + int.from_bytes(data[8:10], "little")  # skips the header
wanted = struct.unpack("<10f", data[first:first + 40])
printed = [float(line) for line in open(sys.argv[2])]
assert len(printed) == 20, f"{len(printed)} scores"
# Nine digits name one float32. The C++ program runs the reference kernels, as nacre run does. The C program runs the portable
# kernels, which add in another order: probabilities are at most 1, and differ by a few of float32's epsilons, 1.2e-7.
assert [struct.unpack("<f", struct.pack("<f", x))[0] for x in printed[:10]] == list(wanted), (printed, wanted)
assert all(abs(x - y) <= 1e-6 for x, y in zip(printed[10:], wanted)), (printed, wanted)
PYTHON
folder=$(conan cache path "$(conan list "nacre/$version:*" --format=compact 2>/dev/null | grep -oE "nacre/$version#[0-9a-f]+:[0-9a-f]+" | head -n 1)" 2>"$work/said") || fail "no package in the cache"
for name in LICENSE NOTICE; do cmp -s "$name" "$folder/licenses/$name" || fail "the package has no $name"; done
libraries=$(cd "$folder/lib" && ls libnacre*.a | wc -l)
bytes=$(du -sb "$folder" | cut -f 1)

conan create tests/conan/flatbuffers >"$work/said" 2>&1 || fail "the package of FlatBuffers"
created -o 'nacre/*:x86=False' -o 'nacre/*:threads=False' -o 'nacre/*:files=False' -o 'nacre/*:cuda=False' -o 'nacre/*:flatbuffers=conan'
[ "$(wc -l <"$work/scores")" -eq 10 ] || fail "a package without ports prints other than 10 scores"
! conan create . --build=missing -s compiler.version=11 >"$work/said" 2>&1 || fail "g++ 11 is not refused"
grep -q 'Nacre needs C++20: gcc 12 or newer' "$work/said" || fail "g++ 11 is refused with other words"
echo "CLAIM conan shown: Conan $(conan --version | grep -oE '[0-9.]+$') makes nacre/$version in $took s: $libraries libraries, $bytes bytes with headers and licenses; README's programs of" \
  "C++ and C print the scores of nacre run; without ports nacre::nacre is the one target; FlatBuffers may be a package of Conan; g++ 11 is refused"
