#!/usr/bin/env bash
# Writes groups of tools/packages.sh as rows of C++: packages_table.sh PACKAGES.SH OUTPUT
set -euo pipefail
. "$1"
for group in xnnpack mpi firmware arm; do
  printf '{"%s", "%s"},\n' "$group" "$(packages_of "$group")"
done >"$2"
