#!/usr/bin/env bash
# Claim docs_answer: a question that users of other systems ask in public, typed into the search of the documentation's site, finds the page that
# answers it among the first three. tests/docs/questions.txt has the questions, each with its page; docs_answer.py types them in Chromium.
#
#   tests/claims/docs_answer.sh
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the package group browser. NACRE_BROWSER names another Chromium than the system's.
# NACRE_PEERS_PYTHON names the Python that drives the browser; without it tools/peers.sh makes one.
set -euo pipefail
cd "$(dirname "$0")/../.."
questions=tests/docs/questions.txt
fail() { echo "CLAIM docs_answer NOT SHOWN: $*"; exit 1; }
browser=${NACRE_BROWSER:-$(command -v chromium || command -v chromium-browser || true)}
[ -n "$browser" ] || { echo "no Chromium (bash tools/packages.sh browser, or NACRE_BROWSER): docs_answer is left out"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
docs/build.sh "$work/site" >"$work/said" 2>&1 || { cat "$work/said"; fail "the site is not made"; }
python=${NACRE_PEERS_PYTHON:-$(bash tools/peers.sh)}
"$python" tests/claims/docs_answer.py "$browser" "$work/site" "$questions" >"$work/counts" || { cat "$work/counts"; fail "see above"; }

# A page that is not there, and an anchor that is not, are found out before any question is typed.
for wrong in docs/no_such.md docs/limits.md#no-such; do
  { cat "$questions"; echo "a question that leads nowhere | $wrong"; } >"$work/wrong.txt"
  ! "$python" tests/claims/docs_answer.py "$browser" "$work/site" "$work/wrong.txt" >"$work/faults" || fail "$wrong is not found out"
  grep -qF "$wrong: the" "$work/faults" || { cat "$work/faults"; fail "$wrong is told as something else"; }
done
grep -F " | found: " "$work/counts" | sed 's/^/miss: /' || true
echo "CLAIM docs_answer shown: $(tail -n 1 "$work/counts") of $questions find their page among the first three of the site's search"
