#!/usr/bin/env bash
# Claim guides_run: the commands and programs of a page (docs/start, docs/guides and five more) run as they stand in an
# empty folder, and print what the page says, times aside (tests/guides_run.py). The commit's hash picks one page.
#
#   tests/claims/guides_run.sh [PAGE...]      NACRE_LONG=1 without names: all pages
#
# Needs build/test or NACRE_TOOL, and the package nacre in build/python-venv, which python_parity installs. Other
# packages of Python are in build/guides-venv (tools/peers.sh makes it); blocks whose needs are missing are counted. Keras
# is there, so the examples of nacre.keras run too.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "CLAIM guides_run NOT SHOWN: $*"; exit 1; }
all=(docs/start/*.md docs/guides/*.md docs/concepts/policies.md docs/concepts/architecture.md docs/reference/policy_language.md docs/limits.md docs/trouble.md)
pages=("$@")
if [ $# -eq 0 ]; then
  pages=("${all[@]}")
  [ "${NACRE_LONG:-0}" = 1 ] || pages=("${all[$((16#$(git rev-parse HEAD | cut -c 9-15) % ${#all[@]}))]}")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
guides=$(bash tools/peers.sh tests/peers/guides_requirements.txt guides)
# Blocks that need both Keras and nacre find nacre behind the packages of build/guides-venv.
packages='import site; print(site.getsitepackages()[0])'
keras="no package nacre: docstrings of nacre.keras do not run"
if package=$(build/python-venv/bin/python -c "$packages" 2>/dev/null); then
  echo "$package" >"$("$guides" -c "$packages")/nacre.pth"
  KERAS_BACKEND=jax "$guides" tests/python/docstrings.py keras >"$work/keras" 2>&1 || { cat "$work/keras"; fail "a docstring of nacre.keras"; }
  keras="the docstrings of nacre.keras are whole and their examples run"
fi
export NACRE_GUIDES_PYTHON=$guides:$PWD/build/python-venv/bin/python
status=0
python3 tests/guides_run.py "${pages[@]}" >"$work/said" 2>&1 || status=$?
grep -v '^guides_run: .* commands, ' "$work/said" || true
counts=$(sed -n 's/^guides_run: docs\/\(.*\): \([0-9]* commands\), 0 differ\(.*\)/\1 \2\3/p' "$work/said")
[ "$status" -eq 0 ] && [ "$(wc -l <<<"$counts")" -eq "${#pages[@]}" ] ||
  fail "$(sed -n 's/^guides_run: \(docs\/.* commands, [1-9][0-9]* differ\).*/\1/p' "$work/said" | paste -sd ';')"
# A page whose output is another is found out.
page=$work/page.md
printf '```console\n$ nacre --version\nnacre 0.0\n```\n' >"$page"
! python3 tests/guides_run.py "$page" >"$work/wrong" 2>&1 || fail "an output that differs is not found out"
grep -q '1 commands, 1 differ' "$work/wrong" || fail "an output that differs is counted as something else"
echo "CLAIM guides_run shown: ${#pages[@]} of ${#all[@]} pages: $(paste -sd ';' <<<"$counts" | sed 's/;/; /g'); $keras"
