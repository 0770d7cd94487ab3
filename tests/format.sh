#!/usr/bin/env bash
# Checks that the files *.h, *.cc and *.c are as clang-format of tests/peers/requirements.txt formats them with .clang-format.
#
#   tests/format.sh [--write]     --write formats what differs
#
# NACRE_PEERS_PYTHON: the interpreter beside that clang-format; else tools/peers.sh makes it.
set -euo pipefail
cd "$(dirname "$0")/.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "the list of files is git's, and this is no clone"; exit 77; }
python=${NACRE_PEERS_PYTHON-$(bash tools/peers.sh)}
format=$(dirname "$python")/clang-format
[ -x "$format" ] || { echo "CLAIM format NOT SHOWN: $format is missing"; exit 1; }
# The headers of tests/abi/version_* are left out: they stay as they were released.
sources() { git ls-files '*.h' '*.cc' '*.c' | grep -v '^tests/abi/version_' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done; }
if [ "${1-}" = --write ]; then
  sources | xargs "$format" -i
  exit
fi
said=$(sources | xargs -P "$(nproc)" -n 100 "$format" --dry-run 2>&1) || { tail -n 5 <<<"$said"; echo "CLAIM format NOT SHOWN: clang-format fails"; exit 1; }
differ=$(sed -n 's/: warning: code should be clang-formatted.*//p' <<<"$said" | cut -d: -f1 | sort | uniq -c)
if [ -n "$differ" ]; then
  echo "lines that $("$format" --version) has otherwise (tests/format.sh --write):"
  echo "$differ"
  echo "CLAIM format NOT SHOWN: $(wc -l <<<"$differ") files"
  exit 1
fi
echo "CLAIM format shown: $(sources | wc -l) files are as $("$format" --version) has them"
