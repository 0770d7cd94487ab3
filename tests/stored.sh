#!/usr/bin/env bash
# Runs a command, or prints what it printed when it last passed with the same content.
#
#   tests/stored.sh NAME FILE-OR-FOLDER... -- COMMAND...
#
# The content: the files, those of the folders that git knows, the command's words, the compilers' and emulators' versions, and
# NACRE_LONG. NACRE_STORED: the folder with the results, outside of the tree; empty: the command runs.
set -uo pipefail
name=$1
shift
files=()
while [ "$1" != -- ]; do files+=("$1"); shift; done
shift
[ -n "${NACRE_STORED-}" ] || exec "$@"

key=$({
  git ls-files -z -- "${files[@]}" | xargs -0 -r sha256sum
  for file in "${files[@]}"; do [ ! -f "$file" ] || sha256sum "$file"; done
  echo "$* ${NACRE_LONG:-0}"
  for tool in g++ clang++-19 arm-none-eabi-g++ riscv64-unknown-elf-g++ aarch64-linux-gnu-g++ qemu-system-arm qemu-aarch64; do
    "$tool" --version 2>/dev/null | head -n 1 || true
  done
} | sha256sum | cut -c 1-64)
result=$NACRE_STORED/$name-$key
if [ -f "$result" ]; then
  echo "nothing that $name reads has changed since $(date -r "$result" +%F): this is what it printed then"
  cat "$result"
  exit 0
fi
mkdir -p "$NACRE_STORED"
"$@" 2>&1 | tee "$result.$$"
status=${PIPESTATUS[0]}
if [ "$status" -eq 0 ]; then mv "$result.$$" "$result"; else rm -f "$result.$$"; fi
exit "$status"
