#!/usr/bin/env bash
# Measures how a training step's time falls with the number of ranks, beside torch's DistributedDataParallel. Its
# results: bench/mpi_results.txt.
#
#   bench/mpi.sh [options of bench/peers/mpi.py, but --nacre]
#
# The first time, or when bench/peers/requirements_mpi.txt changes, makes a virtual environment in build/ from it (5
# GB); or takes the interpreter that NACRE_PEERS_PYTHON names. Builds nacre in NACRE_BUILD [build/bench].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
. "$root/tools/packages.sh"

requirements=$here/peers/requirements_mpi.txt
venv=$root/build/bench-mpi-venv
python=${NACRE_PEERS_PYTHON-}
build=${NACRE_BUILD:-$root/build/bench}
need_packages build tools peers mpi

if [[ -z $python ]]; then
  python=$venv/bin/python
  wanted=$(sha256sum <"$requirements")
  # The stamp is written last, so an interrupted installation has no stamp.
  if [[ $(cat "$venv/requirements.sha256" 2>/dev/null) != "$wanted" ]]; then
    echo "mpi: making $venv" >&2
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: --requirement "$requirements" >&2
    echo "$wanted" >"$venv/requirements.sha256"
  fi
fi
[[ -f $build/build.ninja ]] || meson setup "$build" "$root" --buildtype=release -Dmpi=enabled -Dx86_tiers=native >&2
ninja -C "$build" tools/nacre >&2
exec "$python" "$here/peers/mpi.py" --nacre "$build/tools/nacre" "$@"
