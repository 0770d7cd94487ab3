#!/usr/bin/env bash
# The main job, on a fresh Debian or Ubuntu machine: installs what is missing, builds, converts the digits network, inspects
# it and reads the test images with it. Needs no Python.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
need_packages build tools

build=build/demo
log=$build/build.log
mkdir -p "$build"
echo "building (the log is in $log)"
if ! { [ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=release; } >"$log" 2>&1 ||
   ! ninja -C "$build" >>"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "demo: the build failed; the whole log is in $log" >&2
  exit 1
fi

nacre=$build/tools/nacre
samples=tools/samples
model=$build/digits.nacre
show() { printf '\n$ nacre %s\n' "$*"; "$nacre" "$@"; }

show convert "$samples/digits.onnx" -o "$model"
show inspect "$model"
show size "$model" --target arm/m4
printf '\n'
"$build/tools/digits" "$model" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy"

printf '\nWhat each policy costs on the 450 test images:\n'
"$build/tools/policy_table" "$samples/digits.onnx" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy"
show convert "$samples/digits.onnx" -o "$build/digits_int8.nacre" --policy int8_from_float32
show report "$model" "$build/digits_int8.nacre" --data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --indices "$samples/digits_test.npy" --cast-inputs -o "$build/digits.html"
