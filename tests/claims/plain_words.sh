#!/usr/bin/env bash
# Claim plain_words: comments, documents, help and messages have none of the habits that strangers read twice
# (plain_words.py counts them). The count finds each habit in a file that has it.
#
#   tests/claims/plain_words.sh      with the tool of a build: NACRE_TOOL, else build/test/tools/nacre
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "CLAIM plain_words NOT SHOWN: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counts=$(python3 tests/claims/plain_words.py . --tool "${NACRE_TOOL:-build/test/tools/nacre}") || fail "$counts"

# seeded FILE TEXT COUNT: makes a checkout of one file with this text, and checks that plain_words.py prints this
# count.
seeded=0
seeded() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/$(dirname "$1")" "$work/tree/include/nacre"
  printf '%b\n' "$2" >"$work/tree/$1"
  said=$(python3 tests/claims/plain_words.py "$work/tree") || true
  [[ "$said" == *"$3"* ]] || fail "$3 is not found in $1: $said"
  seeded=$((seeded + 1))
}
words=$(printf 'word %.0s' {1..41})
seeded engine/a.cc '// What it is.\nint a;  // Of no use.\n// One. Where it is so.' 'openings 3'
seeded tools/a.py '# Those of b.\na = 1  # The same.' 'openings 2'
seeded include/nacre/a.h '/* As b does.\n * Behind c. */' 'openings in public headers 2'
seeded README.md 'Leave the name away.' 'away 1'
seeded docs/a.md "$(printf 'x%.0s' {1..161})" 'wide 1'
seeded docs/a.md "$words" 'long 1'
seeded tools/a.cc "const char* a = \"${words:0:100}\"\n  \"${words:100}\";" 'long 1'
echo "CLAIM plain_words shown: $counts; $seeded seeded habits are counted"
