#!/usr/bin/env bash
# Claim no_spills: in the loops of the fast products' tiles no vector register is stored to the stack or loaded from
# it. The build's compiler made the objects; clang-19, if installed, makes two more. Spills cost more than any other
# mistake: the same tile takes 2.7 times as long.
#
#   tests/claims/no_spills.sh        with NACRE_BUILD, a build of an x86 machine
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
folder=$NACRE_BUILD/ports/vector
[ "$(uname -m)" = x86_64 ] || { echo "disassembles x86 alone"; exit 77; }
[ -z "${NACRE_SANITIZED-}" ] || { echo "the plain build shows it"; exit 77; }
command -v objdump >/dev/null || { echo "objdump is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Tests the check with a loop that spills beside a frame pointer, and one where %rbp is an ordinary register. Only the
# first may be found.
spilling() {
  printf '%s\n' '0 <Product::tile<6>()>:' "$@" $'   4:\tvfmadd231ps %ymm1,%ymm2,%ymm3' $'   9:\tvmovaps -0x20(%rbp),%ymm4' \
    $'   e:\tjne    4 <x>' | awk -v pattern='Product.*::(tile|row)<' -f tests/spills.awk
}
[[ $(spilling $'   1:\tmov    %rsp,%rbp') == *SPILL*'loops 1' && $(spilling $'   1:\tnop') == 'loops 1' ]] ||
  { echo "CLAIM no_spills NOT SHOWN: a spill that is there is not seen, or one that is not is"; exit 1; }

loops=0 objects=0 spills=0
# look OBJECT: counts the loops of the object's tiles, and prints those that spill.
look() {
  local found
  found=$(objdump -dC --no-show-raw-insn "$1" | awk -v pattern='Product.*::(tile|row)<' -f tests/spills.awk)
  loops=$((loops + ${found##*loops })) objects=$((objects + 1))
  if [[ $found == *SPILL* ]]; then
    spills=$((spills + $(grep -c SPILL <<<"$found")))
    echo "$1:"
    grep SPILL <<<"$found" | head -n 5
  fi
}
compilers="the build's compiler"
for file in matmul pairs gradient; do
  for object in "$folder"/libnacre_*.$file.a.p/family.cc.o; do
    [[ ! -e $object || $object == *portable* ]] || look "$object"
  done
done
[ "$objects" -gt 0 ] || { echo "this build has no tiers with vectors"; exit 77; }

avx2="-mavx2 -mfma -mf16c -mbmi -mbmi2"
avx512="$avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512 -mavx512vnni -mavx512bf16 -mavx512vbmi"
# clang TIER VECTORS FLAGS: compiles a tier with clang and checks it.
clang() {
  clang++-19 -std=c++20 -O3 -fno-exceptions -fno-rtti -ffp-contract=off -fno-math-errno -Wno-psabi -I. \
    -I"$NACRE_BUILD" -I"$NACRE_BUILD/schema" $3 -DNACRE_ISA="$1" -DNACRE_VECTORS="\"$2\"" \
    -DNACRE_FAMILY=matmul -DNACRE_RUN='"engine/kernels/fast/matmul/run.h"' -c ports/vector/family.cc -o "$scratch/$1.o" || { echo "CLAIM no_spills NOT SHOWN: clang fails"; exit 1; }
  look "$scratch/$1.o"
}
if command -v clang++-19 >/dev/null; then
  clang avx2 ports/x86/vec_avx2.h "$avx2"
  clang avx512_bf16 ports/x86/vec_avx512.h "$avx512"
  compilers="$compilers and clang-19"
fi
if [ "$spills" -gt 0 ] || [ "$loops" -lt 20 ]; then
  echo "CLAIM no_spills NOT SHOWN: $spills accesses of the stack in $loops loops of $objects objects"
  exit 1
fi
echo "CLAIM no_spills shown: 0 vector registers on the stack in $loops innermost loops of $objects objects, by $compilers"
