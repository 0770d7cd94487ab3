#!/bin/sh
# Unpacks ONNX's backend tests of the shared data once into a folder of the build, and runs them.
#
#   tests/onnx/run.sh PROGRAM FOLDER [--write]      exit code 77: the shared data are not there
set -eu
program=$1 folder=$2
shift 2
root=${NACRE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
archive=${NACRE_SHARED:-$root/../shared}/onnx/onnx_backend_tests_v1.22.0.tar.xz
if [ ! -f "$archive" ]; then
  echo "onnx: $archive is not there: skipped"
  exit 77
fi
data=$folder/onnx_backend_tests_v1.22.0
if [ ! -d "$data" ]; then
  rm -rf "$folder/unpacking"
  mkdir -p "$folder/unpacking"
  tar -xJf "$archive" -C "$folder/unpacking"
  mv "$folder/unpacking/onnx_backend_tests_v1.22.0" "$data"
  rmdir "$folder/unpacking"
fi
exec "$program" "$data" "$root/tests/onnx/expected_pass.txt" "$@"
