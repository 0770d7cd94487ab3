#!/usr/bin/env bash
# Claim old_files_open (ci): models and checkpoints of earlier versions open, run, resume and export with the bytes
# that those versions gave. tests/old_files/make.sh wrote the files, and one line of VERSION.txt for each fact.
set -uo pipefail
cd "$NACRE_ROOT"
. tests/old_files/facts.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=0 checkpoints=0 facts=0 absent=0 versions=0 different=
for archive in tests/old_files/*.tar.xz; do
  version=$(basename "$archive" .tar.xz)
  tar -C "$work" -xJf "$archive"
  versions=$((versions + 1))
  models=$((models + $(find "$work/$version" -name '*.nacre' | wc -l)))
  checkpoints=$((checkpoints + $(find "$work/$version" -name '*.checkpoint' -type d | wc -l)))
  facts_of "$NACRE_TOOL" "$work/$version" >"$work/now.txt"
  # A fact is the first words of a line, and the hashes after them.
  while read -r kind name rest; do
    case $kind in run) key="$kind $name ${rest%% *}" ;; *) key="$kind $name" ;; esac
    now=$(grep -F "$key " "$work/now.txt")
    facts=$((facts + 1))
    case $now in
      "$kind $name $rest") ;;
      *absent) absent=$((absent + 1)) ;;
      *) different+=" [$version: $key]" ;;
    esac
  done <"tests/old_files/$version.txt"
done
[ "$facts" -gt 0 ] || different=' [no file of an earlier version]'
[ -z "$different" ] || { echo "CLAIM old_files_open NOT SHOWN: other bytes for$different"; exit 1; }
echo "CLAIM old_files_open shown: $models models and $checkpoints checkpoints of $versions versions open; $((facts - absent)) of $facts facts have the bytes of then (outputs for each target, exports, resumed trainings), $absent need instructions that this processor lacks"
