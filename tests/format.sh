#!/usr/bin/env bash
# Every file of C and C++ is as clang-format of tests/peers/requirements.txt has it, with .clang-format.
#
#   tests/format.sh [--write]     --write formats what differs. With NACRE_PEERS_PYTHON, or the interpreter of tools/peers.sh
set -euo pipefail
cd "$(dirname "$0")/.."
python=${NACRE_PEERS_PYTHON-$(bash tools/peers.sh)}
format=$(dirname "$python")/clang-format
# tests/abi has headers as they were released.
sources() { git ls-files '*.h' '*.cc' '*.c' | grep -v '^tests/abi/version_'; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "the list of files is git's, and this is no clone"; exit 77; }
if [ "${1-}" = --write ]; then
  sources | xargs "$format" -i
  exit
fi
differ=$(sources | xargs -P "$(nproc)" -n 100 "$format" --dry-run 2>&1 | sed -n 's/: warning: code should be clang-formatted.*//p' | cut -d: -f1 | sort | uniq -c)
[ -z "$differ" ] || { echo "lines that $("$format" --version) has otherwise (tests/format.sh --write):"; echo "$differ"; echo "CLAIM format NOT SHOWN"; exit 1; }
echo "CLAIM format shown: $(sources | wc -l) files are as $("$format" --version) has them"
