#!/bin/sh
# qemu_run.sh MACHINE IMAGE [ARGUMENT...]: runs a firmware image; the exit status is the program's.
#
# MACHINE is a board that qemu-system-arm knows, or rv32imac (a RISC-V without F and D) or rv32imafc (without D).
# Text goes to stdout; without the chardev QEMU would write semihosting text to stderr. Arguments may not
# contain blanks, because semihosting joins them with blanks. A comma is doubled, because it separates QEMU's
# options. The script reads from the environment:
#   NACRE_QEMU_SECONDS   limit, after which the status is 124; default 60
#   NACRE_ICOUNT_SHIFT   see instruction_count.h; default 0
set -eu
machine=$1
image=$2
shift 2

console=enable=on,target=native,chardev=console
for word in "${image##*/}" "$@"; do
  console=$console,arg=$(printf %s "$word" | sed 's/,/,,/g')
done

case $machine in
  rv32*f*) board='qemu-system-riscv32 -M virt -bios none -cpu rv32,d=false' ;;
  rv32*) board='qemu-system-riscv32 -M virt -bios none -cpu rv32,f=false,d=false' ;;
  *) board="qemu-system-arm -M $machine" ;;
esac

# shellcheck disable=SC2086
exec timeout -k 5 "${NACRE_QEMU_SECONDS:-60}" \
  $board -display none -monitor none -serial none \
  -icount shift="${NACRE_ICOUNT_SHIFT:-0}" -chardev stdio,id=console,mux=off,signal=off \
  -semihosting-config "$console" -kernel "$image" </dev/null
