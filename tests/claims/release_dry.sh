#!/usr/bin/env bash
# Claim release_dry: in a fresh clone `tools/release.sh --dry-run` makes a whole release. The archive of the installed tree is
# unpacked into an empty root: its command converts, runs, reads sounds and pictures there, and a C program compiles against it.
# The wheel and the source archive are what they say; a dirty tree and versions that disagree are refused.
#
#   tests/claims/release_dry.sh
#
# The clone's build folder is beside this checkout's, so that a compiler's cache serves it. NACRE_RELEASE_ARCHITECTURES: x86_64 aarch64.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 40 "$work/said"
  echo "CLAIM release_dry NOT SHOWN: $1"
  exit 1
}
read -ra architectures <<<"${NACRE_RELEASE_ARCHITECTURES:-x86_64 aarch64}"
clone=$work/clone
git clone -q --no-tags "$root" "$clone" 2>"$work/said" || fail "no clone"
export CCACHE_BASEDIR=$clone CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
cd "$clone"

# refused WORD COMMAND...: the command fails and names this.
refused() {
  ! "${@:2}" >"$work/said" 2>&1 || fail "not refused: $1"
  grep -q "$1" "$work/said" || fail "refused with other words than: $1"
}
echo >>README.md
refused "not committed" tools/release.sh --dry-run
git checkout -q README.md
if grep -q '^## .*not yet released' CHANGELOG.md; then refused "not yet released" tools/release.sh; fi
git -c user.name=test -c user.email=test@invalid commit -q --allow-empty -m empty
sed -i "1s/version: '[^']*'/version: '99.0.0'/" meson.build
git -c user.name=test -c user.email=test@invalid commit -q -am "another version"
refused "make them agree" tools/release.sh --dry-run
git reset -q --hard "$(git -C "$root" rev-parse HEAD)"

# The sources of Debian, the libraries made of them and the environments of Python are taken from this checkout where they are.
mkdir -p build
for name in static wheels-venv; do [ ! -d "$root/build/$name" ] || ln -s "$root/build/$name" "build/$name"; done
begun=$SECONDS
tools/release.sh --dry-run --output "$work/release" "${architectures[@]}" >"$work/said" 2>&1 || fail "tools/release.sh --dry-run fails"
took=$((SECONDS - begun))
[ -z "$(git tag)" ] || fail "a dry run made a tag"
cd "$work/release"
sha256sum --quiet -c SHA256SUMS >"$work/said" 2>&1 || fail "SHA256SUMS do not hold"
grep -q '^## ' RELEASE_NOTES.md || fail "no notes"
version=$(sed -n "1s/.* version: '\([^']*\)'.*/\1/p" "$clone/meson.build")

# The tree of the source archive is the commit's.
tar -xzf "nacre-$version-source.tar.gz" -C "$work"
diff -r --exclude .git --exclude build --exclude __pycache__ "$clone" "$work/nacre-$version" >"$work/said" 2>&1 || fail "the source archive is not the commit's tree"

# An empty root: the C library and the loader alone are lent to it.
empty=$work/root
mkdir "$empty"
tar -xzf "nacre-$version-linux-x86_64.tar.gz" -C "$empty"
for library in $(ldd "$empty/usr/local/bin/nacre" | grep -oE '/[^ ]+' | grep -v "$empty"); do
  case $(basename "$library") in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux-x86-64.so.2) install -D "$library" "$empty$library" ;;
    *) fail "the command asks for $library" ;;
  esac
done
mkdir -p "$empty/files" "$empty/tmp" "$empty/proc"
cp "$root"/tools/samples/digits.onnx "$root"/tools/samples/digits_images.npy "$root"/tests/fuzz/corpus/keras/dense.h5 "$empty/files/"
enter() { if [ "$(id -u)" = 0 ]; then chroot "$empty" "$@"; else unshare -r chroot "$empty" "$@"; fi; }
inside() { enter /usr/local/bin/nacre "$@"; }
{
  inside --version
  inside convert /files/digits.onnx -o /files/digits.nacre
  inside run /files/digits.nacre --input /files/digits_images.npy --cast-inputs --output /files/out
  inside convert /files/dense.h5 -o /files/dense.nacre
} >"$work/said" 2>&1 || fail "the command does not work in an empty root"
[ -s "$empty/files/digits.nacre" ] && [ -s "$empty/files/dense.nacre" ] || fail "the command made no models"

cat >"$work/user.c" <<'C'
#include <stdio.h>
#include <nacre/nacre_c.h>
int main(void) { return puts(nacre_version()) < 0; }
C
pc=$(dirname "$(find "$empty" -name nacre.pc)")
flags=$(PKG_CONFIG_PATH=$pc PKG_CONFIG_SYSROOT_DIR=$empty pkg-config --cflags --libs nacre)
cc -o "$empty/files/user" "$work/user.c" $flags 2>"$work/said" || fail "a C program does not compile against the archive"
[ "$(enter /files/user)" = "$version" ] || fail "the archive's library has another version"

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$work/release"/nacre-*_x86_64.whl >"$work/said" 2>&1 || fail "the wheel does not install"
(cd "$work" && venv/bin/python "$root/tests/wheels/first_model.py" "$root") >"$work/said" 2>&1 || fail "the wheel does not work"
packages=$("$work/venv/bin/python" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["packages"]))' "nacre-$version.spdx.json")
echo "CLAIM release_dry shown: $(ls | wc -l) files for ${architectures[*]} in $took s, checksums hold, $packages packages in a valid SPDX 2.3; in an empty root the" \
  "command converts ONNX and HDF5 and runs, a C program compiles and runs; the wheel installs and works; dirty trees and other versions are refused"
