#!/usr/bin/env bash
# Claim cmake_consumers: an application takes Nacre into its build in four ways, each in an empty folder: FetchContent of a
# clone, add_subdirectory, find_package from a prefix, and a subproject of Meson. Each way builds README's programs of C++
# and C, and all print the same numbers. `cmake --install` and `meson install` give find_package the same targets. Each
# installed library has a .pc file with which a program links, and none is another machine's. A subproject builds neither
# tool nor tests. A mistake is one sentence.
#
#   tests/claims/cmake_consumers.sh      with the tool and the library of a build (NACRE_BUILD, else build/test): compiles this
#                                        machine's best tier twice, some three minutes on two cores without a compiler's cache
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
build=$(realpath "${NACRE_BUILD:-build/test}")
tool=$(realpath "${NACRE_TOOL:-$build/tools/nacre}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
verdict=shown failures=
fail() { verdict='NOT SHOWN'; failures+="[$1] "; }
case $(uname -m) in
  x86_64) port=x86 other=arm ;;
  aarch64) port=arm other=x86 ;;
  *) echo "CLAIM cmake_consumers NOT SHOWN: neither x86-64 nor AArch64"; exit 77 ;;
esac
# A cache of compiled files serves folders in another place, because paths are taken from $work.
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# Clones the committed files. If the checkout has no history, makes one of its files.
if ! git clone -q "$root" "$work/nacre" 2>/dev/null; then
  mkdir "$work/nacre"
  tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/nacre" -xf -
  git -C "$work/nacre" init -q && git -C "$work/nacre" add -A && git -C "$work/nacre" -c user.name=n -c user.email=n@n commit -qm all
fi

# ---- README's programs, a model and an image ----

cd "$work"
mkdir programs
fences() { awk -v begin="\`\`\`$1" '$0 == begin {on = 1; next} $0 == "```" {on = 0} on' "$root/README.md"; }
{ fences cpp; cat "$root/tests/claims/readme_classify.cc"; } >programs/classify.cc
{ fences c; cat "$root/tests/claims/readme_classify.c"; } | sed "s/x86/$port/g" >programs/bind.c
"$tool" convert "$root/tools/samples/digits.onnx" -o plain.nacre >/dev/null
python3 -c '
import struct, sys
data = open(sys.argv[1] + "/tools/samples/digits_images.npy", "rb").read()
first = 10 + int.from_bytes(data[8:10], "little")  # skips the header
sys.stdout.buffer.write(struct.pack("<64f", *data[first:first + 64]))' "$root" >image.bin

