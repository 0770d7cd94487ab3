#!/usr/bin/env bash
# Checks the order in which folders may include each other, and what a source file may hold. The main rules:
#
#   includes    point one way, in engine, tools and tests; engine/ includes only the part of the standard library that needs no heap
#   engine/     nothing in it allocates, throws or looks at types at run time
#   options     only tools/cli, tools/commands and tools/samples spell an option of the command line (--name) in a string
#   lines       none is over 120 columns (.clang-format has the same limit)
#   comments    none begins with Of, What, Where, Those or Behind, which begin no sentence
#   files       none is over 420 lines, but for tables (`tables` below)
#   folders     none of the product holds over 45 sources, but engine/ops, which has a file for each op
#   macros      engine/kernels and ports define at most 60
#   ops         outside engine/ops only the files listed below have `case Op::k...`
#   types       no name is defined by two headers in one namespace: the language has one definition of it in a program
#   classes     none declares over 30 methods but those that tests/class_methods.py lists with a reason
#   objects     of a build, where NACRE_BUILD names one: what is compiled with an instruction set of its own defines no
#               weak symbol that another object may define too (engine/base/isa.h)
set -euo pipefail
cd "$(dirname "$0")/.."
failures=0
columns=120 rows=420 sources_of_folder=45 macros=60

fail() { printf '%s\n' "$1"; failures=$((failures + 1)); }

# forbid FOLDERS PATTERN WHY: no line of these folders' sources matches the pattern.
forbid() {
  local hits
  hits=$(grep -rnE --include='*.h' --include='*.cc' "$2" $1 2>/dev/null || true)
  [ -z "$hits" ] || fail "$3:
$hits"
}

# ---- Engine and ports: base <- numeric <- ops <- kernels <- ports; model <- run <- train ----

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
forbid 'engine/run' '#include "engine/train/' 'run does not see train'
forbid 'ports' '#include "engine/train/' 'ports never see train'
forbid 'ports firmware' '#include "(tools|tests|bench|python)/' 'ports and firmware see no tool or test'
forbid 'engine' '\b(malloc|calloc|realloc|free)\(|\bnew [A-Za-z_(]|\bdelete\b [a-z]|\bthrow\b|\bcatch ?\(|dynamic_cast|typeid' 'engine/ has no heap, exceptions or RTTI'
hits=$(grep -rlE --include='*.h' --include='*.cc' 'model_generated\.h|flatbuffer\.h"' engine tools |
  grep -vE '^engine/(model/|train/state_table\.cc)|^tools/(model|importers)/' || true)
[ -z "$hits" ] || fail "generated accessors are read by engine/model, the state table, tools/model and the importers alone:
$hits"

forbid 'engine tools ports include firmware tests bench' '^ *// ?(Of|What|Where|Those|Behind) ' 'a comment begins with its subject'

hits=$(git ls-files -- '*.h' | xargs grep -LE '^#(pragma once|ifndef)' || true)
[ -z "$hits" ] || fail "headers that are included once have #pragma once:
$hits"
hits=$(git ls-files -- 'tests/*/*_test.cc' | while read -r file; do
  name=$(basename "$file" _test.cc)
  [ ! -f "$(dirname "$file")/meson.build" ] || grep -q "'$name'" "$(dirname "$file")/meson.build" || echo "$file"
done)
[ -z "$hits" ] || fail "tests that no build compiles, since their folder's meson.build does not name them:
$hits"

# ---- Tools and tests: a folder sees itself and those before it in its list ----

tools=(base files graph model importers policies passes calibration differentiate compile evaluate report tuner commands cli)
tests=(fake model numeric ops run train files graph importers policies passes calibration differentiate compile evaluate report tuner
  commands claims onnx fuzz)

