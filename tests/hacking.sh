#!/usr/bin/env bash
# Claim hacking: five additions, as patches, apply to this tree, touch few files, build and pass their tests.
#
#   tests/hacking.sh [--apply]      --apply: applies them and counts the files; builds nothing
#
#   op              modulo with its gradient, batch, axes and patch rules, an ONNX operator and a TFLite one; all unit tests, the
#                   claims op_table, gradients and kernels_correct, and cuda_fake on a simulated GPU. Left out is the test of
#                   tools/evaluate/kernel_text.inc, which firmware/kernel_text.py writes: the bytes of every kernel, by target
#   kernel          a family of fast kernels, onnx_momentum; kernels_correct compares it with the reference in every tier
#   tier            avx512_vbmi, a tier of x86 with avx512_vnni's vectors; its outputs have avx512_vnni's bytes
#   onnx_operator   com.microsoft BiasAdd, of a new subject, beside numpy
#   policy          int8/ternary, beside its formula in numpy
#
# Each patch must apply to a clone of what is committed. Then all are applied to one clone, which is built: some 20 minutes
# on two processors. The patches lie in tests/hacking, and docs/hacking explains them. Also looked at, without a build: a
# family of fast kernels is two files and one line, and a subject of ONNX operators one file and one word.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
declare -A goals=([op]=9 [kernel]=3 [tier]=2 [onnx_operator]=2 [policy]=5)
names=(op kernel tier onnx_operator policy)
work=${NACRE_HACKING:-build/hacking}
mkdir -p "$work"
work=$(cd "$work" && pwd)
export CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fail() { echo "CLAIM hacking NOT SHOWN: $*"; exit 1; }

# Families and subjects.
families=0
for family in engine/kernels/fast/*/; do
  family=$(basename "$family")
  lines=$(grep -cE "^$family( products)?$" ports/vector/families.txt)
  [ -f "engine/kernels/fast/$family/forms.h" ] && [ -f "engine/kernels/fast/$family/run.h" ] || fail "$family lacks forms.h or run.h"
  [ "$lines" = 1 ] || fail "$family is named in $lines lines of ports/vector/families.txt"
  families=$((families + 1))
done
subjects=0
for file in $(git grep -l '^std::span<const OperatorImporter> [a-z_0-9]*_importers()' -- tools/importers); do
  name=$(sed -n 's/^std::span<const OperatorImporter> \([a-z_0-9]*\)_importers().*/\1/p' "$file")
  others=$(git grep -lw "${name}_importers" -- tools | grep -vxF "$file" || true)
  [ -z "$others" ] || fail "$name is named in $others"
  subjects=$((subjects + 1))
done

tree=$work/tree counted=
rm -rf "$tree"
git clone -q . "$tree"
for name in "${names[@]}"; do
  git -C "$tree" apply --index "$root/tests/hacking/$name.patch" || fail "$name.patch does not apply"
  touched=$(git -C "$tree" diff --cached --name-only | wc -l)
  [ "$touched" -le "${goals[$name]}" ] || fail "$name touches $touched files of ${goals[$name]}"
  counted+="$name $touched files, "
  git -C "$tree" reset -q --hard
  git -C "$tree" clean -qfd
done
shape="$families families are two files and a line, $subjects subjects of ONNX operators a file and a word"
if [ "${1-}" = --apply ]; then
  echo "CLAIM hacking partly shown: ${counted%, }; $shape; not built (tests/hacking.sh)"
  exit 0
fi

for name in "${names[@]}"; do git -C "$tree" apply --index "$root/tests/hacking/$name.patch" || fail "$name.patch does not apply behind the others"; done
cd "$tree"
export CCACHE_BASEDIR=$tree NACRE_SHARED=${NACRE_SHARED:-$root/../shared}
runs_tier=false
! grep -qw avx512_vbmi /proc/cpuinfo && ! grep -qw avx512vbmi /proc/cpuinfo || runs_tier=true
tiers=native
! $runs_tier || tiers=native,avx512_vnni,avx512_vbmi
meson setup build/test -Dbuildtype=release -Dtests=true -Dwerror=true -Dx86_tiers=$tiers -Dsuites=all >"$work/build.log" 2>&1 || fail "see $work/build.log"
ninja -C build/test tools/nacre tests/unit_tests tests/claim_tests >>"$work/build.log" 2>&1 || fail "they do not build: $work/build.log"
nacre=$tree/build/test/tools/nacre
# A shell that runs this in the background ignores SIGINT, which the tests of signals send.
NACRE_TOOL=$nacre env --default-signal=INT,QUIT build/test/tests/unit_tests --gtest_filter=-flash.every_kernel_of_a_static_program_has_its_bytes \
  >"$work/unit" 2>&1 || fail "$(tail -n 3 "$work/unit")"
for claim in op_table gradients kernels_correct cuda_fake; do
  NACRE_TOOL=$nacre build/test/tests/claim_tests "$claim" >"$work/$claim" 2>&1 || fail "$(tail -n 1 "$work/$claim")"
  grep -hm 1 '^CLAIM' "$work/$claim" | cut -c 1-200 | sed 's/^/    /'
done
best=$("$nacre" kernels --json | sed -n '/"set"/{s/.*: "\(.*\)".*/\1/;h}; /"auto": true/{x;p}')
"$nacre" kernels --set "$best" | grep -q onnx_momentum_f32 || fail "$best has no onnx_momentum_f32"
python=${NACRE_PEERS_PYTHON:-$(bash "$root/tools/peers.sh")}
"$python" "$root/tests/hacking/bias_add.py" "$nacre" "$work" || fail "onnx_operator gives other numbers"
"$python" "$root/tests/hacking/ternary.py" "$nacre" "$work" || fail "policy gives other weights"
"$nacre" convert tools/samples/digits.onnx -o "$work/digits.nacre" --policy int8_from_float32 >/dev/null
said_tier="this processor does not run avx512_vbmi, which is not compiled here"
if $runs_tier; then
  for tier in avx512_vnni avx512_vbmi; do "$nacre" run "$work/digits.nacre" --seed 1 --kernels "$tier" --output "$work/$tier" >/dev/null; done
  diff -r "$work/avx512_vnni" "$work/avx512_vbmi" || fail "tier has other bytes"
  grep -q 'avx512_vbmi [0-9]' "$work/kernels_correct" || fail "kernels_correct leaves avx512_vbmi out"
  said_tier="avx512_vbmi has the bytes of avx512_vnni"
fi
cd "$root"
echo "CLAIM hacking shown: ${counted%, }; $(grep -c '^\[       OK' "$work/unit") unit tests and 4 claims pass with all of them; $said_tier; $shape"
