#!/usr/bin/env bash
# Claim patched_image: VWW, converted with `--patches auto`, runs as a static program on a Cortex-M4F with the kernels
# of ports/cortex_m:
#
#   outputs        equal TensorFlow Lite's for its golden inputs, and the PC's for 5 random inputs, to the bit
#   memory         arena and scratch of the image are what `nacre size` says; the arena is smaller than layer by layer
#   instructions   printed beside those of the same network layer by layer
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, the shared networks and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
shared=${NACRE_SHARED-../shared}
[ -d "$shared/models/mlperf_tiny" ] || { echo "no shared networks: patched_image is left out"; exit 77; }
work=$PWD/build/patched_image
elf=build/m4_patched/firmware/static_files.elf
verdict=shown failures=
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
. tests/claims/firmware_gates.sh
mkdir -p "$work"

fail() { verdict='NOT SHOWN'; failures+="[$1] "; }
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }
symbol_bytes() { arm-none-eabi-nm -CS -t d "$elf" | awk -v name="$1" '$NF ~ name {s += $2} END {print s + 0}'; }
said() { printf '%s' "$size" | sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p' | head -n 1; }

# image NAME OPTION..: converts, builds and runs; sets arena, scratch, instructions and stack.
image() {
  local name=$1 arguments=() input
  "$nacre" convert "$shared/models/mlperf_tiny/vww_96_int8.tflite" -o "$work/$name.nacre" --target arm/m4 "${@:2}" >"$work/convert.txt"
  rm -rf "$work/source"
  "$nacre" firmware "$work/$name.nacre" --target arm/m4 -o "$work/source" --golden 5 >"$work/firmware.txt"
  [ -f build/m4_patched/build.ninja ] ||
    meson setup build/m4_patched --cross-file firmware/toolchains/m4.ini --buildtype=minsize -Dtools=false -Dfirmware=true -Dwerror=true \
      -Dsentences=false -Dfirmware_static="$work/source" >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; return 1; }
  ninja -C build/m4_patched firmware/static_files.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; return 1; }
  pairs=0
  for input in "$shared"/golden/tflite/vww_96_int8.s*.in0.bin; do
    arguments+=("$input" "$work/out$pairs.bin")
    pairs=$((pairs + 1))
  done
  firmware/toolchains/qemu_run.sh mps2-an386 "$elf" "${arguments[@]}" >"$work/run.txt" || fail "$name: $(tail -n 1 "$work/run.txt")"
  for ((i = 0; i < pairs; i++)); do
    cmp -s "${arguments[2 * i]/.in0./.out0.}" "$work/out$i.bin" || fail "$name: another output than TensorFlow Lite's"
  done
  size=$("$nacre" size "$work/$name.nacre" --target arm/m4 --json)
  arena=$(symbol_bytes '::arena$') scratch=$(symbol_bytes '::scratch$') instructions=$(number instructions_run) stack=$(number stack)
  [ "$arena" = "$(said bytes)" ] && [ "$scratch" = "$(said scratch)" ] || fail "$name: size says another arena or scratch"
  [ "$(number failed)" = 0 ] || fail "$name: $(number failed) of the PC's outputs"
}

image layers
layers_arena=$arena layers_instructions=$instructions
image patches --patches auto
[ "$arena" -lt "$layers_arena" ] || fail "patches take no less memory"
gate arm/m4:static_patches:vww_96_int8 - "$stack" $((arena + scratch)) "$instructions"

echo "CLAIM patched_image $verdict: VWW on a Cortex-M4F with --patches auto, $pairs outputs equal to TensorFlow Lite's and 5 to the PC's to the bit: \
arena $arena, layer by layer $layers_arena, scratch $scratch, as nacre size says; $instructions instructions, layer by layer $layers_instructions; \
stack $stack${failures:+; failed: $failures}"
[ "$verdict" = shown ]
