#!/bin/sh
# gcc_folders.sh COMPILER [FLAG...]: what clang borrows of the g++ of the same target, with these flags: `-isystem` folders
# of the headers of C and C++ but for the compiler's own, and `-L` folders of its libraries, one a line.
set -eu
"$@" -E -x c++ -v /dev/null 2>&1 | sed -n '/search starts here/,/End of search/s/^ \(\/.*\)$/-isystem\1/p' |
  grep -v -e '/backward$' -e '/gcc/[^/]*/[0-9.]*/include\(-fixed\)\{0,1\}$'
"$@" '-###' -x c++ /dev/null 2>&1 | tr -d '"' | tr ' ' '\n' | grep '^-L'
