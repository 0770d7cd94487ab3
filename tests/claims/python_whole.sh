#!/usr/bin/env bash
# Claim python_whole: the package reaches every command and every option of the tool, by keywords that its types have.
# Each command gives from Python the JSON and the files that the tool gives, but for times. Options left to the command
# line are listed with a reason, and seeded gaps are found. The types pass mypy --strict, and the docstrings' examples run.
#
#   tests/claims/python_whole.sh BUILD      behind tests/claims/python_parity.sh BUILD, which installs the package that is tried
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 20 "$work/said"
  echo "CLAIM python_whole NOT SHOWN: $1"
  exit 1
}
python=$(tools/peers.sh tests/python/requirements.txt python)
"$python" -c 'import nacre; nacre.Result' 2>"$work/said" || fail "the package is not installed: run tests/claims/python_parity.sh $1"

"$python" tests/python/whole.py "$build/tools/nacre" >"$work/whole" 2>"$work/said" || { cat "$work/whole" >>"$work/said"; fail "an option or a result is not as it must be"; }

# Checks a copy: mypy refuses to check files of the environment that it reads packages from.
mkdir "$work/copy" "$work/use"
cp -r "$("$python" -c 'import nacre, os; print(os.path.dirname(nacre.__file__))')" "$work/copy/nacre"
mypy() { (cd "$work/$1" && "$python" -m mypy --strict "${@:2}") >"$work/said" 2>&1; }
mypy copy --ignore-missing-imports -p nacre || fail "mypy --strict refuses the package"
mypy use "$PWD/tests/python/typed_use.py" || fail "mypy --strict refuses the use of the interface"
"$python" tests/python/docstrings.py >"$work/docstrings" 2>"$work/said" || { cat "$work/docstrings" >>"$work/said"; fail "a docstring is not as it must be"; }

"$python" - "$work/whole" "$work/docstrings" <<'END'
import json, sys
whole, docstrings = (json.load(open(path)) for path in sys.argv[1:])
print(f"CLAIM python_whole shown: {whole['commands']} commands with {whole['options']} options are reached from Python, {whole['by keyword']} options by a keyword whose value the "
      f"tool's parser takes; left to the command line with a reason: {', '.join(whole['left out'])}; {whole['equal results']} results equal the tool's but for times; {whole['seeded gaps']} "
      f"seeded gaps found; mypy --strict passes; {docstrings['examples']} lines of examples of {docstrings['names']} docstrings run")
END
