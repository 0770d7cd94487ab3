#!/usr/bin/env bash
# Runs networks whose state stays in the engine from run to run, and compares with onnxruntime, with LiteRT's codes, and
# with torch for a whole sequence at once.
#
#   tests/exports/streams.sh BUILD FOLDER             a build; where exports go (10 MB)
#   tests/exports/streams.sh --write BUILD FOLDER     and writes tests/exports/streams.txt anew
#   tests/exports/streams.sh --help
#
# NACRE_SHARED names the folder with models/silero and models/tflm. NACRE_EXPORTS_PYTHON is a Python that has
# tests/exports/requirements.txt; without it one is made in FOLDER/venv. streams.py says what must hold. Closes with
#
#   CLAIM streams shown: silero over 2 x 50 chunks, DTLN over 6 frames, GPT-2 and Llama over 2 x 72 tokens, ...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] || [ "$1" = --help ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0"
  exit 0
fi
write=
if [ "$1" = --write ]; then write=yes; shift; fi
nacre=$(realpath "$1")/tools/nacre folder=$2 models=${NACRE_SHARED:-$here/../../../shared}/models
python=${NACRE_EXPORTS_PYTHON-}
if [ -z "$python" ]; then
  python=$folder/venv/bin/python
  if [ ! -x "$python" ]; then
    python3 -m venv "$folder/venv"
    "$python" -m pip install --quiet -r "$here/requirements.txt"
  fi
fi
exec "$python" "$here/streams.py" "$nacre" "$folder" "$models" ${write:+--write "$here/streams.txt"}
