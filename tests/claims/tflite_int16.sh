#!/bin/sh
# Unpacks TensorFlow Lite Micro's int16x8 operators of the shared data into a folder, and runs the claim on them.
#
#   tests/claims/tflite_int16.sh PROGRAM      exit code 77: the shared data are not there
set -eu
root=${NACRE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
archive=${NACRE_SHARED:-$root/../shared}/models/tflm/seanet_int16.tar.xz
if [ ! -f "$archive" ]; then
  echo "tflite_int16: $archive is not there: skipped"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xJf "$archive" -C "$folder"
"$1" tflite_int16 "$folder/seanet"
