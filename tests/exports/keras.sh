#!/usr/bin/env bash
# Compares what nacre does with files of Keras with what Keras does with them.
#
#   tests/exports/keras.sh BUILD FOLDER [PATTERN]     a build with tests; where a Python environment goes
#   tests/exports/keras.sh --write BUILD FOLDER       and writes tests/exports/keras.txt anew
#   tests/exports/keras.sh --help
#
# Tries the layers of keras.layers, but those that keras_cases.py skips, under each policy (keras_layers.py; PATTERN:
# only cases whose name it fits). Without PATTERN it also tries files of MLPerf Tiny, and trainings that Keras began and
# nacre tune continues (tests/peers/keras_training.py). NACRE_SHARED names the folder with models/mlperf_tiny.
# NACRE_KERAS_PYTHON is a Python that has tests/peers/keras_requirements.txt; without it one is made in FOLDER/venv.
# Closes with
#
#   CLAIM keras_files shown: N models of M layer kinds, 0 wrong, R refused
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ] || [ "$1" = --help ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0"
  exit 0
fi
write=
if [ "$1" = --write ]; then write=yes; shift; fi
build=$(realpath "$1") folder=$2 pattern=${3-*}
nacre=$build/tools/nacre models=${NACRE_SHARED-$here/../../../shared}/models/mlperf_tiny
python=${NACRE_KERAS_PYTHON-}
if [ -z "$python" ]; then
  python=$folder/venv/bin/python
  if [ ! -x "$python" ]; then
    python3 -m venv "$folder/venv"
    "$python" -m pip install --quiet -r "$here/../peers/keras_requirements.txt"
  fi
fi
export KERAS_BACKEND=${KERAS_BACKEND-jax} TF_CPP_MIN_LOG_LEVEL=3
status=0 table=$(mktemp)
trap 'rm -f "$table"' EXIT
"$python" "$here/keras_layers.py" "$nacre" --only "$pattern" > "$table" || status=1
{
  sed '/^CLAIM/d' "$table"
  if [ "$pattern" = '*' ]; then
    NACRE_ROOT=$here/../.. NACRE_SHARED=${NACRE_SHARED-$here/../../../shared} "$build/tests/unit_tests" \
      --gtest_filter='keras_files.a_trained_file_rounds*' | grep '^keras_files:' || echo 'NOT SHOWN: weights'
    NACRE_TOOL=$nacre "$python" "$here/../peers/keras_training.py" "$models" || status=1
  fi
  sed -n '/^CLAIM/p' "$table"
} > "$table.all" || status=1
cat "$table.all"
if [ -n "$write" ]; then cp "$table.all" "$here/keras.txt"; fi
rm -f "$table.all"
exit $status
