#!/usr/bin/env bash
# Claim python_parity: the wheel that meson-python builds installs into a clean environment. Its package makes the
# command's results to the byte: model files, outputs, sizes, policies, checkpoints, tuned models. Its types pass mypy
# --strict, its docstrings are whole and their examples run, its notebooks run, and no main function leaks over 10,000
# calls.
#
#   tests/claims/python_parity.sh BUILD        BUILD: of Meson, with tools and tests; the extension is built in it, over its libraries
#
# Python's part comes from tests/python/requirements.txt (tools/peers.sh). NACRE_SHARED adds trained networks.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
. tools/packages.sh
# Debian has Python's headers in a package of their own; other Pythons bring their headers.
python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || need_packages python
need_packages mpi  # mpi4py needs it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 40 "$work/said"
  echo "CLAIM python_parity NOT SHOWN: $1"
  exit 1
}
# number NAME FILE: prints this number of the file's one JSON object.
number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$2" | tail -n 1; }

python=$(tools/peers.sh tests/python/requirements.txt python)
began=$SECONDS
# Uses the options of the existing build, so that nothing of it is compiled again. In an existing build Meson takes no
# other Python from meson-python.
option() {
  meson introspect "$build" --buildoptions |
    "$python" -c 'import json, sys; v = next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]); print(v if isinstance(v, str) else ",".join(v))' "$1"
}
"$python" -m pip wheel . --quiet --no-build-isolation --no-deps --wheel-dir "$work/wheel" -Cbuild-dir="$build" -Csetup-args=-Dtests=true \
  -Csetup-args=-Dx86_tiers="$(option x86_tiers)" -Csetup-args=-Dmpi="$(option mpi)" \
  -Csetup-args=-Dpython_interpreter="$python" >"$work/said" 2>&1 || fail "the wheel was not built"
built=$((SECONDS - began))

python3 -m venv "$work/clean"
clean=$work/clean/bin/python
"$clean" -m pip install --quiet --disable-pip-version-check --only-binary :all: --constraint tests/python/requirements.txt "$work"/wheel/nacre-*.whl \
  >"$work/said" 2>&1 || fail "the wheel does not install into a clean environment"
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$work"/wheel/nacre-*.whl >"$work/said" 2>&1 || fail "the wheel does not install"

# Keeps the files of the 10,000 calls in memory if there is room, because otherwise each is synced to the disk.
shm=$work
[ ! -w /dev/shm ] || shm=/dev/shm
(cd "$work" && TMPDIR=$shm "$clean" "$OLDPWD/tests/python/leaks.py" 10000) >"$work/leaks" 2>"$work/leaks.said" &
leaks=$!

(cd "$work" && "$clean" "$OLDPWD/tests/python/parity.py" "$build/tools/nacre") >"$work/parity" 2>"$work/said" || fail "$(tail -n 1 "$work/said")"
"$python" -m pytest -q -p no:cacheprovider tests/python >"$work/said" 2>&1 || fail "a test of tests/python fails"
tests=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' "$work/said")

sources=$("$clean" -c 'import nacre, os; print(os.path.dirname(nacre.__file__))')
mypy() { (cd "$work" && "$python" -m mypy --strict --python-executable "$clean" "$@"); }
mypy "$PWD/tests/python/typed_use.py" >"$work/said" 2>&1 || fail "mypy --strict refuses the use of the interface"
mypy --ignore-missing-imports "$sources" >"$work/said" 2>&1 || fail "mypy --strict refuses the package"
wanted=$(grep -c '# wrong$' tests/python/wrong_use.py)
mypy "$PWD/tests/python/wrong_use.py" >"$work/said" 2>&1 && fail "mypy accepts wrong use"
refused=$(grep ' error: ' "$work/said" | cut -d: -f2 | sort -u | while read -r line; do sed -n "${line}p" tests/python/wrong_use.py; done | grep -c '# wrong$')
[ "$refused" -eq "$wanted" ] || fail "mypy refuses $refused of $wanted wrong lines"

"$python" tests/python/docstrings.py >"$work/docstrings" 2>"$work/said" || { cat "$work/docstrings" >>"$work/said"; fail "a docstring is not as it must be"; }
"$python" tests/python/notebooks.py >"$work/notebooks" 2>"$work/said" || fail "a notebook does not run"
wait "$leaks" || { cp "$work/leaks" "$work/said"; cat "$work/leaks.said" >>"$work/said"; fail "a function leaks"; }
if grep -q leaked "$work/leaks.said"; then cp "$work/leaks.said" "$work/said"; fail "nanobind tells of instances that were leaked"; fi
functions=$(grep -o "\"[A-Za-z_., ()]*\": [0-9-]\+" "$work/leaks" | grep -vc "\"calls\"")

counts=
for what in "model files" outputs "kernel choices" sizes policies facts checkpoints "training states" "tuned models"; do counts+="$(number "$what" "$work/parity") $what, "; done
echo "CLAIM python_parity shown: equal to the tool's to the byte: ${counts%, }; wheel built in $built s over $(basename "$build"), installed into a clean" \
  "environment; $tests tests passed; mypy --strict: the package and the sample of its interface pass, $refused of $wanted wrong lines refused;" \
  "$(number names "$work/docstrings") public names have docstrings, with $(number options "$work/docstrings") options of the tool;" \
  "$(number examples "$work/docstrings") lines of their examples run;" \
  "$(number notebooks "$work/notebooks") notebooks of $(number cells "$work/notebooks") cells run; $functions functions called $(number calls "$work/leaks") times each, 0 leak"
