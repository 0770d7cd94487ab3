#!/usr/bin/env bash
# Runs Python for aarch64 under QEMU, with the packages that an extension of nanobind needs: tools/wheels/python_aarch64.sh -c 'print(1)'
#
# NACRE_ARM_PYTHON names another interpreter, such as that of an environment (`-m venv --without-pip`).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/wheels/debian.sh"
sysroot=$(debian_python_sysroot)
packages=$(debian_python_packages)
python=${NACRE_ARM_PYTHON-$sysroot/usr/bin/python3.11}
[ -n "${NACRE_ARM_PYTHON-}" ] || export PYTHONPATH=$packages${PYTHONPATH:+:$PYTHONPATH}
# LD_LIBRARY_PATH is the guest's; the host's programs have none of it.
exec env -u LD_LIBRARY_PATH qemu-aarch64 -L "$sysroot" -E "LD_LIBRARY_PATH=${NACRE_ARM_LIBRARIES-}" "$python" "$@"
