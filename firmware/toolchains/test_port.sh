#!/bin/sh
# test_port.sh [TARGET]: builds selftest.cc with the cross compiler alone, runs it under QEMU and checks it. TARGET is
# the target of a cross file in this folder: m4 (the default), m0plus, m3, m7, m33, m55, rv32imac, rv32imafc; m4-clang:
# by clang.
set -eu
target=${1:-m4}
clang=${target#"${target%-clang}"}
target=${target%-clang}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
: >"$work/text"

# setting NAME: prints a setting of the target's cross file, or else of m4.ini, which that file changes.
setting() {
  cat "firmware/toolchains/m4.ini" "firmware/toolchains/$target.ini" | sed -n "s/ *#.*//; s/^$1 = \(['[]\)/\1/p" | tail -n 1 | sed "s/', '/ /g" | tr -d "[]'"
}
tools=$(setting tools) machine=$(setting machine) cpu="$(setting gcc) $(setting core)"
compiler="${tools}g++ $cpu"
code="-std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-unwind-tables
  -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -fno-math-errno
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror -I."
link="-nostdlib -L firmware/board -T firmware/board/$(setting linker_script) -Wl,--gc-sections -lgcc"
port="startup memory_functions semihosting print stack_use"
case $target in
  rv32*)
    port="$port startup_riscv instruction_count_riscv"
    code="$code -nostdinc++$(firmware/toolchains/riscv_headers.sh | sed 's/^/ -isystem /' | tr -d '\n')" ;;
  *) port="$port startup_arm instruction_count" ;;
esac
if [ -n "$clang" ]; then
  # shellcheck disable=SC2086
  folders=$(firmware/toolchains/gcc_folders.sh $compiler | tr '\n' ' ')
  compiler="clang++-19 --target=$(setting triple) -fomit-frame-pointer $(setting clang) $(setting core)"
  code="$code $(echo "$folders" | sed 's/ -L.*//')"
  link="--ld-path=${tools}ld -Wl,-z,noexecstack $(setting clang_link) -L${folders#* -L} $link"
fi
sources=$(for name in $port; do echo "firmware/board/$name.cc"; done)

# build IMAGE SOURCE [FLAG...]: compiles and links an image; if that fails, prints the errors and returns 1
build() {
  image=$1 source=$2
  shift 2
  $compiler $code "$@" -DNACRE_MODEL="\"$work/model\"" $sources "$source" \
    firmware/images/model_image.S $link -o "$image" 2>"$work/errors" && return
  cat "$work/errors"
  return 1
}

# run [ARGUMENT...]: runs the image; puts its text in $work/text, its exit status in $status
run() {
  status=0
  firmware/toolchains/qemu_run.sh "$machine" "$work/selftest.elf" "$@" >"$work/text" 2>&1 || status=$?
}

# claim SENTENCE COMMAND...: prints the sentence as `ok` if the command succeeds, else as `FAIL`
claim() {
  sentence=$1
  shift
  if "$@" >"$work/claim" 2>&1; then
    echo "ok   $sentence"
    return
  fi
  echo "FAIL $sentence"
  sed 's/^/     /' "$work/claim" "$work/text"
  failures=$((failures + 1))
}

# The texts of two faults: an undefined instruction, and a stack that has outgrown its memory.
case $target in
  rv32*) undefined_instruction='mcause 0x00000002.* pc 0x800' below_ram='mcause 0x00000007, address 0x804f' ;;
  m33 | m55) undefined_instruction='CFSR 0x00010000.* pc 0x1000' below_ram='CFSR 0x00100000' ;;  # STKOF
  *) undefined_instruction='CFSR 0x00010000.* pc 0x0000' below_ram='address 0x1ff' ;;
esac

says() { grep -q -- "$1" "$work/text"; }
refused() { grep -q -- "$1" "$work/errors"; }
build_fails() { ! build "$@"; }
near() { [ "$1" -ge $(($2 - $3)) ] && [ "$1" -le $(($2 + $3)) ]; }

printf 'a model of no particular length' >"$work/model"
model_sum=$(od -An -v -tu1 "$work/model" | awk '{
  for (i = 1; i <= NF; ++i) sum = ((sum * 32) % 4294967296 + int(sum / 134217728) + $i) % 4294967296
} END { printf "0x%08x", sum }')

