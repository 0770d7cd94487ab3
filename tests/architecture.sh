#!/usr/bin/env bash
# Includes point one way (base <- numeric <- ops <- kernels/simd <- ports; schema <- model <- run <- train), engine/ includes only
# the part of the standard library that needs no heap, and nothing in it allocates, throws or looks at types at run time.
set -euo pipefail
cd "$(dirname "$0")/.."
failures=0

fail() { printf '%s\n' "$1"; failures=$((failures + 1)); }

# forbid FOLDERS PATTERN WHY: no line of these folders' sources matches the pattern.
forbid() {
  local hits
  hits=$(grep -rnE --include='*.h' --include='*.cc' "$2" $1 2>/dev/null || true)
  [ -z "$hits" ] || fail "$3:
$hits"
}

forbid engine '#include "(ports|tools|tests|bench)/' 'engine/ sees no port, tool or test'
allowed='cstdint|cstddef|cstring|cmath|limits|span|array|bit|concepts|algorithm|type_traits|utility'
hits=$(grep -rnE --include='*.h' --include='*.cc' '#include <' engine | grep -vE "#include <($allowed)>" | grep -v 'engine/nacre_c.h' || true)
[ -z "$hits" ] || fail "engine/ includes of the standard library are limited to $allowed:
$hits"
forbid 'engine/base' '#include "engine/(numeric|ops|kernels|model|run|train)/' 'base sees only base'
forbid 'engine/numeric' '#include "engine/(ops|kernels|model|run|train)/' 'numeric sees base'
forbid 'engine/ops' '#include "engine/(kernels|model|run|train)/' 'ops see base and numeric'
forbid 'engine/kernels' '#include "engine/(model|run|train)/' 'kernels see base, numeric and ops'
forbid 'engine/model' '#include "engine/(run|train)/' 'model does not see run'
forbid 'ports' '#include "engine/train/' 'ports never see train'
forbid 'engine' '\b(malloc|calloc|realloc|free)\(|\bnew [A-Za-z_(]|\bdelete\b [a-z]|\bthrow\b|\bcatch ?\(|dynamic_cast|typeid' 'engine/ has no heap, exceptions or RTTI'
hits=$(grep -rlE --include='*.h' --include='*.cc' 'model_generated\.h|flatbuffer\.h"' engine tools | grep -vE '^engine/(model/|train/state_table\.cc)|^tools/writer\.cc|^tools/importers/' || true)
[ -z "$hits" ] || printf 'note: generated accessors are also read by: %s\n' "$(echo $hits)"

[ "$failures" -eq 0 ] && echo 'architecture: includes point one way'
exit "$((failures > 0))"
