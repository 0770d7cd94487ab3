#!/usr/bin/env bash
# Claim integrations: in a fresh folder the commands of firmware/README.md, one after another, end with passing golden
# pairs on the Cortex-M4F image. C11 with only the compiler, make, CMake and Meson are tried. The library for Arduino,
# PlatformIO, ESP-IDF and Zephyr (integrations/package.sh) holds every header that it includes.
#
#   NACRE_LONG=1   compiles that library too. It also builds with Meson with Nacre as a subproject, and
#                  PlatformIO's, ESP-IDF's and kconfiglib's own readers read the metadata (a virtual environment
#                  with PyPI's platformio, idf-component-manager and kconfiglib)
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the firmware packages. If tests/firmware.sh left build/m4, the
# library is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/../.."
NACRE_SOURCE=$PWD
tool=$(realpath "${NACRE_TOOL:-build/test/tools/nacre}")
long=${NACRE_LONG:-0}
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
verdict=shown failures=
fail() { verdict='NOT SHOWN'; failures+="[$1] "; }
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

# Prints the commands of a section of the README: its indented lines.
commands() { awk -v title="## $1" '$0 == title {on = 1; next} /^## / {on = 0} on && /^    / {print substr($0, 5)}' firmware/README.md; }

mkdir "$fresh/build"
if [ -f build/m4/build.ninja ]; then
  meson configure build/m4 --prefix="$fresh/m4" -Dfirmware_model= -Dfirmware_kernels= >"$fresh/meson.log" 2>&1
  ln -s "$PWD/build/m4" "$fresh/build/m4"
fi
{
  echo 'set -euo pipefail'
  echo 'nacre() { "$NACRE_TOOL" "$@"; }'
  commands 'Into a project of your own'
} >"$fresh/commands"
(cd "$fresh" && NACRE_SOURCE=$NACRE_SOURCE NACRE_TOOL=$tool bash ./commands) >"$fresh/said" 2>&1 || { tail -n 30 "$fresh/said"; fail "a command of README.md"; }
passing=$(grep -c '^0 failed$' "$fresh/said" || true)
[ "$passing" -eq 4 ] || fail "$passing of 4 programs print that 0 pairs failed"

# ---- The library of four other systems ----
library=$fresh/nacre_library
firmware/integrations/package.sh "$library"
flags=(-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -mthumb -Os -std=gnu++20 -fno-exceptions -fno-rtti)
sources=$(cd "$library/src" && find . -name '*.cpp' | sort)
compiled=0
for source in $sources; do
  how=(-M -MF "$fresh/headers")
  [ "$long" != 1 ] || how=(-c -o "$fresh/object.o")
  if (cd "$library/src" && arm-none-eabi-g++ "${flags[@]}" "${how[@]}" -I. "$source"); then compiled=$((compiled + 1)); fi
done
[ "$compiled" -eq "$(wc -l <<<"$sources")" ] || fail "sources of the library lack a header or do not compile"
said=" find their headers"

if [ "$long" = 1 ]; then
  venv=${NACRE_INTEGRATIONS_PYTHON:-}
  if [ -z "$venv" ]; then
    python3 -m venv "$fresh/venv"
    "$fresh/venv/bin/pip" -q install platformio idf-component-manager kconfiglib
    venv=$fresh/venv/bin/python
  fi
  # PlatformIO reads the names of licences from the network in each run.
  cp -r "$library" "$fresh/pio_library"
  sed -i '/"license"/d' "$fresh/pio_library/library.json"
  (cd "$fresh" && "$venv" -m platformio pkg pack pio_library >"$fresh/pio.log" 2>&1) || { tail "$fresh/pio.log"; fail "pio pkg pack"; }
  "$venv" - "$library" <<'END' || fail "the manifest or the Kconfig file"
import sys
from idf_component_tools.manager import ManifestManager
import kconfiglib
manifest = ManifestManager(sys.argv[1], "nacre").load()
assert str(manifest.version) == "0.2.0", manifest
with open(sys.argv[1] + "/Kconfig", "w") as text:
    text.write('config CPP\n bool\n default y\nconfig STD_CPP20\n bool\n default y\nconfig REQUIRES_FULL_LIBCPP\n bool\n'
               'source "zephyr/Kconfig"\n')
import os
os.environ["srctree"] = sys.argv[1]
symbols = kconfiglib.Kconfig("Kconfig").syms
symbols["NACRE"].set_value(2)
assert symbols["NACRE"].str_value == "y" and symbols["REQUIRES_FULL_LIBCPP"].str_value == "y"
END
  said=" compile for the M4, its metadata are read by PlatformIO, the ESP-IDF component manager and kconfiglib"

  mkdir -p "$fresh/whole/subprojects"
  ln -s "$NACRE_SOURCE" "$fresh/whole/subprojects/nacre"
  cp -r "$fresh/digits" "$fresh/whole/digits"
  sed "s/, default_options: \[/, default_options: ['nacre:tools=false', 'nacre:sentences=false', /" "$fresh/meson.build" >"$fresh/whole/meson.build"
  sed 's/^pkg_config_libdir = .*/pkg_config_libdir = []/' "$fresh/m4/share/nacre/cross.ini" >"$fresh/whole/cross.ini"
  (cd "$fresh/whole" && meson setup build --cross-file cross.ini && ninja -C build meson.elf &&
    "$fresh/m4/share/nacre/qemu_run.sh" mps2-an386 build/meson.elf) >"$fresh/whole.log" 2>&1 || tail -n 20 "$fresh/whole.log"
  if grep -q '^0 failed$' "$fresh/whole.log"; then said+="; as a subproject of Meson too"; else fail "the subproject of Meson"; fi
fi

echo "CLAIM integrations $verdict: $passing of 4 programs (C11, make, CMake, Meson) built by README's commands in a fresh folder pass their golden \
pairs on the Cortex-M4F; the library of Arduino, PlatformIO, ESP-IDF and Zephyr: $compiled sources$said${failures:+; failed: $failures}"
[ "$verdict" = shown ]