for level in -O0 -Os -O3 -O2; do
  claim "$level: builds without warnings and links with libgcc only" \
    build "$work/selftest.elf" firmware/images/selftest.cc $level
  $compiler $code $level -c firmware/board/memory_functions.cc -o "$work/memory.o"
  undefined=$(${tools}nm -u "$work/memory.o")
  claim "$level: the memory functions call nothing" test -z "$undefined"
  calls=$(${tools}objdump -r "$work/memory.o" | grep -cE ' (mem[a-z]+|strlen)$') || true
  claim "$level: nor themselves" test "$calls" = 0
  run check
  claim "$level: every check of the image holds" test $status = 0
done
claim "the model's bytes are read in place" says "model sum $model_sum"
claim "nothing is initialised before app_main" \
  test "$(${tools}size -A "$work/selftest.elf" | awk '$1 == ".data" { print $2 }')" = 0

run restart
claim "start-up clears .bss" test $status = 0
run exit 0
claim "exit status 0" test $status = 0
run exit 1
claim "exit status 1" test $status = 1
run fault
claim "a fault exits with 99" test $status = 99
claim "and names its place" says "$undefined_instruction"
run overflow
claim "a stack overflow is a fault" test $status = 99
claim "below RAM" says "$below_ram"
run flash
claim "writing to flash is a fault" test $status = 99
NACRE_QEMU_SECONDS=2 run hang
claim "an endless program ends with 124" test $status = 124

run exit 0 a,b --rate=0.5
claim "the command line arrives whole" says '^hello from selftest.elf exit 0 a,b --rate=0.5$'

head -c 40000 "$work/selftest.elf" >"$work/input"
printf '\000\001\377' >>"$work/input"
run invert "$work/input" "$work/output"
claim "a host file is read and another written" test $status = 0
claim "each byte is the complement" \
  test "$(tail -c 3 "$work/output" | od -An -tx1)" = " ff fe 00"
run invert "$work/output" "$work/again"
claim "and its complement is the first file" cmp "$work/input" "$work/again"
run invert "$work/missing" "$work/output"
claim "a file that is missing is an error" test $status = 3

# The loop has 2 instructions a turn, and about 10 around it. A tick is 40 instructions at shift 0.
for shift in 0 5 10; do
  export NACRE_ICOUNT_SHIFT=$shift
  run count $shift 100000
  cp "$work/text" "$work/first"
  counts=$(sed -n 's/^instructions //p' "$work/text")
  claim "shift $shift: two counts in one run are equal" test "$(echo "$counts" | uniq | wc -l)" = 1
  claim "shift $shift: 100000 turns are 200000 instructions" near "${counts%%[!0-9]*}" 200000 50
  run count $shift 100000
  claim "shift $shift: and the same in the next run" cmp "$work/text" "$work/first"
done
if [ "$target" = m4 ]; then
  NACRE_ICOUNT_SHIFT=0 run count 0 1
  claim "a count shorter than a tick is 0 or 40" grep -qE '^instructions (0|40)$' "$work/text"
fi
run count 10 3000000
claim "shift 10: beyond the counter's bits is said, not wrapped" says "^instructions 4294967295$"
unset NACRE_ICOUNT_SHIFT

lines=$(firmware/toolchains/qemu_run.sh "$machine" "$work/selftest.elf" flood 5000 | { sleep 1; wc -l; })
claim "no text is lost in a slow pipe" test "$lines" = 5001

claim "initialised variables are refused" \
  build_fails "$work/data.elf" firmware/images/selftest.cc -DNACRE_SELFTEST_DATA
claim "by the linker script" refused "data: initialised variables"
claim "unless the program allows them" build "$work/selftest.elf" firmware/images/selftest.cc \
  -DNACRE_SELFTEST_DATA -Wl,--defsym=nacre_allow_data=1
run check
claim "and then they are copied" test $status = 0

cat >"$work/constructor.cc" <<'END'
int app_main();
int g_status = app_main();
int app_main() { return g_status; }
END
claim "static constructors are refused" build_fails "$work/bad.elf" "$work/constructor.cc"
claim "by the linker script" refused "init_array: static constructors"
echo 'int app_main() { return *new volatile int(3); }' >"$work/heap.cc"
claim "a heap is refused" build_fails "$work/bad.elf" "$work/heap.cc"
claim "by the lack of one" refused "undefined reference to .operator new"

[ $failures = 0 ] || { echo "test_port.sh: $failures failed"; exit 1; }
echo "test_port.sh: all hold"
