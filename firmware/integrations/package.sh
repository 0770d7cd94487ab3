#!/bin/sh
# package.sh FOLDER: Nacre as a library of Arduino, PlatformIO, ESP-IDF and Zephyr, one folder for all four. It holds what
# static programs link (`nacre firmware`), for inference: engine/meson.build names the sources. Arduino compiles .cpp.
set -eu
folder=${1:?package.sh FOLDER}
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n "s/^project(.*version: '\([0-9.]*\)'.*/\1/p" "$root/meson.build")
mkdir -p "$folder/src/engine" "$folder/src/ports/cortex_m" "$folder/zephyr"
for file in library.properties library.json idf_component.yml CMakeLists.txt zephyr/module.yml zephyr/Kconfig zephyr/CMakeLists.txt; do
  sed "s/@version@/$version/" "$root/firmware/integrations/library/$file" >"$folder/$file"
done
echo '#pragma once
#include "engine/run/static_program.h"' >"$folder/src/Nacre.h"

cd "$root/engine"
for part in base kernels numeric ops run; do
  mkdir -p "$folder/src/engine/$part"
  cp $part/*.h "$folder/src/engine/$part"
done
mkdir -p "$folder/src/engine/kernels/fast" "$folder/src/engine/kernels/reference" "$folder/src/engine/kernels/training"
cp kernels/fast/entry.h "$folder/src/engine/kernels/fast"
for list in reference training; do cp kernels/$list/*.inc "$folder/src/engine/kernels/$list"; done
cp nacre_c.h nacre_c_training.h "$folder/src/engine"
sed -n "/^infer_entry_sources = /,/^)/p; /^static_sources = /,/^)/p" meson.build | sed -n "s/^ *'\(.*\)\.cc',/\1/p" |
  while read -r source; do cp "$source.cc" "$folder/src/engine/$source.cpp"; done
cp "$root"/ports/cortex_m/*.h "$root"/ports/cortex_m/*.inc "$folder/src/ports/cortex_m"
cp "$root/ports/cortex_m/kernels.cc" "$folder/src/ports/cortex_m/kernels.cpp"
