#!/bin/sh
# riscv_headers.sh: prints the folders of a C++ library's headers for a RISC-V compiler that has none, one a line.
#
# Debian's gcc-riscv64-unknown-elf has no libstdc++. The engine uses only its templates and links
# nothing of it. The headers of libstdc++ for Arm, without an FPU and for 32 bits, serve here unchanged. C's headers are
# picolibc's.
set -eu
arm-none-eabi-g++ -mcpu=cortex-m3 -mthumb -E -x c++ -v /dev/null 2>&1 |
  sed -n '/search starts here/,/End of search/s/^ \(.*c++\/.*\)$/\1/p' | grep -v '/backward$'
