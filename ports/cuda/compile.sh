#!/bin/sh
# compile.sh FATBIN REPORT PTX NVCC OPTION... SOURCE: compiles the entries of a source file for the device. It writes
# what ptxas says about each kernel to REPORT, and the first target's PTX to PTX.
set -eu
fatbin=$1 report=$2 ptx=$3
shift 3
kept=$(mktemp -d "$fatbin.XXXXXX")
trap 'rm -rf "$kept"' EXIT
if ! "$@" --fatbin -Xptxas -v --keep --keep-dir "$kept" -o "$fatbin" 2>"$report"; then
  cat "$report" >&2
  exit 1
fi
# Without a list of headers a later build would not compile this file again when a header changed.
if ! [ -s "${fatbin%.fatbin}.d" ]; then
  rm -f "$fatbin"
  echo "$fatbin: nvcc wrote no list of headers" >&2
  exit 1
fi
for found in "$kept"/*.ptx; do
  cp "$found" "$ptx"
  break
done
