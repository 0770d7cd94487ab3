#!/usr/bin/env bash
# Claim federated: devices with unequal data, which send only their trained parameters, learn together on Flower's
# simulation engine. They learn what central training learns with as many visits of samples, up to the printed share.
# A device that sends NaN or wrong shapes is refused, and every round goes on. The device's round in C, against
# installed headers, makes the package's updates to the byte.
#
#   tests/claims/federated.sh BUILD      behind tests/claims/python_parity.sh BUILD, which installs the package that is tried
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  [ ! -s "$work/said" ] || tail -n 20 "$work/said"
  echo "CLAIM federated NOT SHOWN: $1"
  exit 1
}
export FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0
python=${NACRE_FEDERATED_PYTHON:-$(tools/peers.sh tests/python/requirements.txt python)}
"$python" -c 'import nacre; nacre.flower, nacre.updates' 2>"$work/said" || fail "the package is not installed: run tests/claims/python_parity.sh $1"

meson install -C "$build" --no-rebuild --destdir "$work/root" --quiet --tags devel >"$work/said" 2>&1 || fail "meson install"
pc=$(find "$work/root" -name nacre.pc)
prefix=$work/root$(sed -n 's/^prefix=//p' "$pc")
read -r -a flags <<<"$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$prefix" --cflags --libs nacre)"
cc -std=c11 -Wall -Wextra -pedantic -Werror -O1 tools/samples/installed/federate.c -o "$work/federate" "${flags[@]}" 2>"$work/said" || fail "federate.c does not compile"
"$python" tests/python/federated_device.py "$work/federate" >"$work/device" 2>"$work/said" || fail "$(tail -n 1 "$work/said")"

"$python" tests/python/federated.py --clients 100 --rounds 20 >"$work/simulation" 2>"$work/said" || fail "the simulation"
"$python" - "$work/device" "$work/simulation" <<'END'
import json, sys
device, s = (json.loads(open(path).read().splitlines()[-1]) for path in sys.argv[1:])
honest, hostile = s["honest"], s["with hostile devices"]
before, gained = honest["accuracy before"], honest["accuracy"] - honest["accuracy before"]
wrong = []
for run in (honest, hostile):
    if run["averaged"] != s["rounds"] * [s["clients"]]: wrong.append(f"updates averaged in each round: {run['averaged']}")
if honest["refused"] != 0: wrong.append(f"{honest['refused']} updates of honest devices are refused")
if hostile["refused"] != 2 * s["rounds"] or hostile["refused nodes"] != 2: wrong.append(f"{hostile['refused']} updates of {hostile['refused nodes']} devices are refused")
if hostile["by round"] != honest["by round"]: wrong.append(f"accuracy {hostile['accuracy']:.4f} with hostile devices, {honest['accuracy']:.4f} without")
if gained < 0.75 * (s["central accuracy"] - before): wrong.append(f"less than three quarters of what central training gains: {honest['accuracy']:.4f}, {s['central accuracy']:.4f}")
if honest["update bytes"] * 4 > s["full model bytes"]: wrong.append("an update is more than a quarter of the full model")
low, middle, high = s["samples of a device"]
print(f"CLAIM federated {'NOT SHOWN: ' + '; '.join(wrong) + '; ' if wrong else 'shown: '}{s['clients']} devices with {low} to {high} digits (median {middle}) of "
      f"{s['classes of a device'][0]} to {s['classes of a device'][1]} classes, {s['rounds']} rounds of {s['versions'].split(',')[0]}: accuracy {honest['accuracy']:.4f} from {before:.4f}, central "
      f"{s['central accuracy']:.4f} with as many sample visits; an update {honest['update bytes']} bytes ({s['training']}), the full model {s['full model bytes']}; with a device that sends NaN and one "
      f"of wrong shapes the same accuracy in each round, {hostile['refused']} updates refused; the device in C: {device['updates']} updates of {len(device['update bytes'])} trainings equal "
      f"the package's to the byte, {device['refused updates']} wrong updates and {device['refused uses']} wrong uses refused; simulations of {honest['seconds']} and {hostile['seconds']} s, {s['machine']}")
sys.exit(bool(wrong))
END
