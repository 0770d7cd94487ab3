#!/usr/bin/env bash
# Trains the same networks in Nacre, torch and JAX, and prints the ratios of their times.
#
#   bench/peers/training.sh [options of training.py, but --runner and --nacre]
#   bench/peers/training.sh --networks mlp --batches 16 --json build/training.json      an example
#
# Makes a virtual environment in build/ from requirements_training.txt the first time, or when that file changes (5
# GB); or takes the interpreter that NACRE_PEERS_PYTHON names. Builds training_runner and nacre in NACRE_BUILD
# [build/bench]. Then runs training.py, whose --help says the rest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tools/packages.sh"

requirements=$here/requirements_training.txt
venv=$root/build/bench-training-venv
python=${NACRE_PEERS_PYTHON-}
build=${NACRE_BUILD:-$root/build/bench}
need_packages build tools tests peers

if [[ -z $python ]]; then
  python=$venv/bin/python
  wanted=$(sha256sum <"$requirements")
  # The stamp is written last, so an interrupted installation has no stamp.
  if [[ $(cat "$venv/requirements.sha256" 2>/dev/null) != "$wanted" ]]; then
    echo "training: making $venv" >&2
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: \
      --requirement "$requirements" >&2
    echo "$wanted" >"$venv/requirements.sha256"
  fi
fi
[[ -f $build/build.ninja ]] || meson setup "$build" "$root" --buildtype=release -Dbench=true >&2
ninja -C "$build" bench/training_runner tools/nacre >&2
exec "$python" "$here/training.py" --runner "$build/bench/training_runner" --nacre "$build/tools/nacre" "$@"
