#!/usr/bin/env bash
# Claim pages_fit: no page of the documentation's site is wider than its window, at 1300 and at 400 pixels, and no block of code, table or text is
# cut off or wider than its column (pages_fit.py says what is looked at).
#
#   tests/claims/pages_fit.sh
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the package group browser. NACRE_BROWSER names another Chromium than the system's.
# NACRE_PEERS_PYTHON names the Python that drives the browser; without it tools/peers.sh makes one.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "CLAIM pages_fit NOT SHOWN: $*"; exit 1; }
browser=${NACRE_BROWSER:-$(command -v chromium || command -v chromium-browser || true)}
[ -n "$browser" ] || { echo "no Chromium (bash tools/packages.sh browser, or NACRE_BROWSER): pages_fit is left out"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
docs/build.sh "$work/site" >"$work/said" 2>&1 || { cat "$work/said"; fail "the site is not made"; }
python=${NACRE_PEERS_PYTHON:-$(bash tools/peers.sh)}
"$python" tests/claims/pages_fit.py "$browser" "$work/site" >"$work/counts" || { cat "$work/counts"; fail "see above"; }
echo "CLAIM pages_fit shown: $(tail -n 1 "$work/counts")"
