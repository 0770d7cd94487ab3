#!/usr/bin/env bash
# Runs every test program of a build and counts: tests/run.sh BUILD. One line per folder, then the claims, then
#   N passed, N failed, N skipped
# A program's whole output is in BUILD/test-logs (NACRE_TEST_LOGS). NACRE_TEST_FILTER: only programs whose name contains it;
# NACRE_TEST_PROGRAMS: a list like BUILD/tests/programs.txt. NACRE_TEST_SECONDS ends a program that hangs: it is no bound on speed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
logs=${NACRE_TEST_LOGS:-$build/test-logs}
mkdir -p "$logs"
export NACRE_ROOT=$root NACRE_BUILD=$build NACRE_TOOL=$build/tools/nacre NACRE_LIBRARY=$build/engine/libnacre.a
export NACRE_SHARED=${NACRE_SHARED-$root/../shared}
. "$root/tests/classes.sh"

declare -A passed failed skipped seconds
folders=() claims=() bad=()

# count FOLDER LOG STATUS: a GoogleTest program counts its tests, any other program counts as one.
count() {
  local p f s
  if grep -q '^\[==========\] .* ran\.' "$2"; then
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$2" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*, listed below:/\1/p' "$2" | tail -n 1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*, listed below:/\1/p' "$2" | tail -n 1)
    p=${p:-0} f=${f:-0} s=${s:-0}
    [ "$3" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  else
    p=0 f=0 s=0
    case $3 in 0) p=1 ;; 77) s=1 ;; *) f=1 ;; esac
  fi
  passed[$1]=$((${passed[$1]:-0} + p))
  failed[$1]=$((${failed[$1]:-0} + f))
  skipped[$1]=$((${skipped[$1]:-0} + s))
  [ "$f" -eq 0 ] || bad+=("$2")
}

# run_one FOLDER NAME COMMAND...: leaves the output in the program's log, and "STATUS SECONDS" in a file beside it.
run_one() {
  local log=$logs/$1-$2.log begun=$SECONDS status
  shift 2
  timeout -k 10 "${NACRE_TEST_SECONDS:-3600}" "$@" >"$log" 2>&1 </dev/null
  status=$?
  echo "$status $((SECONDS - begun))" >"${log%.log}.status"
}

# As many programs at a time as there are processors; those of the folder `measured` alone.
jobs=$(nproc) running=0
rm -f "$logs"/*.status
chosen=()
while read -r folder name command; do
  [[ -z ${NACRE_TEST_FILTER-} || $folder/$name == *$NACRE_TEST_FILTER* ]] || continue
  [ -n "${NACRE_SANITIZED-}" ] || in_this_run "$folder/$name" || continue
  chosen+=("$folder $name")
  [[ " ${folders[*]-} " == *" $folder "* ]] || folders+=("$folder")
  [ ! -t 2 ] || printf '\r\033[K%s/%s' "$folder" "$name" >&2
  if [ "$folder" = measured ]; then wait; running=0; fi
  if [ "$running" -ge "$jobs" ]; then wait -n || true; running=$((running - 1)); fi
  run_one "$folder" "$name" $command &  # words: a program and its arguments; no path of a build holds a blank
  running=$((running + 1))
done <"${NACRE_TEST_PROGRAMS:-$build/tests/programs.txt}"
wait

for each in "${chosen[@]-}"; do
  [ -n "$each" ] || continue
  read -r folder name <<<"$each"
  log=$logs/$folder-$name.log
  read -r status taken <"${log%.log}.status"
  seconds[$folder]=$((${seconds[$folder]:-0} + taken))
  count "$folder" "$log" "$status"
  while IFS= read -r line; do claims+=("$line"); done < <(grep '^CLAIM ' "$log")
done
[ ! -t 2 ] || printf '\r\033[K' >&2

# The programs that took longest, so that a class can be chosen for each.
for each in "${chosen[@]-}"; do
  [ -z "$each" ] || echo "$(cut -d ' ' -f 2 "$logs/${each/ /-}.status") ${each/ //}"
done | sort -rn >"$build/seconds.txt"

total_passed=0 total_failed=0 total_skipped=0
printf '%-12s %8s %8s %8s %8s\n' folder passed failed skipped seconds
for folder in "${folders[@]}"; do
  printf '%-12s %8d %8d %8d %8d\n' "$folder" "${passed[$folder]}" "${failed[$folder]}" "${skipped[$folder]}" "${seconds[$folder]}"
  total_passed=$((total_passed + passed[$folder]))
  total_failed=$((total_failed + failed[$folder]))
  total_skipped=$((total_skipped + skipped[$folder]))
done
for log in "${bad[@]-}"; do
  [ -n "$log" ] || continue
  printf '\n== %s\n' "${log#"$root"/}"
  grep -nE 'FAILED|Failure|ERROR|error|NOT SHOWN' "$log" | head -n 20
  tail -n 15 "$log"
done
printf '\n'
[ "${#claims[@]}" -eq 0 ] || printf '%s\n' "${claims[@]}"
printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
[ "$total_failed" -eq 0 ]
