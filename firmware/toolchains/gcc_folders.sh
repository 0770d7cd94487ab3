#!/bin/sh
# gcc_folders.sh COMPILER [FLAG...]: prints what clang uses of the same target's g++ with these flags, one a line:
# `-isystem` folders of the C and C++ headers, except the compiler's own, and `-L` folders of its libraries.
set -eu
"$@" -E -x c++ -v /dev/null 2>&1 | sed -n '/search starts here/,/End of search/s/^ \(\/.*\)$/-isystem\1/p' |
  grep -v -e '/backward$' -e '/gcc/[^/]*/[0-9.]*/include\(-fixed\)\{0,1\}$'
"$@" '-###' -x c++ /dev/null 2>&1 | tr -d '"' | tr ' ' '\n' | grep '^-L'
