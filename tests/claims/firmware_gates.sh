#!/usr/bin/env bash
# Claim firmware_gates: no image has grown by more than 1% in flash, stack, RAM or instructions.
#
#   firmware_gates.sh            compares what the other claims of tests/firmware.sh measured in this build
#   firmware_gates.sh --write    writes these measurements to the rows of tests/claims/firmware_gates.txt; others stay
#   . tests/claims/firmware_gates.sh; gate ROW CODE STACK RAM INSTRUCTIONS      what these claims call
#
# ROW names an image without blanks, as arm/m4:static:kws. CODE is bytes of flash without weights. RAM is bytes of
# static data and buffers, without the stack. `-` stands for a number that is not measured. Rows that this build did
# not measure are not compared; some are measured only with NACRE_LONG=1. The table holds for three compilers; with
# other compilers nothing is compared.
gates_measured=build/firmware_gates.txt
gate() { mkdir -p build && printf '%s %s %s %s %s\n' "$@" >>$gates_measured; }
(return 0 2>/dev/null) && return

set -euo pipefail
cd "$(dirname "$0")/../.."
table=tests/claims/firmware_gates.txt
compiler="$(arm-none-eabi-g++ -dumpfullversion), $(riscv64-unknown-elf-g++ -dumpfullversion), $(clang++-19 -dumpversion)"
[ -s "$gates_measured" ] || { echo "nothing was measured: run tests/firmware.sh first" >&2; exit 1; }
if [ "${1-}" = --write ]; then
  {
    echo "# image, then bytes of flash without weights, of stack and of RAM, and instructions of a run or a training step."
    echo "# Written by tests/claims/firmware_gates.sh --write; compilers: $compiler"
    { cat "$gates_measured"; grep -v '^#' "$table" 2>/dev/null || true; } | awk '!seen[$1]++' | LC_ALL=C sort
  } >"$table.new"
  mv "$table.new" "$table"
  echo "$(grep -vc '^#' "$table") rows in $table"
  exit
fi
known=$(sed -n 's/.*; compilers: //p' "$table")
if [ "$known" != "$compiler" ]; then
  echo "firmware_gates is left out: its table is of the compilers $known, and these are $compiler"
  exit 77
fi
awk '
  NR == FNR { if ($1 !~ /^#/) for (i = 2; i <= 5; ++i) known[$1, i] = $i; if ($1 !~ /^#/) rows[$1]; next }
  {
    ++images
    if (!($1 in rows)) { grown = grown "[" $1 " is not in the table: firmware_gates.sh --write] "; next }
    for (i = 2; i <= 5; ++i) {
      if ($i == "-" || known[$1, i] == "-") continue
      ++numbers
      if ($i > known[$1, i] * 1.01) grown = grown "[" $1 ": " name[i] " " $i ", was " known[$1, i] "] "
      if ($i < known[$1, i] * 0.99) ++smaller
    }
  }
  BEGIN { split("x code stack RAM instructions", name, " ") }
  END {
    printf("CLAIM firmware_gates %s: %d numbers of %d images at most 1%% over those of the table, %d more than 1%% under it%s\n",
      grown == "" ? "shown" : "NOT SHOWN", numbers, images, smaller, grown == "" ? "" : "; grown: " grown)
    exit grown != ""
  }' "$table" "$gates_measured"
