#!/usr/bin/env bash
# Writes Keras networks in up to five forms with TensorFlow's converter, converts and runs them, compares with LiteRT.
#
#   tests/exports/tflite.sh NACRE FOLDER [PATTERN]     the program of a build; where the files go (about 2 GB)
#   tests/exports/tflite.sh --write NACRE FOLDER       all of them, and writes tests/exports/tflite_exports.txt anew
#   tests/exports/tflite.sh --help
#
# PATTERN: only files whose name it fits, as 'lstm*' or '*.int8'. Files that are there are not made again.
# NACRE_EXPORTS_PYTHON is a Python that has tests/exports/tflite_requirements.txt; without it one is made in
# FOLDER/venv. Closes with
#
#   CLAIM tflite_exports shown: N files, M converted, 0 wrong
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] || [ "$1" = --help ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0"
  exit 0
fi
write=
if [ "$1" = --write ]; then write=yes; shift; fi
nacre=$(realpath "$1") folder=$2 pattern=${3-*}
python=${NACRE_EXPORTS_PYTHON-}
if [ -z "$python" ]; then
  python=$folder/venv/bin/python
  if [ ! -x "$python" ]; then
    python3 -m venv "$folder/venv"
    "$python" -m pip install --quiet -r "$here/tflite_requirements.txt"
  fi
fi
for maker in keras_layers keras_applications; do
  "$python" "$here/make_$maker.py" "$folder" "$pattern"
done
exec "$python" "$here/compare_tflite.py" "$nacre" "$folder" "$pattern" ${write:+--write "$here/tflite_exports.txt"}
