#!/usr/bin/env bash
# Builds the libraries that a wheel links statically, from Debian's source packages, and prints the folder they are in:
#
#   tools/wheels/static_libraries.sh x86_64|aarch64
#
# build/static/sources    the source packages; build/static/ARCHITECTURE    lib, include, licenses, packages.tsv
# Debian's own archives (.a) cannot be linked into an extension of Python: they are compiled without -fPIC. HDF5 has here
# no network, no szip and no C++. libsndfile is shared, as its license (LGPL) asks: users can put another in its place.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/wheels/debian.sh"
architecture=$1
base=$(realpath -m "$root/build/static")
prefix=$base/$architecture
built=$base/$architecture.build
mkdir -p "$base"
exec 9>"$prefix.lock"
flock 9
mkdir -p "$prefix"/{lib/pkgconfig,include,licenses,made} "$built"

# -ffile-prefix-map: sentences of failed assertions name no folder of this machine. Sections: the linker drops what is
# not called.
flags="-O2 -fPIC -ffunction-sections -fdata-sections -ffile-prefix-map=$base=."
settings=(-G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR="$prefix/lib" -DCMAKE_PREFIX_PATH="$prefix"
  -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags -DNDEBUG" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_FIND_ROOT_PATH="$prefix"
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY
  -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON)
if command -v ccache >/dev/null; then settings+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
compiler=
if [ "$architecture" = aarch64 ]; then
  compiler=aarch64-linux-gnu-
  sysroot=$(debian_python_sysroot)
  settings+=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=${compiler}gcc
    -DCMAKE_CXX_COMPILER=${compiler}g++ "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;$sysroot")
fi
# For sources that are configured without CMake's search: the flags name the folder.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig

# fresh SOURCE WORD...: false where this version is there already, made by this compiler in this way.
fresh() {
  version=$(debian_source "$1") || exit 1
  key=$(echo "$version $flags $("${compiler}gcc" -dumpfullversion) ${*:2}" | sha256sum)
  [ "$(cat "$prefix/made/$1" 2>/dev/null)" = "$key" ] && return 1
  echo "static: $1 $version for $architecture" >&2
}
# made SOURCE: notes that its library is installed.
made() {
  cp "$base/src/$1/debian/copyright" "$prefix/licenses/$1.txt"
  echo "$version" >"$prefix/made/$1.version"
  echo "$key" >"$prefix/made/$1"
  rm -rf "${built:?}/$1"
}
failed() {
  tail -n 30 "$built/$1.log" >&2
  echo "static: $1 does not build for $architecture: $built/$1.log" >&2
  exit 1
}
# library SOURCE SETTING...: fetches, unpacks, compiles and installs one source package that has files of CMake.
library() {
  fresh "$@" || return 0
  mkdir -p "$built/$1"
  # CMake runs inside its folder, because a check of HDF5 writes a file into the current one.
  (cd "$built/$1" && cmake -S "$base/src/$1" -B . "${settings[@]}" -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF "${@:2}") >"$built/$1.log" 2>&1 || failed "$1"
  ninja -C "$built/$1" -j"${NACRE_JOBS:-2}" install >>"$built/$1.log" 2>&1 || failed "$1"
  made "$1"
}
# noted NAME VERSION COPYRIGHT: the same for a package that Debian installed.
noted() {
  cp "$3" "$prefix/licenses/$1.txt"
  echo "$2" >"$prefix/made/$1.version"
}
# module NAME LIBRARIES VERSION: writes the file by which Meson's dependency() finds these libraries. On x86-64 the headers are
# Debian's own, of the same version, so that a compiler's cache serves this build and the others.
module() {
  local headers=-I$prefix/include
  [ "$architecture" != x86_64 ] || headers=$(env -u PKG_CONFIG_LIBDIR pkg-config --cflags "$1")
  printf 'Name: %s\nDescription: static\nVersion: %s\nCflags: %s\nLibs: -L%s/lib %s\n' "$1" "$3" "$headers" "$prefix" "$2" >"$prefix/lib/pkgconfig/$1.pc"
}

