#!/usr/bin/env bash
# Claim debian_package: of a fresh clone `dpkg-buildpackage -S` makes the source package, and `dpkg-buildpackage -b` makes libnacre-dev
# and nacre of what it holds, without a network. lintian finds no error. From an empty root the command converts and runs,
# and README's program of C links the library.
#
#   tests/claims/debian_package.sh
#
# NACRE_DEBIAN_TIERS: tiers of fast kernels (runnable, which a test build has compiled). NACRE_DEBIAN_FLAGS=debian: with Debian's flags,
# such as -g and those of hardening; else without them, so that a compiler's cache of a test build serves this one.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 40 "$work/said"
  echo "CLAIM debian_package NOT SHOWN: $1"
  exit 1
}
. tools/packages.sh
need_packages build tools debian
export NACRE_X86_TIERS=${NACRE_DEBIAN_TIERS:-runnable} DEB_BUILD_OPTIONS="parallel=${NACRE_JOBS:-2}"
git clone -q "$root" "$work/clone"
cd "$work/clone"
version=$(sed -n "1s/.* version: '\([^']*\)'.*/\1/p" meson.build)
package=$(dpkg-parsechangelog -S Version)
[ "${package%-*}" = "$version" ] || fail "debian/changelog has $package, meson.build has $version"

# The upstream tarball is the tree without debian/.
git archive --format=tar.gz --prefix="nacre-$version/" -o "$work/nacre_$version.orig.tar.gz" HEAD . ':(exclude)debian'
dpkg-buildpackage -us -uc -S -d >"$work/said" 2>&1 || fail "dpkg-buildpackage -S"
[ -z "$(git status --porcelain)" ] || fail "dpkg-buildpackage -S leaves files in the tree"
mkdir "$work/build"
cd "$work/build"
dpkg-source --no-check -x "../nacre_$package.dsc" >"$work/said" 2>&1 || fail "dpkg-source -x"
cd "nacre-$version"
if [ "${NACRE_DEBIAN_FLAGS-}" != debian ]; then
  # -Wformat and -Werror=format-security are Debian's too.
  export DEB_CPPFLAGS_STRIP="-Wdate-time -D_FORTIFY_SOURCE=2" NACRE_SETUP=-Dwerror=true
  export DEB_CXXFLAGS_STRIP="-g -fstack-protector-strong -Wformat -Werror=format-security -ffile-prefix-map=$PWD=."
  export DEB_CFLAGS_STRIP=$DEB_CXXFLAGS_STRIP
fi
if command -v ccache >/dev/null; then
  # debhelper gives the build another home, and a locale that would make each object another one for the cache.
  CCACHE_DIR=$(ccache -k cache_dir)
  export CCACHE_DIR CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  export CC="env -u LC_ALL ccache cc" CXX="env -u LC_ALL ccache c++"
fi
alone=(unshare -n)  # nothing is fetched
[ "$(id -u)" = 0 ] || alone=(unshare -rn)
begun=$SECONDS
"${alone[@]}" dpkg-buildpackage -us -uc -b >"$work/said" 2>&1 || fail "dpkg-buildpackage -b"
took=$((SECONDS - begun))
cd "$work"
lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs build/nacre_*.changes nacre_*_source.changes >"$work/lintian" 2>"$work/said" ||
  { cat "$work/lintian"; fail "lintian finds an error"; }
warnings=$(grep -c '^W:' "$work/lintian" || true)
[ ! -s "$work/lintian" ] || cat "$work/lintian"
bytes=
for deb in build/*.deb; do
  case $deb in
    *-dbgsym_*) continue ;;
  esac
  dpkg-deb -x "$deb" "$work/installed"
  bytes+="$(basename "$deb") $(stat -c %s "$deb") bytes, "
  [ -f "$work/installed/usr/share/doc/$(dpkg-deb -f "$deb" Package)/copyright" ] || fail "$deb has no copyright"
done
for file in bin/nacre share/man/man1/nacre-convert.1.gz share/bash-completion/completions/nacre include/nacre/nacre_c.h; do
  [ -f "$work/installed/usr/$file" ] || fail "the packages lack usr/$file"
done
apt-get -s -o Dir::State::status=/var/lib/dpkg/status install ./build/nacre_*.deb ./build/libnacre-dev_*.deb >"$work/said" 2>&1 || fail "apt-get would not install the packages"

mkdir "$work/files"
cd "$work/files"
nacre=$work/installed/usr/bin/nacre
"$nacre" convert "$root/tools/samples/digits.onnx" -o plain.nacre >"$work/said" 2>&1 || fail "the command does not convert"
python3 -c '
import struct, sys
data = open(sys.argv[1] + "/tools/samples/digits_images.npy", "rb").read()
first = 10 + int.from_bytes(data[8:10], "little")  # skips the header
sys.stdout.buffer.write(struct.pack("<64f", *data[first:first + 64]))' "$root" >image.bin
{ awk '$0 == "```c" {on = 1; next} $0 == "```" {on = 0} on' "$root/README.md"; cat "$root/tests/claims/readme_classify.c"; } >bind.c
PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name nacre.pc)")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR=$work/installed
cc -o bind bind.c $(pkg-config --cflags --libs nacre-x86 nacre-threads) 2>"$work/said" || fail "README's program of C does not link the package"
[ "$(./bind | wc -l)" -eq 10 ] || fail "README's program of C prints other than ten scores"
echo "CLAIM debian_package shown: nacre $package of $version.orig.tar.gz in $took s without a network (tiers $NACRE_X86_TIERS, ${NACRE_DEBIAN_FLAGS:-no} flags of Debian): ${bytes}lintian: 0 errors," \
  "$warnings warnings; the command converts, README's program of C links the library and runs"
