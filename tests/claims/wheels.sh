#!/usr/bin/env bash
# Claim wheels: tools/wheels.sh makes wheels for x86-64 and aarch64 of at most 12 MB, with one library besides the extension.
# In a fresh environment `pip install` takes less than 20 s beside the network, the first model less than 5 s, for each Python that is here. The
# wheel for aarch64 does the same under QEMU, without the bounds, and computes the same integers.
#
#   tests/claims/wheels.sh [FOLDER]        FOLDER: wheels that are made already
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 40 "$work/said"
  echo "CLAIM wheels NOT SHOWN: $1"
  exit 1
}

wheels=${1-}
if [ -z "$wheels" ]; then
  wheels=$work/wheels
  tools/wheels.sh --output "$wheels" >"$work/said" 2>&1 || fail "tools/wheels.sh makes none"
fi
wheels=$(realpath "$wheels")
python=$(tools/peers.sh tools/wheels/requirements.txt wheels)
"$python" tests/wheels/progress.py "$root" >"$work/said" 2>&1 || fail "a build tells a terminal nothing"

while IFS=$'\t' read -r name _; do grep -q "^  $name " NOTICE || fail "NOTICE does not name $name"; done <tools/wheels/libraries.tsv

facts=
for architecture in x86_64 aarch64; do
  wheel=$(echo "$wheels"/nacre-*-abi3-manylinux*_"$architecture".whl)
  [ -f "$wheel" ] || fail "no wheel of manylinux for $architecture"
  bytes=$(stat -c %s "$wheel")
  ((bytes <= 12000000)) || fail "$(basename "$wheel") has $bytes bytes"
  libraries=$("$python" tests/wheels/libraries.py "$wheel" 2>"$work/said") || fail "$(basename "$wheel") has other libraries, or no licenses"
  "$python" -m abi3audit --strict "$wheel" >"$work/said" 2>&1 || fail "abi3audit finds $(basename "$wheel") at fault"
  facts+="$(basename "$wheel") of $(awk "BEGIN {printf \"%.1f\", $bytes / 1e6}") MB: $libraries; "
done

wheel=$(echo "$wheels"/nacre-*_x86_64.whl)
pythons=0 codes=
for version in 3.11 3.12 3.13 3.14; do
  interpreter=$(command -v "python$version") && "$interpreter" -c 'import ensurepip, venv' 2>/dev/null || continue
  "$interpreter" -m venv "$work/venv-$version"
  # NumPy and nanobind's part are fetched before: the bound is for the installation, not for the network.
  "$work/venv-$version/bin/python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --dest "$work/house-$version" "$wheel" >"$work/said" 2>&1 ||
    fail "the packages that the wheel needs are not to be had for Python $version"
  begun=$(date +%s%N)
  "$work/venv-$version/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$work/house-$version" "$wheel" >"$work/said" 2>&1 || fail "Python $version does not install the wheel"
  took=$((($(date +%s%N) - begun) / 1000000))
  ((took < 20000)) || fail "pip install took $took ms with Python $version"
  begun=$(date +%s%N)
  line=$(cd "$work" && "venv-$version/bin/python" "$root/tests/wheels/first_model.py" "$root" 2>"$work/said") || fail "the wheel does not work with Python $version"
  seconds=$(sed 's/.*first model \([0-9.]*\) s.*/\1/' <<<"$line")
  awk "BEGIN {exit !($seconds < 5)}" || fail "the first model took $seconds s with Python $version"
  codes=${line##*codes }
  pythons=$((pythons + 1))
  facts+="Python $version: installed in $((took / 1000)).$(printf %03d $((took % 1000))) s, first model in $seconds s; "
done
((pythons > 0)) || fail "no Python with venv is here"

. tools/wheels/debian.sh
wheel=$(echo "$wheels"/nacre-*_aarch64.whl)
tools/wheels/python_aarch64.sh -m venv --without-pip "$work/arm" >"$work/said" 2>&1 || fail "QEMU makes no environment of Python for aarch64"
export NACRE_ARM_PYTHON=$work/arm/bin/python
PYTHONPATH=$(echo "$debian_base"/wheelhouse-aarch64/pip-*.whl) tools/wheels/python_aarch64.sh -m pip install --quiet --disable-pip-version-check --no-index \
  --find-links "$debian_base/wheelhouse-aarch64" "$wheel" >"$work/said" 2>&1 || fail "Python for aarch64 does not install the wheel"
line=$(cd "$work" && "$root/tools/wheels/python_aarch64.sh" "$root/tests/wheels/first_model.py" "$root" 2>"$work/said") || fail "the wheel does not work on aarch64"
[ "${line##*codes }" = "$codes" ] || fail "aarch64 computes other integers: ${line##*codes }, x86-64 $codes"
echo "CLAIM wheels shown: ${facts}aarch64 under QEMU: installed, the first model's outputs equal x86-64's (${line#* })"
