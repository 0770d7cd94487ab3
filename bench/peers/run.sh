#!/usr/bin/env bash
# Runs the same networks in Nacre and in other libraries (LiteRT, onnxruntime, OpenVINO, torch, MNN, ncnn), and prints
# the ratios of the times.
#
#   bench/peers/run.sh [options of networks.py]
#   bench/peers/run.sh --networks kws,ic --threads 1 --json build/peers.json      an example
#
# Makes a virtual environment in build/ from requirements.txt the first time, or when that file changes. Builds
# peer_runner in NACRE_BUILD [build/bench]; with --runner PATH it uses another one and builds nothing.
# NACRE_PEERS_TORCH=1 also installs torch and pnnx (5 GB). Then it runs networks.py, whose --help says the rest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tools/packages.sh"

requirements=$here/requirements.txt
venv=$root/build/bench-peers-venv
python=$venv/bin/python
wanted=$(sha256sum <"$requirements")

# The stamp is written last, so an interrupted installation has no stamp.
ready() { [[ $(cat "$venv/requirements.sha256" 2>/dev/null) == "$wanted" ]] && "$python" -c '' 2>/dev/null; }

# A peer that cannot be installed is left out, and networks.py says so. If installing all requirements at once fails,
# each line is installed by itself.
install() {
  local pip=("$python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all:) line
  "${pip[@]}" --requirement "$requirements" >&2 && return 0
  while read -r line; do
    [[ -z $line || $line == '#'* ]] || "${pip[@]}" "$line" >&2 || echo "peers: pip could not install $line" >&2
  done <"$requirements"
  "$python" -c 'import numpy' 2>/dev/null
}

make_venv() {
  mkdir -p "$root/build"
  exec 9>"$venv.lock"
  flock 9  # if two of these run, the second finds the work done
  ready && return 0
  python3 -c 'import ensurepip, venv' 2>/dev/null || need_packages peers
  echo "peers: making $venv" >&2
  rm -rf "$venv"
  python3 -m venv "$venv" >&2
  install || { echo "peers: pip could not install numpy; see its lines above" >&2; return 1; }
  echo "$wanted" >"$venv/requirements.sha256"
}

build_runner() {
  local build=${NACRE_BUILD:-$root/build/bench}
  need_packages build tools tests
  [[ -f $build/build.ninja ]] || meson setup "$build" "$root" --buildtype=release -Dbench=true >&2
  ninja -C "$build" bench/peer_runner >&2
  runner=$build/bench/peer_runner
}

ready || make_venv
if [[ ${NACRE_PEERS_TORCH-} == 1 ]] && ! "$python" -c 'import torch, pnnx' 2>/dev/null; then
  "$python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: \
    --requirement "$here/requirements_torch.txt" >&2 || echo "peers: pip could not install torch" >&2
fi
own_runner=true
for argument in "$@"; do
  case $argument in
    --runner | --runner=* | --help | -h) own_runner=false ;;
  esac
done
arguments=("$@")
if $own_runner; then
  build_runner
  arguments+=(--runner "$runner")
fi
exec "$python" "$here/networks.py" "${arguments[@]}"