# Debian's source of zlib lacks files that its own CMakeLists.txt names.
zlib() {
  fresh zlib || return 0
  mkdir -p "$built/zlib"
  (cd "$built/zlib" && "${compiler}gcc" $flags -D_LARGEFILE64_SOURCE=1 -DHAVE_UNISTD_H -DHAVE_STDARG_H -c "$base"/src/zlib/*.c) 2>"$built/zlib.log" || failed zlib
  ar rcsD "$prefix/lib/libz.a" "$built"/zlib/*.o
  cp "$base"/src/zlib/{zlib,zconf}.h "$prefix/include/"
  made zlib
}
# So do the files of CMake in Opus 1.3.
opus() {
  fresh opus || return 0
  mkdir -p "$built/opus"
  (cd "$built/opus" && "$base/src/opus/configure" --prefix="$prefix" --disable-shared --with-pic --disable-doc --disable-extra-programs CC="${compiler}gcc" \
    CFLAGS="$flags" ${compiler:+--host=aarch64-linux-gnu} && make -s -j"${NACRE_JOBS:-2}" install) >"$built/opus.log" 2>&1 || failed opus
  made opus
}
# The one library of protobuf that parses; the lite one and protoc are not needed.
protobuf() {
  fresh protobuf || return 0
  cmake -S "$base/src/protobuf" -B "$built/protobuf" "${settings[@]}" -DBUILD_SHARED_LIBS=OFF -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_WITH_ZLIB=OFF >"$built/protobuf.log" 2>&1 || failed protobuf
  ninja -C "$built/protobuf" -j"${NACRE_JOBS:-2}" libprotobuf >>"$built/protobuf.log" 2>&1 || failed protobuf
  cp "$built/protobuf/libprotobuf.a" "$prefix/lib/"
  (cd "$base/src/protobuf/src" && find google \( -name '*.h' -o -name '*.inc' \) -print0 | tar --null -T - -cf - | tar -C "$prefix/include" -xf -) || failed protobuf
  made protobuf
}
# Debian generates the tables of Unicode from its package unicode-data, as its debian/rules do.
re2_tables() {
  debian_source re2 >/dev/null
  (cd "$base/src/re2" && [ -f re2/unicode_casefold.cc ] || make -s -C "$base/src/re2" REBUILD_TABLES=1 re2/perl_groups.cc re2/unicode_casefold.cc re2/unicode_groups.cc) \
    >"$built/re2.log" 2>&1 || failed re2
}

zlib
library libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF
library libjpeg-turbo -DENABLE_SHARED=OFF -DWITH_JAVA=OFF -DREQUIRE_SIMD="$([ "$architecture" = aarch64 ] && echo ON || echo OFF)"
library libogg -DINSTALL_DOCS=OFF
library libvorbis
opus
library flac -DBUILD_CXXLIBS=OFF -DBUILD_PROGRAMS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOCS=OFF -DINSTALL_MANPAGES=OFF
library libsndfile -DBUILD_SHARED_LIBS=ON -DBUILD_PROGRAMS=OFF -DBUILD_EXAMPLES=OFF -DENABLE_EXTERNAL_LIBS=ON -DENABLE_MPEG=OFF -DENABLE_CPACK=OFF \
  -DCMAKE_SHARED_LINKER_FLAGS="-Wl,--gc-sections -Wl,--exclude-libs,ALL -s"
library libzip -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DENABLE_ZSTD=OFF \
  -DENABLE_OPENSSL=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF -DENABLE_COMMONCRYPTO=OFF
re2_tables
library re2 -DRE2_BUILD_TESTING=OFF
library fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
library flatbuffers -DFLATBUFFERS_BUILD_TESTS=OFF -DFLATBUFFERS_BUILD_FLATC=OFF -DFLATBUFFERS_BUILD_FLATHASH=OFF
protobuf
library hdf5 -DHDF5_BUILD_HL_LIB=OFF -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF -DHDF5_BUILD_JAVA=OFF -DHDF5_BUILD_TOOLS=OFF \
  -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF -DHDF5_ENABLE_EMBEDDED_LIBINFO=OFF \
  -DHDF5_INSTALL_CMAKE_DIR=lib/cmake/hdf5

# The messages of ONNX: Debian's library holds their description, and protoc makes the sources of it.
onnx=$built/onnx
mkdir -p "$onnx" "$prefix/include/onnx"
cat >"$onnx/describe.cc" <<'SOURCE'
#include <onnx/onnx_pb.h>
#include <google/protobuf/descriptor.pb.h>
#include <iostream>
int main() {
  google::protobuf::FileDescriptorSet set;
  onnx::ModelProto::descriptor()->file()->CopyTo(set.add_file());
  return set.SerializeToOstream(&std::cout) ? 0 : 1;
}
SOURCE
g++ -DONNX_NAMESPACE=onnx -DONNX_ML=1 -o "$onnx/describe" "$onnx/describe.cc" -lonnx_proto -lprotobuf
"$onnx/describe" >"$onnx/description"
protoc --descriptor_set_in="$onnx/description" --cpp_out="$onnx" onnx/onnx-ml.proto
"${compiler}g++" -std=c++17 $flags -DNDEBUG -I"$prefix/include" -I"$onnx" -c -o "$onnx/onnx-ml.o" "$onnx/onnx/onnx-ml.pb.cc"
ar rcsD "$prefix/lib/libonnx_proto.a" "$onnx/onnx-ml.o"
cp "$onnx/onnx/onnx-ml.pb.h" /usr/include/onnx/onnx_pb.h "$prefix/include/onnx/"
noted onnx "$(dpkg-query -W -f '${source:Version}' libonnx-dev)" /usr/share/doc/libonnx-dev/copyright

# SHA-256 alone is called of OpenSSL, so three small objects of libcrypto.a are linked. It is compiled with -fPIC.
openssl=$(debian_openssl "$architecture")
cp -r "$openssl/include/openssl" "$prefix/include/"
cp "$openssl/lib/libcrypto.a" "$prefix/lib/"
noted openssl "$(cat "$openssl/version")" "$openssl/copyright"

# Headers alone, the same for each architecture.
for name in CLI nlohmann; do ln -sfn "/usr/include/$name" "$prefix/include/$name"; done
noted cli11 "$(dpkg-query -W -f '${source:Version}' libcli11-dev)" /usr/share/doc/libcli11-dev/copyright
noted nlohmann-json3 "$(dpkg-query -W -f '${source:Version}' nlohmann-json3-dev)" /usr/share/doc/nlohmann-json3-dev/copyright

rm -f "$prefix"/lib/pkgconfig/*.pc
hdf5=$(basename "$(ls "$prefix"/lib/libhdf5*.a)" .a)
module CLI11 "" 2.1
module nlohmann_json "" 3.11
module fmt -lfmt 9.1
module hdf5-serial "-l${hdf5#lib} -lz -ldl" 1.10
module libzip "-lzip -lz" 1.7
module libpng "-lpng16 -lz" 1.6
module libturbojpeg -lturbojpeg 2.1
module sndfile -lsndfile 1.2
module re2 -lre2 9
module libcrypto -lcrypto 3.0
module zlib -lz 1.2
module protobuf -lprotobuf 3.21
for file in "$prefix"/made/*.version; do printf '%s\t%s\n' "$(basename "$file" .version)" "$(cat "$file")"; done >"$prefix/packages.tsv"
echo "$prefix"
