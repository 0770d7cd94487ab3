#!/usr/bin/env bash
# Claim headers_alone: each header of include/nacre, and each header that it includes, compiles by itself, without any
# warning that other projects turn on. Headers of C compile as C99 and as C++17, all others as C++20. (The Cortex-M
# kernels' headers need that processor and are left out.) The C++ that `nacre firmware` writes compiles in the same
# way, and so do the examples in the headers' comments (header_examples.py).
#
#   tests/claims/headers_alone.sh            with the libraries and the tool of a build (NACRE_BUILD, else build/test)
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${NACRE_BUILD:-build/test}")
tool=$(realpath "${NACRE_TOOL:-$build/tools/nacre}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
meson install -C "$build" --no-rebuild --destdir "$work/root" --quiet --tags devel >"$work/install.log" 2>&1 ||
  { tail "$work/install.log"; echo "CLAIM headers_alone NOT SHOWN: meson install"; exit 1; }
include=$(dirname "$(dirname "$(find "$work/root" -path '*include/nacre/nacre.h')")")
warnings=(-Wall -Wextra -pedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-align=strict -Wundef)

# alone COMPILER STANDARD HEADER [FLAG...]: prints a line for each warning.
alone() {
  local compiler=$1 standard=$2 header=$3
  shift 3
  echo "#include \"$header\"" >"$work/$compiler-$standard-${header//\//_}.$([ "$compiler" = gcc ] && echo c || echo cc)"
  "$compiler" -std="$standard" "${warnings[@]}" "$@" -fsyntax-only -I"$include" "${mpi[@]}" "$work/$compiler-$standard-${header//\//_}".c* 2>&1 |
    sed -n "s|^$include/||; /\(warning\|error\):/p"
}
mpi=()  # headers of the MPI port include mpi.h
[ ! -f "$include/nacre/mpi.h" ] || read -r -a mpi <<<"$(pkg-config --cflags ompi | sed 's/-I/-isystem /g')"
# is_of_c HEADER: tests the header's own text, or that of the header that it forwards to.
is_of_c() {
  local text=$include/$1
  grep -q '^extern "C"' "$text" || text=$include/$(sed -n 's/^#include "\(.*\)"/\1/p' "$text" | head -n 1)
  [ -f "$text" ] && grep -q '^extern "C"' "$text" && ! grep -q '^namespace' "$text"
}
headers=0 compilations=0
{
  while read -r header; do
    headers=$((headers + 1))
    if is_of_c "$header"; then
      alone gcc c99 "$header"
      alone g++ c++17 "$header" -Wold-style-cast
      compilations=$((compilations + 2))
    else
      alone g++ c++20 "$header" -Wold-style-cast
      compilations=$((compilations + 1))
    fi
  done < <(cd "$include" && find nacre -name '*.h' | grep -vE '^nacre/(compat/.*|ports/cortex_m/(([^c].*)|(channel|columns).*))$' | sort)
  "$tool" convert tools/samples/digits.onnx --policy int8/weights_from_float32 -o "$work/m.nacre" >/dev/null 2>"$work/said" || cat "$work/said"
  mkdir "$work/made"
  "$tool" firmware "$work/m.nacre" --target host -o "$work/made" >/dev/null 2>"$work/said" || { echo "error: nacre firmware"; cat "$work/said"; }
  for file in "$work"/made/*.cc; do
    g++ -std=c++20 "${warnings[@]}" -Wold-style-cast -fsyntax-only -I"$include" -I"$work/made" "$file" 2>&1 | sed -n "s|^$work/[a-z]*/||; /\(warning\|error\):/p"
    compilations=$((compilations + 1))
  done
  examples=$(python3 tests/claims/header_examples.py "$include" "$work") || echo "error: header_examples.py"
  # The examples declare names of their own, over those that they share.
  {
    g++ -std=c++20 "${warnings[@]}" -Wold-style-cast -Wno-shadow -fsyntax-only -I"$include" "${mpi[@]}" "$work/examples.cc"
    gcc -std=c99 "${warnings[@]}" -Wno-shadow -fsyntax-only -I"$include" "$work/examples.c"
  } 2>&1 | sed -n "s|^$include/||; /\(warning\|error\):/p"
  echo "$headers $compilations $examples" >"$work/counts"
} >"$work/found"
sort -u "$work/found" | head -n 40
read -r headers compilations cpp c <"$work/counts"
found=$(sort -u "$work/found" | wc -l)
if [ "$found" -gt 0 ] || [ "$headers" -lt 20 ] || [ "${cpp:-0}" -lt 20 ] || [ "${c:-0}" -lt 8 ]; then
  echo "CLAIM headers_alone NOT SHOWN: $found warnings in $headers headers, with ${cpp:-no} examples of C++ and ${c:-no} of C"
  exit 1
fi
echo "CLAIM headers_alone shown: $headers headers, their examples, $cpp of C++ and $c of C, and $((compilations - headers)) other compilations without a warning"
