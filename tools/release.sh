#!/usr/bin/env bash
# Makes a release of the commit that is checked out: everything that users download, and the tag.
#
#   tools/release.sh [--dry-run] [--output FOLDER] [ARCHITECTURE...]
#
# --dry-run     makes everything but the tag; CHANGELOG.md may then say that the version is not yet released
# --output      where the release goes: build/release-VERSION, which must not be there
# ARCHITECTURE  x86_64, aarch64; both where none is named
#
# FOLDER gets, with LICENSE and NOTICE in each package:
#   nacre-VERSION-source.tar.gz          the tree of the commit
#   nacre-VERSION.tar.gz                 the source distribution of Python
#   nacre-VERSION-*.whl                  the wheels (tools/wheels.sh)
#   nacre-VERSION-linux-ARCH.tar.gz      C, C++ and the command, installed: unpack it at /
#   nacre-VERSION-libsndfile-source.tar  the source of the one library that is linked shared, as its license asks
#   nacre-VERSION.spdx.json              the bill of materials, SPDX 2.3, checked by spdx-tools
#   RELEASE_NOTES.md, SHA256SUMS
# The folder appears when all of it is there. Equal commits, compilers and sources of Debian give equal bytes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
dry= output= architectures=()
refuse() { echo "release: $1" >&2; exit 1; }
while (($#)); do
  case $1 in
    --dry-run) dry=1; shift ;;
    --output)
      [ $# -ge 2 ] || { echo "release: --output lacks its folder: give one that is not there yet" >&2; exit 2; }
      output=$2; shift 2 ;;
    x86_64 | aarch64) architectures+=("$1"); shift ;;
    *) echo "release: $1: expected --dry-run, --output FOLDER, x86_64 or aarch64" >&2; exit 2 ;;
  esac
done
((${#architectures[@]})) || architectures=(x86_64 aarch64)

version=$(sed -n "1s/.* version: '\([^']*\)'.*/\1/p" meson.build)
heading=$(grep -m 1 '^## ' CHANGELOG.md)
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes that are not committed: git status lists them"
case $heading in
  "## $version, not yet released") [ -n "$dry" ] || refuse "CHANGELOG.md calls $version not yet released: write the day there, \"## $version, $(date +%F)\"" ;;
  "## $version, "20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;;
  *) refuse "meson.build has version $version, CHANGELOG.md begins with \"$heading\": make them agree" ;;
esac
if [ -z "$dry" ] && git rev-parse -q --verify "refs/tags/v$version" >/dev/null; then refuse "the tag v$version is there already: raise the version"; fi
output=${output:-build/release-$version}
[ ! -e "$output" ] || refuse "$output is there already: remove it, or give another --output"
mkdir -p build "$(dirname "$output")"
output=$(realpath -m "$output")
work=$(mktemp -d "$(dirname "$output")/.release.XXXXXX")
trap 'rm -rf "$work"' EXIT
made=$work/made
mkdir -p "$made"
commit=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
umask 022

# packed FOLDER FILE WORD...: packs what the words name in FOLDER, in one order, with one date and no owner.
packed() {
  tar --directory "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu --mode=go=rX,u+rw -cf - "${@:3}" >"$2"
}
zipped() { gzip -n -9 <"$1" >"$2" && rm "$1"; }

echo "release: $version of commit ${commit:0:12}" >&2
tools/wheels.sh --output "$made" --tree "$work/tree" "${architectures[@]}" >&2
for architecture in "${architectures[@]}"; do
  packed "$work/tree/$architecture" "$work/tree.tar" usr
  zipped "$work/tree.tar" "$made/nacre-$version-linux-$architecture.tar.gz"
done

git archive --format=tar --prefix="nacre-$version/" HEAD >"$work/source.tar"
zipped "$work/source.tar" "$made/nacre-$version-source.tar.gz"

python=$(tools/peers.sh tools/wheels/requirements.txt wheels)
PATH=$(dirname "$python"):$PATH PYTHONPATH=python "$python" -c 'import sys, build_backend; build_backend.build_sdist(sys.argv[1])' "$work/sdist" >"$work/said" 2>&1 ||
  { tail -n 20 "$work/said" >&2; refuse "the source distribution was not made"; }
mkdir "$work/unpacked"
tar --directory "$work/unpacked" -xzf "$work/sdist/nacre-$version.tar.gz"
packed "$work/unpacked" "$work/sdist.tar" "nacre-$version"
zipped "$work/sdist.tar" "$made/nacre-$version.tar.gz"

(cd build/static/sources && ls libsndfile_*) >"$work/sndfile"
packed build/static/sources "$made/nacre-$version-libsndfile-source.tar" $(cat "$work/sndfile")

"$python" tools/wheels/bill_of_materials.py "$version" "$commit" build/static "$made"/* >"$work/bill"
mv "$work/bill" "$made/nacre-$version.spdx.json"
"$(dirname "$python")/pyspdxtools" --infile "$made/nacre-$version.spdx.json" >"$work/said" 2>&1 ||
  { tail -n 20 "$work/said" >&2; refuse "spdx-tools finds the bill of materials at fault"; }

# The section of this version: from its heading to the next.
awk '/^## /{if (found) exit; found = 1} found' CHANGELOG.md >"$made/RELEASE_NOTES.md"
for file in "$made"/*.tar.gz "$made"/*.whl; do
  case $file in
    *.whl) "$python" -m zipfile -l "$file" ;;
    *) tar -tzf "$file" ;;
  esac >"$work/said"
  for name in LICENSE NOTICE; do grep -q "/$name\b" "$work/said" || refuse "$(basename "$file") has no $name"; done
done
(cd "$made" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
mv "$made" "$output"
if [ -n "$dry" ]; then
  echo "release: dry run: no tag" >&2
else
  git tag -a "v$version" -m "Nacre $version"
  echo "release: tagged v$version; push it with: git push origin v$version" >&2
fi
ls -l "$output"
