#!/usr/bin/env bash
# Claim firmware_power_cuts: a Cortex-M4F image that trains, and writes a checkpoint to its flash after every step,
# survives power cuts. It is cut off at 100 places, drawn at random from the programs and erases of the next two
# checkpoints; the call at that place is half done. Then it starts again with that flash. Each time it goes on from the
# checkpoint of its last start, or one of the next two, never from an older one. If it reaches the end, its state equals that of
# an uncut run to the byte, and it begins anew.
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$PWD/${NACRE_TOOL:-build/test/tools/nacre}
[ -z "${NACRE_TOOL-}" ] || tool=$NACRE_TOOL
tests=$(dirname "$tool")/../tests
work=$PWD/build/firmware_power_cuts
elf=build/m4_power_cuts/firmware/finetune.elf
cuts=100 flash_bytes=65536 epochs=16
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
rm -rf "$work"
mkdir -p "$work"
fail() { echo "CLAIM firmware_power_cuts NOT SHOWN: $*"; exit 1; }

# The last layer with parameters learns inverted digits, the same eight images again and again.
samples=tools/samples
"$(dirname "$tool")/shift_digits" $samples/digits_images.npy $samples/digits_labels.npy $samples/digits_test.npy inverted "$work"
"$tool" convert $samples/digits.onnx -o "$work/model.nacre" --strip-names --train softmax_cross_entropy --train-last 1 --batch 8 >/dev/null
"$tests/finetune_data" "$work" 8 8 1 "$work/data" "$work/test"
: >"$work/nothing"  # no test data, because only the state is compared
"$tool" kernels "$work/model.nacre" -o "$work/kernels.h" >/dev/null
options=(-Dfirmware_model="$work/model.nacre" -Dfirmware_kernels="$work/kernels.h")
if [ -f build/m4_power_cuts/build.ninja ]; then meson configure build/m4_power_cuts "${options[@]}"
else
  meson setup build/m4_power_cuts --cross-file firmware/toolchains/m4.ini --buildtype=minsize -Dtools=false -Dfirmware=true -Dwerror=true \
    -Dsentences=false -Dfirmware_libm=true -Dfirmware_train=true -Dfirmware_memory=131072 "${options[@]}"
fi >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; exit 1; }
ninja -C build/m4_power_cuts firmware/finetune.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; exit 1; }

new_flash() { head -c $flash_bytes /dev/zero | tr '\0' '\377' >"$work/flash"; }
# trains STATE [VARIABLE=VALUE]: trains with a variable of tests/power_cut.c, which counts QEMU's writes to the flash.
trains() {
  local state=$1
  shift
  LD_PRELOAD=$tests/libpower_cut.so POWER_CUT_FILES=$work/flash env "$@" firmware/toolchains/qemu_run.sh mps2-an386 "$elf" \
    "$work/data" "$work/nothing" "$work/flash" 2000 $epochs 1 1 "$state" >"$work/run.txt" 2>&1
}
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }

new_flash
trains "$work/state" POWER_CUT_COUNT="$work/calls" || { tail -n 5 "$work/run.txt"; fail "the run that nobody cuts"; }
per_save=$(($(cat "$work/calls") / epochs))
[ "$per_save" -gt 4 ] || fail "$per_save writes of a checkpoint"

RANDOM=7
done=0 runs=0 ends=0 inside=0 place=0
new_flash
while [ "$done" -lt "$cuts" ]; do
  status=0
  { trains "$work/state_cut" POWER_CUT_AT=$((RANDOM % (2 * per_save) + 1)) || status=$?; } 2>/dev/null  # bash says who was killed
  runs=$((runs + 1))
  at=$(number resumed_at)
  [ -n "$at" ] || fail "cut $done: $(tail -n 1 "$work/run.txt")"
  [ "$at" -ge "$place" ] && [ "$at" -le $((place + 2)) ] || fail "after checkpoint $place a machine went on from $at"
  [ "$at" -eq "$place" ] || inside=$((inside + 1))
  case $status in
    137) done=$((done + 1)) place=$at ;;
    0)
      cmp -s "$work/state" "$work/state_cut" || fail "the state of a machine cut $done times is another"
      ends=$((ends + 1)) place=0
      new_flash ;;
    *) tail -n 3 "$work/run.txt"; fail "a machine ended with $status" ;;
  esac
done
# The training that the last cut left must reach its end too.
trains "$work/state_cut" POWER_CUT_COUNT="$work/calls" || fail "the last run"
cmp -s "$work/state" "$work/state_cut" || fail "the last state is another"
[ "$inside" -gt $((cuts / 4)) ] && [ "$ends" -gt 0 ] || fail "$inside of $runs starts found a newer checkpoint, $ends machines came to the end"
echo "CLAIM firmware_power_cuts shown: $done cuts in $runs starts of a Cortex-M4F image under QEMU, at programs and erases of checkpoints of \
$per_save writes each; nothing whole was lost ($inside starts found a newer checkpoint than the one before), $((ends + 1)) states equal to the byte to one that nobody cut"
