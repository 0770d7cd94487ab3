#!/usr/bin/env bash
# Claim c_abi: the installed files are enough. Programs of C11, C17, C++20 and C++23 compile with gcc and clang, without
# warnings, against the installed headers alone, by pkg-config; some also by CMake. They give the tool's results. The C
# API says about five networks what their TFLite files say. The headers of C++ compile in one file, in both orders, and
# those of include/nacre also beside another project's engine/ and ports/. The earlier names of headers still work.
# (tests/run shows that a program of the last released header runs with this library, and what NULL does.)
#
# Needs a build with all its targets (NACRE_BUILD, else build/test), cmake, pkg-config, and NACRE_SHARED for the networks.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${NACRE_BUILD:-build/test}")
tool=$(realpath "${NACRE_TOOL:-$build/tools/nacre}")
shared=$(realpath -m "${NACRE_SHARED:-../shared}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
verdict=shown failures=
fail() { verdict='NOT SHOWN'; failures+="[$1] "; }
compilers=0
pairs=()
for pair in "gcc g++" "clang-19 clang++-19"; do
  if command -v "${pair% *}" >/dev/null; then pairs+=("$pair"); compilers=$((compilers + 1)); fi
done
[ "$compilers" -eq 2 ] || fail "gcc and clang-19 are not both here"

meson install -C "$build" --no-rebuild --destdir "$work/root" --quiet --tags devel >"$work/install.log" 2>&1 ||
  { tail "$work/install.log"; fail "meson install"; }
pc=$(find "$work/root" -name nacre.pc)
prefix=$work/root$(sed -n 's/^prefix=//p' "$pc")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
config() { pkg-config --define-variable=prefix="$prefix" "$@"; }
foreign=$(find "$prefix/include/nacre" -name '*.cc' -o -name '*.md' | wc -l)
[ "$foreign" -eq 0 ] || fail "$foreign installed files are no headers"

# ---- Programs ----
root=$PWD
cd "$work"
cp "$root"/tools/samples/installed/* .
flags=(-Wall -Wextra -pedantic -Werror -O1)

programs=0
for pair in "${pairs[@]}"; do
  read -r c cxx <<<"$pair"
  for standard in c11 c17; do
    for name in classify describe federate; do
      "$c" -std=$standard "${flags[@]}" $name.c -o "$name-$c-$standard" $(config --cflags --libs nacre) || fail "$name.c, $c, $standard"
      programs=$((programs + 1))
    done
    "$c" -std=$standard "${flags[@]}" speed.c -o "speed-$c-$standard" $(config --cflags --libs nacre-x86 nacre-threads nacre) || fail "speed.c, $c, $standard"
    programs=$((programs + 1))
  done
  for standard in c++20 c++23; do
    "$cxx" -std=$standard "${flags[@]}" learn.cc -o "learn-$cxx-$standard" $(config --cflags --libs nacre-files nacre) || fail "learn.cc, $cxx, $standard"
    "$cxx" -std=$standard "${flags[@]}" -x c++ -c - -o /dev/null $(config --cflags nacre) <<<'#include <nacre/nacre_c.h>' || fail "nacre_c.h as $standard, $cxx"
    programs=$((programs + 2))
  done
  if "$cxx" -std=c++17 -c -x c++ - -o /dev/null $(config --cflags nacre) <<<'#include <nacre/nacre.h>' 2>old.txt; then fail "C++17 is taken"; fi
  grep -q 'Nacre is C++20' old.txt || fail "C++17 is not told what is wrong, $cxx"
done

# Compiles a C program with MPI, linked as MPI's compiler wrapper does.
if [ -f "$prefix/include/nacre/mpi_c.h" ]; then
  mpicc -std=c11 "${flags[@]}" "$root/tests/mpi_user.c" -o mpi_user $(config --cflags --libs nacre-mpi nacre) || fail "mpi_user.c, mpicc"
  programs=$((programs + 1))
fi

# Includes all headers of C++ in one translation unit, in both orders, without those of Cortex-M's kernels, which need
# that processor.
(cd "$prefix/include" && find nacre -name '*.h' | grep -vE '^nacre/(compat/|cortex_m_functions.h|ports/cortex_m/([^c]|channel|columns))' | sort) >headers.txt
public=$(cd "$root" && ls include/nacre)
for header in engine/nacre.h engine/run/places.h engine/model/model_slots.h ports/x86/x86.h; do
  g++ -std=c++20 -fsyntax-only -x c++ $(config --cflags nacre) - <<<"#include <$header>" 2>all.log || { grep -m 3 error all.log; fail "$header, as before"; }
done
gcc -std=c99 -fsyntax-only -x c $(config --cflags nacre) - <<<'#include <ports/x86/x86_c.h>' 2>all.log || { grep -m 3 error all.log; fail "ports/x86/x86_c.h, as before"; }
compat=$(cd "$prefix/include/nacre/compat" && find . -name '*.h' | wc -l)
[ "$compat" -ge 100 ] || fail "$compat headers have the names of before"
# A header of another project comes first in the search path.
while read -r header; do
  mkdir -p "others/$(dirname "$header")"
  echo '#error "another project'"'"'s header"' >"others/$header"
done < <(cd "$root" && find engine ports -name '*.h' -o -name '*.inc')
for header in $public; do
  [ -f "$prefix/include/nacre/$header" ] || { echo "nacre/$header is not installed: its library is not in this build"; continue; }
  [ "$header" != mpi.h ] || continue
  g++ -std=c++20 -fsyntax-only -x c++ -Iothers -isystem "$prefix/include" - <<<"#include <nacre/$header>" >all.log 2>&1 || { grep -m 3 error all.log; fail "nacre/$header beside another project's"; }
done
headers=$(wc -l <headers.txt)
mpi=()  # headers of the MPI port include mpi.h
! grep -q '^nacre/mpi.h' headers.txt || read -r -a mpi <<<"$(pkg-config --cflags ompi | sed 's/-I/-isystem /g')"
for pair in "${pairs[@]}"; do
  for order in sort 'sort -r'; do
    $order headers.txt | sed 's/.*/#include <&>/' >all.cc
    "${pair#* }" -std=c++20 -Wall -Wextra -pedantic -Werror -fsyntax-only all.cc $(config --cflags nacre) "${mpi[@]}" >all.log 2>&1 || { grep -m 3 error all.log; fail "all headers, ${pair#* }"; }
  done
done
if [ "${NACRE_LONG:-0}" = 1 ]; then
  while read -r header; do
    g++ -std=c++20 -Wall -Wextra -pedantic -Werror -fsyntax-only -x c++ $(config --cflags nacre) "${mpi[@]}" - <<<"#include <$header>" >all.log 2>&1 || fail "$header by itself"
  done <headers.txt
fi

# ---- CMake ----
mkdir cmake
cat >cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(user C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(nacre 0.1 REQUIRED)
add_executable(classify ../classify.c)
target_link_libraries(classify nacre::nacre)
add_executable(speed ../speed.c)
target_link_libraries(speed nacre::x86 nacre::threads)
add_executable(learn ../learn.cc)
target_link_libraries(learn nacre::files)
END
cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >cmake.log 2>&1 && cmake --build cmake/build >>cmake.log 2>&1 ||
  { tail -n 20 cmake.log; fail "CMake"; }

# ---- They give the tool's results ----
"$tool" convert "$root/tools/samples/digits.onnx" -o digits.nacre >/dev/null
python3 - "$root/tools/samples" <<'END'
import sys
# Reads images as float32, as the network reads them (--cast-inputs does the same), and labels as int32.
def array(path):
    data = open(path, "rb").read()
    length = int.from_bytes(data[8:10], "little")
    return data[10:10 + length].decode(), data[10 + length:]
import struct
header, images = array(sys.argv[1] + "/digits_images.npy")
header_l, labels = array(sys.argv[1] + "/digits_labels.npy")
print(header.strip(), header_l.strip())
assert "'|u1'" in header and "'|u1'" in header_l, (header, header_l)
open("images.bin", "wb").write(struct.pack("<%df" % len(images), *images))
open("labels.bin", "wb").write(struct.pack("<%di" % len(labels), *labels))
END
for program in ./classify-* cmake/build/classify; do "$program" digits.nacre images.bin 3 >"said-$(basename "$(dirname "$program")")-$(basename "$program")"; done
[ "$(cat said-* | sort | uniq -c | awk '{print $1}' | sort -u | wc -l)" -eq 1 ] || fail "programs of one source say different things"
cat said-build-classify
digit=$(sed -n '2s/^ *class \([0-9]*\) .*/\1/p' said-build-classify)
[ "$digit" = "$(od -An -t u1 -j $(($(stat -c %s "$root/tools/samples/digits_labels.npy") - 1797 + 3)) -N 1 "$root/tools/samples/digits_labels.npy" | tr -d ' ')" ] ||
  fail "classify reads $digit"

# Runs fast kernels and threads from C. Outputs differ from the reference's only as another order of sums makes them.
for program in ./speed-* cmake/build/speed; do
  "$program" digits.nacre 2 5 >speed.txt || fail "$program"
  awk '/differ by at most/ {near = $6 <= 1e-5 * $8} END {exit !near}' speed.txt || { cat speed.txt; fail "$program: other outputs"; }
done
cat speed.txt

# Trains 20 steps, then 20 more in a second process. The result must equal 40 steps in one process.
"$tool" convert "$root/tools/samples/digits.onnx" -o train.nacre --train softmax_cross_entropy --optimizer adam --batch 32 >/dev/null
mkdir one two
./learn-g++-c++20 train.nacre images.bin labels.bin one 40 >one.txt
./learn-g++-c++20 train.nacre images.bin labels.bin two 20 >two.txt
./learn-g++-c++20 train.nacre images.bin labels.bin two 40 >>two.txt
cat two.txt
grep -qx 'from step 20' two.txt || fail "learn does not go on where it stopped"
[ "$(tail -n 1 one.txt)" = "$(tail -n 1 two.txt)" ] || fail "learn in two processes: another loss"
cmp -s <("$tool" export train.nacre --checkpoint one -o a.nacre --json >/dev/null; cat a.nacre) <("$tool" export train.nacre --checkpoint two -o b.nacre --json >/dev/null; cat b.nacre) ||
  fail "learn in two processes: other parameters"
mkdir empty
if ./learn-g++-c++20 train.nacre images.bin labels.bin nowhere 1 >none.txt 2>&1; then fail "learn in a folder that is not there"; fi
grep -q 'nowhere' none.txt || fail "no sentence on a folder that is not there"

# ---- Facts that the C API tells about five networks ----
networks=0 facts=0
if [ -d "$shared/models/mlperf_tiny" ]; then
  for file in ad01_int8 kws_ref_model pretrainedResnet_quant vww_96_int8 str_ww_ref_model; do
    source=$shared/models/mlperf_tiny/$file.tflite
    "$tool" convert "$source" -o net.nacre --io-types policy >/dev/null
    ./describe-gcc-c11 net.nacre >told.txt
    count=$(python3 "$root/tests/claims/c_abi_facts.py" told.txt "$source") || { fail "$file: $count"; continue; }
    networks=$((networks + 1)) facts=$((facts + count))
  done
  [ "$networks" -eq 5 ] || fail "$networks of 5 networks tell what their files say"
fi

echo "CLAIM c_abi $verdict: ${failures}$programs programs and $headers headers compile with gcc and clang, C11 to C++23, -pedantic, no warning; pkg-config and CMake; $networks networks tell $facts facts as their files do"
[ "$verdict" = shown ]
