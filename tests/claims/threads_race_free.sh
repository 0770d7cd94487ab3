#!/usr/bin/env bash
# Claim threads_race_free: ThreadSanitizer finds nothing in the threads of ports/threads, with random steps, pools and
# callers, and with threads that are late between any two steps of the protocol. Every tile runs once
# (threads_stress.cc).
set -uo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=${CXX:-c++}
echo 'int main() {}' >"$work/empty.cc"
"$compiler" -fsanitize=thread "$work/empty.cc" -o "$work/empty" 2>/dev/null && "$work/empty" 2>/dev/null || { echo "ThreadSanitizer does not run here"; exit 77; }
flags=(-std=c++20 -O1 -g -I. -DNACRE_DELAYS tests/claims/threads_stress.cc ports/threads/threads.cc -pthread)
"$compiler" -fsanitize=thread "${flags[@]}" -o "$work/stress" || { echo "CLAIM threads_race_free NOT SHOWN: it does not compile"; exit 1; }
rounds=8
[ -z "${NACRE_LONG-}" ] || rounds=100
if said=$(TSAN_OPTIONS="halt_on_error=1 report_signal_unsafe=1" timeout 900 "$work/stress" "$rounds" 2>"$work/found"); then
  echo "CLAIM threads_race_free shown: $said"
else
  tail -n 60 "$work/found"
  echo "CLAIM threads_race_free NOT SHOWN: ${said:-the program ended with a report}"
  exit 1
fi
