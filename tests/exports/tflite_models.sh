#!/usr/bin/env bash
# Converts, runs and compares TensorFlow Lite files that others made, and those of Keras applications and recurrences.
#
#   tests/exports/tflite_models.sh [--write] NACRE CLAIMS FOLDER
#   tests/exports/tflite_models.sh --help
#
# NACRE, CLAIMS: programs of a build (tools/nacre, tests/claim_tests). FOLDER: where tests/exports/tflite.sh writes.
# NACRE_EXPORTS_PYTHON is a Python that has tests/exports/tflite_requirements.txt and
# tests/peers/random_tflite_requirements.txt; NACRE_SHARED the shared data [beside the project]. Runs
#
#   compare_tflm.py           TensorFlow Lite Micro's example networks against its runtime and against LiteRT
#   claims tflite_int16       the 127 int16x8 operators of its seanet set against their golden outputs
#   detections.py             operators that select boxes against LiteRT
#   tflite.sh                 Keras networks in five forms against LiteRT
#
# --write: what they print is kept in tests/exports/tflite_models.txt and tflite_exports.txt. Closes with
#
#   CLAIM tflite_models shown: the claims of the first two and the last
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] || [ "$1" = --help ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0"
  exit 0
fi
write=
if [ "$1" = --write ]; then write=--write; shift; fi
nacre=$(realpath "$1") claims=$(realpath "$2") folder=$3
shared=$(realpath "${NACRE_SHARED:-$here/../../../shared}")
said=$(mktemp) all=$(mktemp)
trap 'rm -f "$said" "$all"' EXIT

failed=0
run() {  # shows and keeps what a command prints
  "$@" > "$said" || failed=1
  cat "$said"
  cat "$said" >> "$all"
}
run "$NACRE_EXPORTS_PYTHON" "$here/compare_tflm.py" "$nacre" "$shared/models/tflm"
echo | tee -a "$all"
NACRE_SHARED=$shared run sh "$here/../claims/tflite_int16.sh" "$claims"
run "$NACRE_EXPORTS_PYTHON" "$here/../peers/detections.py" "$nacre" 200
"$here/tflite.sh" ${write:+--write} "$nacre" "$folder" > "$said" || failed=1
cat "$said"
echo >> "$all"
tail -n 1 "$said" >> "$all"

verdict=shown
if [ $failed -ne 0 ] || grep -q 'NOT SHOWN' "$all"; then verdict='NOT SHOWN'; fi
parts=$(sed -n 's/^CLAIM [a-z0-9_]* [a-zA-Z ]*shown: //Ip' "$all" | paste -sd';' | sed 's/;/; /g')
echo | tee -a "$all"
echo "CLAIM tflite_models $verdict: $parts" | tee -a "$all"
if [ -n "$write" ]; then cp "$all" "$here/tflite_models.txt"; fi
exit $failed
