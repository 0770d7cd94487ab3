#!/usr/bin/env bash
# Claim docs_site: docs/build.sh makes the site of the documentation in strict mode. Every link leads somewhere, every
# comment of a public header and docstring of the package is on the site, and nothing is requested from another host
# (docs_site.py says what is checked). Copies of the site that are broken on purpose, one in each way, must be found
# wrong. If Chromium is installed, it opens every page and searches for names of C, C++ and Python.
#
#   tests/claims/docs_site.sh
#
# Needs build/test (tools/test.sh) or NACRE_TOOL. NACRE_BROWSER names another Chromium than the system's.
# NACRE_PEERS_PYTHON names the Python that drives the browser; without it tools/peers.sh makes one.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "CLAIM docs_site NOT SHOWN: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
began=$SECONDS
site=$work/site
docs/build.sh "$site" >"$work/said" 2>&1 || { cat "$work/said"; fail "the site is not made"; }
python=$(bash tools/peers.sh docs/site/requirements.txt docs)
"$python" tests/claims/docs_site.py "$site" >"$work/counts" || { cat "$work/counts"; fail "see above"; }

# broken PAGE EXPRESSION WANTED: runs a sed expression on a copy of the page. The check must then print WANTED.
found=0
broken() {
  cp "$site/$1" "$work/kept"
  sed -i "$2" "$site/$1"
  ! cmp -s "$work/kept" "$site/$1" || fail "$2 changes nothing in $1"
  ! "$python" tests/claims/docs_site.py "$site" >"$work/faults" || fail "$2 in $1 is not noticed"
  grep -qF "$3" "$work/faults" || { cat "$work/faults"; fail "$2 in $1 is told as something else"; }
  cp "$work/kept" "$site/$1"
  found=$((found + 1))
}
broken docs/python.html 's/href="many_machines.html"/href="no_such.html"/' "leads nowhere"
broken index.html 's/href="#run-a-network"/href="#no-such"/' "has no such anchor"
broken index.html 's/<\/head>/<script src="https:\/\/example.org\/a.js"><\/script>&/' "asks another host"
broken index.html 's/<h2 id="train-it"/<h4 id="train-it"/' "h2"
broken engine/nacre_c.h.html 's/id="nacre-model-open"/id="nacre-model-opened"/' "no anchor nacre-model-open"
broken engine/nacre_c.h.html 's/Reads every weight//' "not on its page"
broken engine/base/status.h.html 's/a weight is NaN//' "not on its page"
broken python_reference.html 's/id="nacre.Trainer"/id="nacre.trainer"/' "nacre.Trainer: the page has no such anchor"
broken python_reference.html 's/A step commits as a whole or not at all//' "nacre.Trainer: not on the page"

# In this checkout a Markdown file has a link that leads nowhere, and then a public header has no page. docs/build.sh
# must refuse both.
mkdir "$work/tree"
for entry in *; do [ "$entry" = docs ] || ln -s "$PWD/$entry" "$work/tree/$entry"; done
cp -r docs "$work/tree/docs"
sed -i 's/(many_machines.md)/(no_such.md)/' "$work/tree/docs/python.md"
tool=$(realpath "${NACRE_TOOL:-build/test/tools/nacre}")
! NACRE_TOOL=$tool "$work/tree/docs/build.sh" "$work/never" >"$work/faults" 2>&1 || fail "a site is made of a link that leads nowhere"
grep -qF no_such.md "$work/faults" && [ ! -e "$work/never" ] || { cat "$work/faults"; fail "a link that leads nowhere"; }
sed -i '/ports\/threads\/threads\.h$/d' "$work/tree/docs/site/mkdocs.yml"
! NACRE_TOOL=$tool "$work/tree/docs/build.sh" "$work/never" >"$work/faults" 2>&1 || fail "a site is made without a public header"
grep -qF "no page for ports/threads/threads.h" "$work/faults" && [ ! -e "$work/never" ] || { cat "$work/faults"; fail "a header without a page"; }

browser=${NACRE_BROWSER:-$(command -v chromium || command -v chromium-browser || true)}
opened="not opened in a browser: no Chromium"
if [ -n "$browser" ]; then
  "${NACRE_PEERS_PYTHON:-$(bash tools/peers.sh)}" tests/claims/docs_site_in_browser.py "$browser" "$site" >"$work/opened" || { cat "$work/opened"; fail "in Chromium"; }
  opened=$(tail -n 1 "$work/opened")
fi
echo "CLAIM docs_site shown: $(tail -n 1 "$work/counts"); $found copies broken on purpose are found out, a link that leads nowhere and a public header without a page end the build; $opened; $((SECONDS - began)) s"
