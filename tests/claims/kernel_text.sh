#!/usr/bin/env bash
# Claim kernel_text: tools/evaluate/kernel_text.inc holds the bytes of each kernel that the library for an M4 has now.
# `nacre size --target` tells a kernel's flash from this file. firmware/kernel_text.py also writes, in one run, the
# columns of the other targets.
#
# Needs the firmware packages. It uses the folder of cortex_m_instructions, whose library it reads.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=build/m4_cortex_m
[ -f $folder/build.ninja ] || meson setup $folder --cross-file firmware/toolchains/m4.ini --buildtype=minsize \
  -Dtools=false -Dfirmware=true -Dwerror=true -Dsentences=false -Dfirmware_libm=true >build/kernel_text.log 2>&1 ||
  { tail -n 20 build/kernel_text.log; echo "CLAIM kernel_text NOT SHOWN: meson setup"; exit 1; }
said=$(python3 firmware/kernel_text.py --check m4 $folder 2>build/kernel_text.log) || {
  echo "$said"
  tail -n 5 build/kernel_text.log
  echo "write it again: firmware/kernel_text.py > tools/evaluate/kernel_text.inc"
  echo "CLAIM kernel_text NOT SHOWN: ${said##*$'\n'}"
  exit 1
}
echo "CLAIM kernel_text shown: ${said##*$'\n'}"
