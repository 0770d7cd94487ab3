#!/usr/bin/env bash
# Checks the tiers (fast kernels of one instruction set) that a build leaves out: every file of theirs goes through the
# compiler's front end, which has all types, template instances and warnings, in a tenth of the time of a compilation.
#
#   tests/other_tiers.sh BUILD        a build with -Dx86_tiers=runnable
#
# `tools/test.sh --long` compiles, links and disassembles all of them; machines that have them run them.
# Closes with  N passed, N failed, 0 skipped: a tier each.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 work=build/other_tiers
mkdir -p "$work"
# Configures a build with all tiers, and builds only its generated header.
{ [ -f "$work/all/build.ninja" ] || meson setup "$work/all" --buildtype=release -Dtools=false -Dwerror=true -Dx86_tiers=all
  ninja -C "$work/all" schema/model_generated.h; } >"$work/setup.log" 2>&1 || { tail -n 20 "$work/setup.log"; exit 1; }

passed=0 failed=0
# A tier has a library for each family of kernels: libnacre_<tier>.<family>.a.
libraries=$(ninja -C "$work/all" -t targets all | sed -n 's/^\(ports\/vector\/libnacre_[a-z0-9_]*\.[a-z0-9_]*\.a\): .*/\1/p')
for tier in $(sed 's/.*libnacre_\([a-z0-9_]*\)\..*/\1/' <<<"$libraries" | sort -u); do
  of_tier=$(grep "libnacre_$tier\." <<<"$libraries")
  if [ -e "$build/$(head -n 1 <<<"$of_tier")" ]; then
    echo "        $tier: compiled in $build"
    continue
  fi
  # shellcheck disable=SC2086
  ninja -C "$work/all" -t commands $of_tier | grep "/libnacre_$tier\.[a-z0-9_]*\.a\.p/.* -c " |
    sed 's/^ccache //; s/ -MD .* -c / -fsyntax-only /' >"$work/$tier.commands"
  [ -s "$work/$tier.commands" ] || { echo "FAILED  $tier: no file of it is found"; failed=$((failed + 1)); continue; }
  if (cd "$work/all" && xargs -P "$(nproc)" -d '\n' -n 1 sh -c <"../$tier.commands") >"$work/$tier.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $tier: $(wc -l <"$work/$tier.commands") files"
  else
    failed=$((failed + 1))
    echo "FAILED  $tier: see $work/$tier.log"
    grep -nE 'error' "$work/$tier.log" | head -n 10
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
