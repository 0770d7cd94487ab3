#!/usr/bin/env bash
# Checks how many files an addition touches, by patches that apply to this tree, build and pass.
#
#   tests/hacking.sh [NAME...]      op, onnx_operator; all of them without a name
#
#   op              modulo with its gradient, batch, axes and patch rules, an ONNX operator and a TFLite one; all unit tests, the
#                   claims op_table, gradients and kernels_correct, and cuda_fake on a simulated GPU. Left out is the test of
#                   tools/evaluate/kernel_text.inc, which firmware/kernel_text.py writes: the bytes of every kernel, by target
#   onnx_operator   com.microsoft BiasAdd, of a new subject, beside numpy
#
# A patch is applied to a clone of what is committed and built there, some 20 minutes for each on two processors. It lies
# in tests/hacking, and docs/hacking explains it. Also checked, without a build: a family of fast kernels has forms.h, run.h
# and one line of ports/vector/meson.build, and the importers of a subject of ONNX operators are named in one file alone.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
declare -A goals=([op]=9 [onnx_operator]=2)
names=("$@")
[ $# -gt 0 ] || names=(op onnx_operator)
work=${NACRE_HACKING:-build/hacking}
mkdir -p "$work"
work=$(cd "$work" && pwd)
export CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fail() { echo "CLAIM hacking NOT SHOWN: $*"; exit 1; }

# Families and subjects.
families=0
for family in engine/kernels/fast/*/; do
  family=$(basename "$family")
  lines=$(grep -cw "'$family'" ports/vector/meson.build)
  [ -f "engine/kernels/fast/$family/forms.h" ] && [ -f "engine/kernels/fast/$family/run.h" ] || fail "$family lacks forms.h or run.h"
  # The families of products are named in one line together.
  [ "$lines" = 1 ] || fail "$family is named in $lines lines of ports/vector/meson.build"
  families=$((families + 1))
done
subjects=0
for file in $(git grep -l '^std::span<const OperatorImporter> [a-z_0-9]*_importers()' -- tools/importers); do
  name=$(sed -n 's/^std::span<const OperatorImporter> \([a-z_0-9]*\)_importers().*/\1/p' "$file")
  others=$(git grep -lw "${name}_importers" -- tools | grep -vxF "$file" || true)
  [ -z "$others" ] || fail "$name is named in $others"
  subjects=$((subjects + 1))
done

built=()
for name in "${names[@]}"; do
  patch=$root/tests/hacking/$name.patch tree=$work/$name
  rm -rf "$tree"
  git clone -q . "$tree"
  git -C "$tree" apply --index "$patch" || fail "$name.patch does not apply"
  touched=$(git -C "$tree" diff --cached --name-only | wc -l)
  [ "$touched" -le "${goals[$name]}" ] || fail "$name touches $touched files of ${goals[$name]}"
  cd "$tree"
  export CCACHE_BASEDIR=$tree NACRE_SHARED=${NACRE_SHARED:-$root/../shared}
  meson setup build/test -Dbuildtype=release -Dtests=true -Dwerror=true -Dx86_tiers=native -Dsuites=all >"$work/$name.log" 2>&1 ||
    fail "$name: see $work/$name.log"
  case $name in
    op)
      ninja -C build/test tools/nacre tests/unit_tests tests/claim_tests >>"$work/$name.log" 2>&1 || fail "$name does not build: $work/$name.log"
      NACRE_TOOL=$tree/build/test/tools/nacre build/test/tests/unit_tests --gtest_filter=-flash.every_kernel_of_a_static_program_has_its_bytes \
        >"$work/$name.unit" 2>&1 || fail "$name: $(tail -n 3 "$work/$name.unit")"
      for claim in op_table gradients kernels_correct cuda_fake; do
        build/test/tests/claim_tests "$claim" >"$work/$name.$claim" 2>&1 || fail "$name: $(tail -n 1 "$work/$name.$claim")"
        grep -hm 1 '^CLAIM' "$work/$name.$claim" | cut -c 1-200 | sed 's/^/    /'
      done
      seen="$(grep -c '^\[       OK' "$work/$name.unit") unit tests and 4 claims"
      ;;
    onnx_operator)
      ninja -C build/test tools/nacre >>"$work/$name.log" 2>&1 || fail "$name does not build: $work/$name.log"
      python=${NACRE_PEERS_PYTHON:-$(bash "$root/tools/peers.sh" tests/peers/requirements.txt peers)}
      "$python" "$root/tests/hacking/bias_add.py" build/test/tools/nacre "$work" || fail "$name gives other numbers"
      seen="numbers of numpy"
      ;;
  esac
  cd "$root"
  built+=("$name $touched files, $seen")
done
joined=$(printf '; %s' "${built[@]}")
echo "CLAIM hacking shown: ${joined:2}; $families families are two files and a line, $subjects subjects of ONNX operators a file and a word"