# ran WAY CLASSIFY BIND: runs both programs and keeps what they print.
ways=0
ran() {
  if "$2" >"said_$1" && "$3" >>"said_$1" && [ "$(wc -l <"said_$1")" -eq 20 ]; then ways=$((ways + 1)); else fail "$1: the programs do not run"; fi
}
# cmake_built WAY OPTION...: builds the folder WAY with CMake and runs its programs.
cmake_built() {
  local way=$1
  shift
  cp programs/* "$way"
  if (cd "$way" && cmake -S . -B build "${launcher[@]}" "$@" && cmake --build build --parallel 2) >"$way.log" 2>&1; then
    ran "$way" "$way/build/classify" "$way/build/bind"
  else
    grep -m 3 -iE 'error|undefined' "$way.log" || tail -n 5 "$way.log"
    fail "$way does not build"
  fi
}
programs_of_cmake="add_executable(classify classify.cc)
target_link_libraries(classify nacre::nacre)
add_executable(bind bind.c)
target_link_libraries(bind nacre::$port nacre::threads)"

# ---- add_subdirectory; its build installs the library too ----

mkdir add
git clone -q nacre add/nacre
cat >add/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(app C CXX)
add_subdirectory(nacre)
$programs_of_cmake
END
cmake_built add -G Ninja -DCMAKE_BUILD_TYPE=Release -DNACRE_X86_TIERS=native -DNACRE_INSTALL=ON
cmake --install add/build --prefix "$work/prefix_cmake" >install.log 2>&1 || { tail -n 3 install.log; fail "cmake --install"; }

# ---- FetchContent; folders that lie as those of add_subdirectory share a compiler's cache with it ----

mkdir fetch
cat >fetch/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(app C CXX)
include(FetchContent)
FetchContent_Declare(nacre GIT_REPOSITORY "file://$work/nacre" GIT_TAG HEAD
  SOURCE_DIR "\${CMAKE_SOURCE_DIR}/nacre" BINARY_DIR "\${CMAKE_BINARY_DIR}/nacre")
FetchContent_MakeAvailable(nacre)
$programs_of_cmake
END
cmake_built fetch -G Ninja -DCMAKE_BUILD_TYPE=Release -DNACRE_X86_TIERS=native
# A library that no program links is not built.
[ ! -e fetch/build/nacre/libnacre_cuda.a ] || fail "FetchContent builds what nothing links"

# ---- find_package, from what CMake installed and from what Meson installed, also in a project of C alone ----

meson install -C "$build" --no-rebuild --quiet --tags devel --destdir "$work/root" >install.log 2>&1 || { tail -n 3 install.log; fail "meson install"; }
pc=$(find "$work/root" -name nacre.pc)
prefix_meson=$work/root$(sed -n 's/^prefix=//p' "$pc")
for by in cmake meson; do
  prefix=prefix_$by
  [ "$by" = cmake ] && prefix=$work/prefix_cmake || prefix=$prefix_meson
  mkdir "find_$by" "c_only_$by"
  cat >"find_$by/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(app C CXX)
find_package(nacre 0.1 REQUIRED)
foreach(target nacre $port threads files cuda)
  if(NOT TARGET nacre::\${target})
    message(FATAL_ERROR "no target nacre::\${target}")
  endif()
endforeach()
if(TARGET nacre::$other)
  message(FATAL_ERROR "the target nacre::$other is of another machine")
endif()
$programs_of_cmake
END
  cmake_built "find_$by" -DCMAKE_PREFIX_PATH="$prefix"
  printf 'cmake_minimum_required(VERSION 3.20)\nproject(app C)\nfind_package(nacre REQUIRED)\nadd_executable(bind bind.c)\ntarget_link_libraries(bind nacre::%s nacre::threads)\n' "$port" >"c_only_$by/CMakeLists.txt"
  cp programs/bind.c "c_only_$by"
  if cmake -S "c_only_$by" -B "c_only_$by/build" -DCMAKE_PREFIX_PATH="$prefix" >c_only.log 2>&1 && cmake --build "c_only_$by/build" >>c_only.log 2>&1; then
    "c_only_$by/build/bind" | cmp -s - <(tail -n 10 "said_find_$by") || fail "a project of C alone prints other numbers"
  else
    tail -n 5 c_only.log; fail "a project of C alone, $by's prefix"
  fi
done
cmp -s <(cd prefix_cmake/include && find . -type f ! -name 'mpi*' | grep -v /mpi/ | sort) <(cd "$prefix_meson/include" && find . -type f ! -name 'mpi*' | grep -v /mpi/ | sort) ||
  fail "cmake --install and meson install give other headers"

# ---- A subproject of Meson ----

mkdir -p subproject/subprojects
git clone -q nacre subproject/subprojects/nacre
cp programs/* subproject
cat >subproject/meson.build <<END
project('app', 'c', 'cpp', default_options: ['cpp_std=c++20', 'buildtype=release'])
executable('classify', 'classify.cc', dependencies: dependency('nacre', fallback: 'nacre', default_options: ['x86_tiers=native']))
executable('bind', 'bind.c', dependencies: [dependency('nacre-$port'), dependency('nacre-threads')])
foreach name : ['nacre-files', 'nacre-cuda']
  dependency(name)
endforeach
END
if (cd subproject && PKG_CONFIG_LIBDIR=/nowhere meson setup build && ninja -j 2 -C build) >subproject.log 2>&1; then
  ran subproject subproject/build/classify subproject/build/bind
else
  grep -m 3 -iE 'error|undefined' subproject.log || tail -n 5 subproject.log
  fail "the subproject does not build"
fi
foreign=$(cd subproject/build && find . -path '*/tools/*.o' -o -path '*/tests/*.o' -o -name 'libnacre_cuda.a' -o -name "libnacre_$other.a" | wc -l)
[ "$foreign" -eq 0 ] || fail "the subproject builds $foreign files that it does not need"

# ---- All ways print the same numbers ----

different=$(cat said_* | sort | uniq -c | awk -v ways="$ways" '$1 % ways != 0' | wc -l)
[ "$different" -eq 0 ] || fail "$different numbers differ between the ways"
first=$(find . -maxdepth 1 -name 'said_*' | sort | head -n 1)
for said in said_*; do cmp -s "$first" "$said" || fail "$said differs from $first"; done

# ---- The objects that CMake compiles are Meson's, in a build of release ----

# same_object OURS THEIRS compares two objects without the names of their source files.
same_object() {
  strip --strip-unneeded -o ours.o "$1" && strip --strip-unneeded -o theirs.o "$2" && cmp -s ours.o theirs.o
}
compared=0
if python3 -c 'import json, sys; sys.exit({o["name"]: o["value"] for o in json.load(open(sys.argv[1]))}["buildtype"] != "release")' "$build/meson-info/intro-buildoptions.json"; then
  objects=add/build/nacre/CMakeFiles
  while read -r source; do
    same_object "$objects/nacre_engine.dir/engine/$source" "$build/engine/libnacre.a.p/${source//\//_}" || fail "engine/$source is another object than Meson's"
    compared=$((compared + 1))
  done < <(cd $objects/nacre_engine.dir/engine && find . -name '*.o' | sed 's,^\./,,')
  while read -r tier family; do
    theirs=$build/ports/vector/libnacre_$tier.$family.a.p/family.cc.o
    [ -f "$theirs" ] || continue
    same_object "$objects/nacre_$port.dir/made/$tier/$family.cc.o" "$theirs" || fail "$family of $tier is another object than Meson's"
    compared=$((compared + 1))
  done < <(cd "$objects/nacre_$port.dir/made" && find . -name '*.o' | sed 's,^\./,,; s,/, ,; s,\.cc\.o$,,')
fi

# ---- pkg-config: a program for each library ----

PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
config() { pkg-config --define-variable=prefix="$prefix_meson" "$@"; }
declare -A calls=([nacre]='nacre_c.h nacre_version()' [nacre-threads]='threads_c.h nacre_thread_pool_open(1)'
  [nacre-files]='files_c.h nacre_checkpoint_files_problem(NULL)' [nacre-x86]='x86_c.h nacre_x86_best()'
  [nacre-arm]='arm_c.h nacre_arm_best()' [nacre-mpi]='mpi_c.h nacre_mpi_problem(NULL)' [nacre-cuda]='cuda.h nacre::cuda::Device::kernel_count()')
packages=0
for file in "$PKG_CONFIG_PATH"/nacre*.pc; do
  name=$(basename "$file" .pc)
  read -r header call <<<"${calls[$name]-}"
  [ -n "$call" ] || { fail "$name.pc is not known to this test"; continue; }
  compiler=(cc -x c)
  [ "$name" != nacre-mpi ] || compiler=(mpicc -x c)
  [ "$name" != nacre-cuda ] || compiler=(g++ -std=c++20 -x c++)
  echo "#include <stddef.h>
#include <nacre/$header>
int main(void) { return sizeof($call) == 0 || ($call, 0); }" >one.c
  if "${compiler[@]}" one.c -x none -o one $(config --cflags --libs "$name") >one.log 2>&1; then packages=$((packages + 1)); else head -n 3 one.log; fail "$name.pc"; fi
done
for library in "$(dirname "$PKG_CONFIG_PATH")"/libnacre*.a; do
  name=$(basename "$library" .a)
  grep -qE -- "-l${name#lib}( |$)" "$PKG_CONFIG_PATH"/nacre*.pc || fail "$name.a has no .pc file"
done
for prefix in prefix_cmake "$prefix_meson"; do
  [ -z "$(find "$prefix" -name "*nacre[-_]$other*" -o -path "*nacre/$other*.h")" ] || fail "files of another machine in $prefix"
done

# ---- Mistakes ----

# says PATTERN OPTION...: CMake refuses these options of an application with one sentence that has the pattern.
mistakes=0
says() {
  local pattern=$1
  shift
  if cmake -S nacre -B mistake "${launcher[@]}" "$@" >mistake.log 2>&1; then
    fail "no refusal of $*"
  elif [ "$(tr -s '\n ' ' ' <mistake.log | grep -cE "Nacre: $pattern")" -eq 1 ] && [ "$(grep -c 'CMake Error' mistake.log)" -eq 1 ]; then
    mistakes=$((mistakes + 1))
  else
    tail -n 5 mistake.log; fail "$* is not refused by a sentence"
  fi
  rm -rf mistake
}
says 'flatc or .* was not found; install flatbuffers-compiler' -DNACRE_FLATC=0
says 'NACRE_X86_TIERS=avx1024 is no tier: give none, all, native, runnable, avx2' -DNACRE_X86_TIERS=avx1024
says 'NACRE_PORTS=threads,x87 has x87, which is no port: give all, or x86' -DNACRE_PORTS=threads,x87
says 'NACRE_CUDA=ON needs nvcc' -DNACRE_X86_TIERS=none -DNACRE_CUDA=ON -DNACRE_NVCC=0
if [ "$port" = x86 ]; then says '.* asks for this machine.s tiers in a build for another one' -DNACRE_X86_TIERS=native -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=x86_64; fi

echo "CLAIM cmake_consumers $verdict: ${failures}README's programs of C++ and C print the same numbers in $ways ways: FetchContent, add_subdirectory, \
find_package from CMake's and from Meson's prefix, a subproject of Meson; $compared objects of CMake are those of Meson; a program links each of $packages .pc files, no file is another machine's; $mistakes mistakes are a sentence each"
[ "$verdict" = shown ]
