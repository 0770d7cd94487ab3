#!/usr/bin/env bash
# Exports networks from PyTorch as people do, converts and runs the files, and compares with onnxruntime.
#
#   tests/exports/run.sh NACRE FOLDER [PATTERN]     the program of a build; where the files go (about 1.5 GB)
#   tests/exports/run.sh --write NACRE FOLDER       also writes exports, families and sentence_encoder.txt here anew
#   tests/exports/run.sh --help
#
# PATTERN: only files whose name it fits, as 'unet*' or '*.dynamo.half'. Files that are there are not made again.
# NACRE_EXPORTS_PYTHON is a Python that has tests/exports/requirements.txt; without it one is made in FOLDER/venv (torch
# with its CUDA libraries takes 3 GB; PIP_INDEX_URL may name the wheels for CPUs, of 200 MB). Closes with
#
#   CLAIM exports shown: N files, M converted, 0 wrong
#   CLAIM families shown: N files, M converted, 0 wrong
#   CLAIM sentence_encoder shown: ...
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
    "$python" -m pip install --quiet -r "$here/requirements.txt"
  fi
fi
for maker in vision language audio other probes; do
  "$python" "$here/make_$maker.py" "$folder" "$pattern"
done
"$python" "$here/make_families.py" "$folder/families" "$pattern"
status=0 seen=
compared() {  # FOLDER CLAIM: the files there that PATTERN fits, if any
  compgen -G "$1/$pattern.npz" > /dev/null || return 0
  seen=yes
  "$python" "$here/compare.py" "$nacre" "$1" "$pattern" --claim "$2" ${write:+--write "$here/$2.txt"} || status=1
}
compared "$folder" exports
compared "$folder/families" families
[ -n "$seen" ] || status=1
if [ "$pattern" = '*' ]; then
  table=$here/sentence_encoder.txt
  "$python" "$here/sentence_encoder.py" "$nacre" "$folder/encoder" ${write:+--write "$table"} || status=1
fi
exit $status