# in_order ROOT FOLDER... checks that files of ROOT/FOLDER include only files of the folders before it.
in_order() {
  local root=$1 seen= folder hits
  shift
  for folder in "$@"; do
    seen+="${seen:+|}$folder"
    [ -d "$root/$folder" ] || continue
    hits=$(grep -rnoE --include='*.h' --include='*.cc' "#include \"$root/[a-z0-9_]+/[^\"]*\"" "$root/$folder" |
      grep -vE "\"$root/($seen)/" || true)
    [ -z "$hits" ] || fail "$root/$folder sees only $root/{${seen//|/,}}:
$hits"
  done
  # Every folder must be in a list, or the rule would not cover it.
  for folder in "$root"/*/; do
    folder=$(basename "$folder")
    ls "$root/$folder"/*.cc >/dev/null 2>&1 || continue
    [[ " $* samples pch peers " == *" $folder "* ]] || fail "$root/$folder: no place in the order of folders (tests/architecture.sh)"
  done
}
in_order tools "${tools[@]}"
in_order tests "${tests[@]}"
forbid tools '#include "(tests|bench|python)/' 'tools/ sees no test and no Python'
forbid python '#include "(tests|bench|ports)/' 'python/ sees the engine and the tools'
forbid "python $(ls -d tools/*/ | grep -v '/cli/')" '#include <CLI/' 'CLI11 is seen by tools/cli alone'
hits=$(grep -rnE '#include "ports/' tools --include='*.h' --include='*.cc' | grep -vE '"ports/((cortex_m/(cortex_m|entry_functions)|vector/tiers|threads/threads|files/checkpoint_files|xnnpack/xnnpack_port|cuda/cuda_port|mpi/(exchange|device_exchange))\.h|cortex_m/kernels\.inc)"' || true)
[ -z "$hits" ] || fail "tools/ sees one header of a port, what it offers, and what static programs name of Cortex-M's:
$hits"
forbid "$(ls -d tools/*/ | grep -v '/base/')" 'nlohmann' 'JSON is read and written through tools/base/json.h'
forbid "$(ls -d tools/*/ | grep -vE '/(cli|commands|samples)/')" '^[^/]*"([^"\\]|\\.)*--[a-z][a-z]' 'below tools/commands an option is its id: option("id") of tools/base/option_id.h'
hits=$(grep -nE '^ *namespace ' -r tests --exclude-dir=fake --include='*.h' --include='*.cc' | grep -E 'namespace nacre::[a-z]+' | grep -vE 'namespace (nacre::test|nacre::tools|nacre::inline NACRE_ISA)\b' || true)
[ -z "$hits" ] || fail "tests are in the one namespace nacre::test, but for the devices of tests/fake:
$hits"

# ---- Lines and files ----

