#!/usr/bin/env bash
# Makes the site of the documentation, which needs no network to be read: build/site/index.html. Only its search needs
# a web server:
# python3 -m http.server -d build/site
#
#   docs/build.sh [FOLDER]      FOLDER: in place of build/site; it is replaced
#
# The pages are README, docs/, FORMAT.md, NUMERICS.md, the notebooks, the Python package's docstrings, a reference of the
# public headers, which Doxygen reads, and the tool's manual pages (docs/site/mkdocs.yml lists them). A link that leads
# nowhere fails the build, and so does a header of include/nacre without a page. The script needs a built tool,
# build/test/tools/nacre or NACRE_TOOL, the package group docs, and docs/site/requirements.txt (tools/peers.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
site=${1-build/site}
fail() { echo "docs: $1" >&2; exit 1; }
export NACRE_TOOL=$(realpath -m "${NACRE_TOOL:-build/test/tools/nacre}")
[ -x "$NACRE_TOOL" ] || fail "$NACRE_TOOL is not there: build it (CONTRIBUTING.md says how), or NACRE_TOOL names a built one"
[ ! -e "$site" ] || [ -f "$site/.nacre_site" ] || fail "$site is there and is no site that this made: name another folder"
need_packages docs
python=$(bash tools/peers.sh docs/site/requirements.txt docs)
mkdir -p "$(dirname "$site")"
made=$(mktemp -d "$(dirname "$site")/.site.XXXXXX")
trap 'rm -rf "$made" "$made.log"' EXIT
# Its bytes follow from the checkout: the date of its pages is that of no clock. Not --quiet, with which warnings do not count.
export SOURCE_DATE_EPOCH=0 NO_MKDOCS_2_WARNING=1
"$python" -m mkdocs build --strict --config-file docs/site/mkdocs.yml --site-dir "$(realpath "$made")" >"$made.log" 2>&1 ||
  { grep -v '^INFO' "$made.log" >&2; fail "the site is not made; see above"; }
touch "$made/.nacre_site"
chmod 755 "$made"
rm -rf "$site"
mv "$made" "$site"
echo "docs: $site/index.html, $(find "$site" -name '*.html' | wc -l) pages"
