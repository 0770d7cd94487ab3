#!/usr/bin/env bash
# Cross-builds the kernels of ports/arm, one tier per instruction set, and runs them on several processors of QEMU. On each:
#
#   the tier that is chosen        is the highest that the processor has
#   kernels_correct                every kernel of the tiers named below against the oracle, between guard pages
#   vector_functions               exp, log, ... as accurate as engine/simd/math.h says
#   networks                       int8 networks give the bytes of the reference on this machine, made for `host` and for the tier
#
# It also checks that each weak symbol of a tier's objects contains the tier's name (tests/architecture.sh).
#
#   tests/arm.sh [BUILD DIR [CASES PER KERNEL]]
#
# Needs the packages `arm` (tools/packages.sh) and the tool nacre of BUILD DIR [build/test]. Without the shared
# networks the digits sample is run.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/test} cases=${2:-8}
nacre=$build/tools/nacre
shared=${NACRE_SHARED-../shared}
work=build/arm
. tests/classes.sh
mkdir -p "$work"
passed=0 failed=0 skipped=0

# say RESULT TEXT
say() {
  if [ "$1" = ok ]; then passed=$((passed + 1)); echo "ok      $2"; else failed=$((failed + 1)); echo "FAILED  $2"; fi
}

# ---- Networks: what the reference gives on this machine ----

inputs=4
networks=()
# network NAME NACRE-CONVERT-ARGUMENTS... makes $work/NAME_*.nacre for all targets, and inputs and outputs for each
# seed.
network() {
  local name=$1 target seed input bytes
  shift
  for target in host arm/armv7 arm/neon arm/dotprod arm/i8mm; do
    "$nacre" convert "$@" --target "$target" -o "$work/${name}_${target#arm/}.nacre" >/dev/null
  done
  input=$("$nacre" inspect "$work/${name}_host.nacre" --json | sed -n '/"inputs"/,/\]/s/.*"name": "\(.*\)".*/\1/p' | head -n 1)
  for seed in $(seq "$inputs"); do
    rm -rf "$work/dump"
    "$nacre" run "$work/${name}_host.nacre" --kernels reference --seed "$seed" --all-tensors "$work/dump" --output "$work/dump/out" >/dev/null
    # npy_data skips the header of an .npy file: 10 bytes, and as many more as bytes 8 and 9 count.
    npy_data "$work"/dump/input_*.npy >"$work/${name}_$seed.in"
    npy_data "$work"/dump/out/*.npy >"$work/${name}_$seed.want"
  done
  networks+=("$name")
}
npy_data() {
  [ $# -eq 1 ] || { echo "arm.sh: one file expected: $*" >&2; return 1; }
  tail -c +$(($(od -An -tu2 -j8 -N2 "$1") + 11)) "$1"
}
if [ -d "$shared/models/mlperf_tiny" ]; then
  for name in ad01_int8 kws_ref_model pretrainedResnet_quant vww_96_int8; do
    network "$name" "$shared/models/mlperf_tiny/$name.tflite"
  done
else
  network digits tools/samples/digits.onnx --policy int8/static_from_float32 --calibrate tools/samples/digits_images.npy --cast-samples
  skipped=$((skipped + 1))
fi

# ---- Builds ----

# built MACHINE builds build/MACHINE with ports/arm/MACHINE.ini and checks its weak symbols.
built() {
  local machine=$1 status=0
  if ! { [ -f "build/$machine/build.ninja" ] || meson setup "build/$machine" --cross-file "ports/arm/$machine.ini" --buildtype=release \
      -Dtools=false -Dport_tests=true -Dwerror=true -Dcpp_link_args=-static; } >"$work/$machine.log" 2>&1 ||
      ! ninja -C "build/$machine" >>"$work/$machine.log" 2>&1; then
    grep -nE 'error|FAILED' "$work/$machine.log" | head -n 20 >&2
    say failed "build/$machine: see $work/$machine.log"
    return 1
  fi
  NACRE_BUILD=build/$machine tests/architecture.sh >"$work/$machine.symbols" || status=$?
  say "$([ $status -eq 0 ] && echo ok)" "$machine: $(tail -n 1 "$work/$machine.symbols" | sed 's/.*tables; //')"
}

# ---- Runs ----

# processor MACHINE CPU TIER... tries the tiers, the last of which must be chosen. Each processor has a folder,
# because two run side by side.
processor() {
  local machine=$1 cpu=$2 result=ok text best tier name seed equal=0 count=0 log outputs
  shift 2
  local qemu=("qemu-$([ "$machine" = armv7 ] && echo arm || echo aarch64)" -cpu "$cpu")
  local claims=build/$machine/tests/port_claims run=build/$machine/tests/port_run
  log=$work/$machine-$cpu.txt outputs=$work/$machine-$cpu
  : >"$log"
  mkdir -p "$outputs"
  best=$("${qemu[@]}" "$run")
  [ "$best" = "${*: -1}" ] || result=failed
  text="$machine, $cpu: $best is chosen"
  for tier in "$@"; do
    "${qemu[@]}" "$claims" kernels_correct "$cases" 1 "$tier" >>"$log" 2>&1 || result=failed
    text+="; $(grep "^$tier  *[0-9]" "$log" | sed 's/, *[0-9]* left.*//; s/  */ /g' || echo "$tier: no kernel ran")"
    for name in "${networks[@]}"; do
      for made in host "$tier"; do
        local files=()
        for seed in $(seq "$inputs"); do files+=("$work/${name}_$seed.in" "$outputs/$seed.bin"); done
        rm -f "$outputs"/*.bin
        "${qemu[@]}" "$run" "$tier" "$work/${name}_$made.nacre" "${files[@]}" >>"$log" 2>&1 || result=failed
        for seed in $(seq "$inputs"); do
          count=$((count + 1))
          if cmp -s "$work/${name}_$seed.want" "$outputs/$seed.bin"; then equal=$((equal + 1)); fi
        done
      done
    done
  done
  local functions='functions as accurate as stated'
  "${qemu[@]}" "$claims" vector_functions 50021 >>"$log" 2>&1 || { result=failed; functions='functions less accurate than stated'; }
  [ "$equal" -eq "$count" ] || result=failed
  [ $result = ok ] || grep -E 'FAILED|NOT SHOWN|ABOVE|code' "$log" | head -n 20 || true
  say $result "$text; $equal of $count outputs of ${#networks[@]} int8 networks are the reference's; $functions"
}

# beside MACHINE CPU TIER... runs `processor` in the background, at most `nproc` at once.
told=()
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  told+=("$work/$1-$2.told")
  processor "$@" >"${told[-1]}" 2>&1 &
}
# The longest runs begin first.
if built aarch64; then
  beside aarch64 max dotprod i8mm
  beside aarch64 cortex-a76 neon dotprod
  beside aarch64 cortex-a53 neon
  beside aarch64 neoverse-n1 dotprod
fi
if in_this_run arm/armv7 && built armv7; then
  for cpu in cortex-a7 cortex-a15 max; do beside armv7 $cpu armv7; done
fi
wait
for each in "${told[@]}"; do
  cat "$each"
  # If a processor's run ended early, it reported nothing.
  if grep -q '^ok ' "$each"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