sources() { git ls-files '*.h' '*.cc' '*.c' '*.inc' 2>/dev/null || find engine firmware python tools tests bench ports -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.inc'; }
hits=$(sources | xargs awk -v most=$columns '{n = length($0)} n > most {print FILENAME ":" FNR ": " n " columns"}')
[ -z "$hits" ] || fail "lines over $columns columns:
$hits"
# Exempts tables, which have a row for each kernel, case or fact and are not read from top to bottom.
tables='\.inc$|^tests/model/facts_'
hits=$(sources | grep -vE "$tables" | xargs wc -l | awk -v most=$rows '$2 != "total" && $1 > most {print $2 ": " $1 " lines"}')
[ -z "$hits" ] || fail "files over $rows lines that are no tables:
$hits"

# ---- Folders, macros and lists of ops ----

hits=$( (git ls-files engine firmware ports tools python schema bench 2>/dev/null || find engine firmware ports tools python schema bench -type f) | grep -E '\.(h|cc|c|inc|py|sh|S|in|build)$' | xargs -r -n1 dirname | sort | uniq -c |
  awk -v most=$sources_of_folder '$1 > most && $2 != "engine/ops" {print $2 ": " $1 " files"}')
[ -z "$hits" ] || fail "folders of more than $sources_of_folder sources:
$hits"
defined=$(grep -rhE --include='*.h' --include='*.cc' --include='*.inc' '^ *# *define ' engine/kernels ports | wc -l)
[ "$defined" -le $macros ] || fail "engine/kernels and ports define $defined macros, over $macros: a list of kernels is a template (engine/kernels/fast/lines.h)"
# An op's facts belong in its row of tools/graph/op_facts.cc, or in engine/ops. These files compute with several ops
# at once.
several='^(ports/cuda/product_plan|tools/calibration/softmax_masks|tools/passes/fuse|tools/passes/memory/views|tools/passes/simplify/axes|tools/tuner/objective)\.'
hits=$(grep -rlE --include='*.h' --include='*.cc' 'case Op::k' engine firmware ports tools python | grep -v '^engine/ops/' | grep -vE "$several" || true)
[ -z "$hits" ] || fail "cases of ops outside engine/ops and tools/graph/op_facts.cc:
$hits"

# ---- Types and classes ----

# An instruction set of Cortex-M includes one of the two columns_*.h.
hits=$( (git ls-files 2>/dev/null || find engine firmware ports tools -type f) | grep -E '^(engine|firmware|ports|tools)/.*\.h$' | grep -v '^ports/cortex_m/columns_' | xargs awk '
  FNR == 1 { space = "" }
  /^namespace [^=]*\{$/ { space = $0 }
  /^(template <.*> )?(struct|class|enum class) (\[\[[^]]*\]\] )?[A-Za-z_0-9]+( final)?( :.*)? *\{/ {
    line = $0; sub(/^template <.*> /, "", line); sub(/^enum /, "", line); sub(/\[\[[^]]*\]\] /, "", line); split(line, words, /[ :{]+/)
    name = space words[2]
    if (name in file && file[name] != FILENAME) print words[2] ": " file[name] ", " FILENAME
    file[name] = FILENAME
  }')
[ -z "$hits" ] || fail "types that two headers define in one namespace:
$hits"

classes=$(python3 tests/class_methods.py) || fail "$classes"

# ---- Objects ----

# weak_symbols OBJECT ISA lists symbols that may be merged with another object's and whose names do not contain the
# instruction set.
weak_symbols() { nm --defined-only "$1" | awk -v isa="$2" '$2 ~ /^[WwVvu]$/ && index($3, isa) == 0 {print $3}' | c++filt; }

objects=0
for object in "${NACRE_BUILD:-/nowhere}"/tests/libisa_port.a.p/*.o "${NACRE_BUILD:-/nowhere}"/ports/vector/libnacre_*.a.p/family.cc.o; do
  [ -e "$object" ] || continue
  objects=$((objects + 1))
  isa=$(basename "$(dirname "$object")" .a.p)
  isa=${isa#libnacre_}
  isa=${isa%.*}  # libnacre_<instruction set>.<group of kernels>.a
  [ "$isa" != libisa_port ] || isa=isa_test
  [ "$(nm --defined-only "$object" | grep -c "$isa")" -gt 10 ] || fail "$object: the namespace $isa is not in it"
  hits=$(weak_symbols "$object" "$isa")
  [ -z "$hits" ] || fail "$object: weak symbols without the name of its instruction set:
$hits"
done

counted=$(sources | wc -l)
if [ "$failures" -gt 0 ]; then
  echo "CLAIM architecture NOT SHOWN: $failures rules are broken"
  exit 1
fi
facts="$counted files, includes point one way in engine, tools and tests, 0 lines over $columns columns, 0 files over $rows lines but tables, 0 folders over $sources_of_folder sources, $defined macros in kernels and ports, $classes"
if [ "$objects" -eq 0 ]; then
  echo "CLAIM architecture partly shown: $facts; no build whose objects could be looked at (NACRE_BUILD)"
  exit 77
fi
echo "CLAIM architecture shown: $facts; 0 weak symbols of other names in $objects objects with an instruction set of their own"
