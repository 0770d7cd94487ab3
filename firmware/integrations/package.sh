#!/bin/sh
# package.sh FOLDER: makes Nacre a library for Arduino, PlatformIO, ESP-IDF and Zephyr, one folder for all four. It
# holds what static programs (`nacre firmware`) link for inference; engine/sources.txt names the sources. Arduino
# compiles .cpp.
set -eu
folder=${1:?package.sh FOLDER}
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n "s/^project(.*version: '\([0-9.]*\)'.*/\1/p" "$root/meson.build")
nacre=$folder/src/nacre
mkdir -p "$nacre/engine" "$nacre/ports/cortex_m" "$folder/zephyr"
for file in library.properties library.json idf_component.yml CMakeLists.txt zephyr/module.yml zephyr/Kconfig zephyr/CMakeLists.txt; do
  sed "s/@version@/$version/" "$root/firmware/integrations/library/$file" >"$folder/$file"
done
echo '#pragma once
#include <nacre/static_program.h>' >"$folder/src/Nacre.h"
for header in cortex_m cortex_m_functions kernels nacre_c nacre_c_numbers nacre_c_places nacre_c_training self_test static_program static_tables; do
  cp "$root/include/nacre/$header.h" "$nacre"
done

cd "$root/engine"
for part in base kernels numeric ops run; do
  mkdir -p "$nacre/engine/$part"
  cp $part/*.h "$nacre/engine/$part"
done
mkdir -p "$nacre/engine/kernels/fast" "$nacre/engine/kernels/reference" "$nacre/engine/kernels/training"
cp kernels/fast/entry.h "$nacre/engine/kernels/fast"
for list in reference training; do cp kernels/$list/*.inc "$nacre/engine/kernels/$list"; done
cp nacre_c.h nacre_c_numbers.h nacre_c_places.h nacre_c_training.h "$nacre/engine"
awk '/:$/ {on = $0 == "infer_entries:" || $0 == "static_programs:"} on && sub(/\.cc$/, "")' sources.txt |
  while read -r source; do cp "$source.cc" "$nacre/engine/$source.cpp"; done
cp "$root"/ports/cortex_m/*.h "$root"/ports/cortex_m/*.inc "$nacre/ports/cortex_m"
cp "$root/ports/cortex_m/kernels.cc" "$nacre/ports/cortex_m/kernels.cpp"
# Includes begin with nacre/, so that no other library's header is taken for one of these (include/install_headers.py).
find "$nacre" -type f -exec sed -i 's,#include "\(engine\|ports\)/,#include "nacre/\1/,' {} +
