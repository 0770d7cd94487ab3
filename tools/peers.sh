#!/usr/bin/env bash
# Prints the path of a Python that has the packages of tests/peers/requirements.txt: "$(tools/peers.sh)" compare.py
# Or those of another file, in an environment of its own: "$(tools/peers.sh tests/python/requirements.txt python)"
#
# Makes a virtual environment in build/ the first time (about a minute) and again when the requirements change.
# Only the path goes to stdout. Needs nothing from the caller's environment.
set -euo pipefail
export PATH  # under env -i bash has a default PATH of its own, which Python must see to find itself

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/tools/packages.sh"

requirements=$root/${1-tests/peers/requirements.txt}
venv=$root/build/${2-peers}-venv
python=$venv/bin/python
wanted=$(sha256sum <"$requirements")

# The stamp is written last: an interrupted installation has none. The environment's python is tried too: it is a link
# to the system's python, which an upgrade may have removed.
ready() { [[ $(cat "$venv/requirements.sha256" 2>/dev/null) == "$wanted" ]] && "$python" -c '' 2>/dev/null; }

if ! ready; then
  mkdir -p "$root/build"
  exec 9>"$venv.lock"
  flock 9  # tests run in parallel; the second one finds the work done
fi
if ! ready; then
  # Debian's python3 can lack the module ensurepip, which venv needs. Installs it only if one of the two is missing.
  python3 -c 'import ensurepip, venv' 2>/dev/null || need_packages peers
  echo "peers: making $venv" >&2
  rm -rf "$venv"
  python3 -m venv "$venv" >&2
  if ! "$python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: \
      --requirement "$requirements" >&2; then
    echo "peers: pip could not install ${requirements#"$root/"}; see its lines above" >&2
    exit 1
  fi
  echo "$wanted" >"$venv/requirements.sha256"
fi
echo "$python"
