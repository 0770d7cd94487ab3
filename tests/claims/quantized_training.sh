#!/usr/bin/env bash
# Claim quantized_training: a network learns on a Cortex-M3 without a float instruction (policy int8/full), in QEMU.
#
#   digits       the last layer of the digits sample, and all six, learn inverted digits in the image: the state in the end is the PC's
#                to the bit
#   KWS          the keyword network learns so too, and its RAM, with everything that the image has besides its stack, is at most 32 KiB
#   static       the same last layers as static programs (nacre firmware --train): the same state to the bit, in less flash
#                NACRE_LONG=1: those of KWS compiled by clang, too
#   no float     the images have no soft-float symbol (__aeabi_f*, __aeabi_d*, conversions) and no 64-bit division
#   beside       the same layer trained in float32 by the same image: bytes, instructions per sample
#   a share      the last layer of digits with --train-share dynamic=0.1: of the codes of ten channels a step writes one channel's; the
#                image's state is the PC's, and ten seeds reach what they reach without, less one point
#   accuracy     ten seeds on the PC, the last layer and all: within one point of float32 fine-tuning of the same layers (batch norms
#                as they are) with the same rate and steps
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=$PWD/${NACRE_TOOL:-build/test/tools/nacre}
[ -z "${NACRE_TOOL-}" ] || tool=$NACRE_TOOL
tests=$(dirname "$tool")/../tests
shared=${NACRE_SHARED-../shared}
work=$PWD/build/quantized_training
build=build/m3_quantized_training
elf=$build/firmware/finetune.elf
seeds=${NACRE_SEEDS:-10}
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-900}  # ends what hangs: no bound on speed
rm -rf "$work"
mkdir -p "$work/inverted" "$work/usual"
fail() { echo "CLAIM quantized_training NOT SHOWN: $*"; exit 1; }

samples=tools/samples
for domain in none inverted; do
  folder=$work/inverted
  [ $domain = inverted ] || folder=$work/usual
  "$(dirname "$tool")/shift_digits" $samples/digits_images.npy $samples/digits_labels.npy $samples/digits_test.npy $domain "$folder"
done
full_policy=(--policy int8/full_from_float32 --calibrate "$work/usual/train_images.npy" --cast-samples)
board=(--target arm/m3 --strip-names)  # for what the image trains
digits=("$samples/digits.onnx" --train softmax_cross_entropy --optimizer sgd --batch 8)

# image MODEL MEMORY: builds `elf` for this model.
image() {
  local header=$work/$(basename "$1" .nacre)_kernels.h
  "$tool" kernels "$1" -o "$header" >/dev/null
  local options=(-Dfirmware_model="$1" -Dfirmware_kernels="$header" -Dfirmware_memory="$2")
  if [ -f $build/build.ninja ]; then meson configure $build "${options[@]}"
  else
    meson setup $build --cross-file firmware/toolchains/m4.ini --cross-file firmware/toolchains/m3.ini --buildtype=minsize -Dtools=false -Dfirmware=true \
      -Dwerror=true -Dsentences=false -Dfirmware_libm=true -Dfirmware_train=true "${options[@]}"
  fi >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; exit 1; }
  ninja -C $build firmware/finetune.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; exit 1; }
}
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$2" | tail -n 1; }
floats() { arm-none-eabi-nm "$elf" | grep -cE '__aeabi_(f|d|[iu]l?2[fd]|.*divmod)|__[a-z]*[sd]f[0-9]?$|expf|logf|sqrtf' || true; }
code_bytes() { arm-none-eabi-size -A "$elf" | awk '$1 ~ /^\.(vectors|text|rodata|init_array|ARM\.exidx|data)$/ {s += $2} END {print s + 0}'; }

# trains NAME MEMORY RATE EPOCHS MICRO_BATCHES: trains NAME.nacre with NAME.data and NAME.test, in the image and on
# the PC.
trains() {
  local name=$1
  image "$work/$name.nacre" "$2"
  head -c 262144 /dev/zero | tr '\0' '\377' >"$work/flash"
  firmware/toolchains/qemu_run.sh mps2-an385 "$elf" "$work/$name.data" "$work/$name.test" "$work/flash" "$3" "$4" "$5" 1000000 "$work/$name.state" \
    >"$work/$name.txt" || { tail -n 5 "$work/$name.txt"; fail "$name: the image"; }
  "$tests/finetune_host" "$work/$name.nacre" "$work/$name.data" "$work/$name.test" "$3" "$4" "$5" "$work/$name.state_host" >"$work/$name.host"
}
# in_integers NAME: checks that the training used no float, and ended with the PC's state.
in_integers() {
  cmp "$work/$1.state" "$work/$1.state_host" || fail "$1: the PC has another state"
  [ "$(floats)" -eq 0 ] || { arm-none-eabi-nm "$elf" | grep -E '__aeabi_'; fail "$1: the image has float symbols"; }
  [ "$(number refused_steps "$work/$1.txt")" -eq 0 ] || fail "$1: a step was refused"
  [ "$(number right_after "$work/$1.txt")" -gt "$(number right_before "$work/$1.txt")" ] || fail "$1: it learned nothing"
  [ "$(number right_after "$work/$1.txt")" = "$(number right_after "$work/$1.host")" ] || fail "$1: the PC has other answers"
}
# static_twin NAME RATE EPOCHS MICRO_BATCHES [clang]: call it after trains and in_integers. It trains with static
# programs on the same core; sets twin.
static_twin() {
  local name=$1 source=$work/static build=build/m3_static_train${5:+_$5} overlay=() file=$elf
  local elf=$build/firmware/static_finetune.elf
  [ -z "${5-}" ] || overlay=(--cross-file "firmware/toolchains/$5.ini")
  rm -rf "$source"
  "$tool" firmware "$work/$name.nacre" --train --target arm/m3 -o "$source" --json >"$work/$name.json"
  [ -f $build/build.ninja ] ||
    meson setup $build --cross-file firmware/toolchains/m4.ini --cross-file firmware/toolchains/m3.ini "${overlay[@]}" --buildtype=minsize \
      -Dtools=false -Dfirmware=true -Dwerror=true -Dsentences=false -Dfirmware_libm=true -Dfirmware_static="$source" >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; exit 1; }
  ninja -C $build firmware/static_finetune.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; exit 1; }
  head -c 262144 /dev/zero | tr '\0' '\377' >"$work/flash"
  firmware/toolchains/qemu_run.sh mps2-an385 "$elf" "$work/$name.data" "$work/$name.test" "$work/flash" "$2" "$3" "$4" 1000000 "$work/$name.state_static" \
    >"$work/${name}_static.txt" || { tail -n 5 "$work/${name}_static.txt"; fail "$name: the image of static programs"; }
  cmp "$work/$name.state" "$work/$name.state_static" || fail "$name: static programs have another state"
  [ "$(floats)" -eq 0 ] || fail "$name: static programs have float symbols"
  [ "$(number right_after "$work/${name}_static.txt")" = "$(number right_after "$work/$name.txt")" ] || fail "$name: static programs have other answers"
  twin="static programs the same state, $(code_bytes) bytes of text and constants (a model file's $(elf=$file code_bytes)), RAM \
$(sed -n 's/.*"ram_bytes": \([0-9]*\).*/\1/p' "$work/$name.json"), $(number instructions_step "$work/${name}_static.txt") instructions a step \
($(number instructions_step "$work/$name.txt"))"
}
ram() { echo $(($(number total "$1") + $(number model_object "$1") + $(number trainer_object "$1"))); }
row() {  # NAME SAMPLES_A_STEP
  local f=$work/$1.txt
  echo "right $(number right_before "$f") -> $(number right_after "$f") of $(number samples "$f"), $(($(number instructions_step "$f") / $2)) instructions a \
sample, RAM $(ram "$f"), text and constants $(code_bytes)"
}

# ---- Digits ----
"$tool" convert "${digits[@]}" "${full_policy[@]}" --train-last 1 --io-types policy "${board[@]}" -o "$work/digits.nacre" >/dev/null
"$tests/finetune_data" "$work/inverted" 8 400 90 "$work/digits.data" "$work/digits.test" "$work/digits.nacre"
trains digits 49152 30000 3 1
in_integers digits
text="inverted digits on a Cortex-M3, the last layer in integers: $(row digits 8), the PC's state to the bit after $(number steps "$work/digits.txt") steps, 0 float symbols"
static_twin digits 30000 3 1
text+="; $twin"
share=(--train-last 1 --train-share dynamic=0.1)
"$tool" convert "${digits[@]}" "${full_policy[@]}" "${share[@]}" --io-types policy "${board[@]}" -o "$work/digits_share.nacre" >/dev/null
for part in data test; do cp "$work/digits.$part" "$work/digits_share.$part"; done
trains digits_share 49152 30000 1 1
in_integers digits_share
written() { awk -v w="$(number codes_written "$1")" -v a="$(number codes_seen "$1")" 'BEGIN {printf("%.1f", 100 * w / a)}'; }
awk -v w="$(written "$work/digits_share.host")" 'BEGIN {exit !(w > 0 && w <= 10)}' || fail "a share of 0.1 writes $(written "$work/digits_share.host") %"
text+="; with --train-share dynamic=0.1, a third of these steps: $(row digits_share 8), $(written "$work/digits_share.host") % of the codes \
written in a step ($(written "$work/digits.host") % without)"
static_twin digits_share 30000 1 1
text+=", static programs the same state"
"$tool" convert "${digits[@]}" --train-last 1 "${board[@]}" -o "$work/digits_float.nacre" >/dev/null
"$tests/finetune_data" "$work/inverted" 8 400 90 "$work/digits_float.data" "$work/digits_float.test"
trains digits_float 147456 30000 3 1
[ "$(floats)" -gt 0 ] || fail "the image of float32 has no float symbol: the test sees none"
text+="; in float32: $(row digits_float 8), $(floats) float symbols"
"$tool" convert "${digits[@]}" "${full_policy[@]}" --io-types policy "${board[@]}" -o "$work/digits_all.nacre" >/dev/null
"$tests/finetune_data" "$work/inverted" 8 200 90 "$work/digits_all.data" "$work/digits_all.test" "$work/digits_all.nacre"
trains digits_all 294912 10000 1 1
in_integers digits_all
text+="; all six layers in integers: $(row digits_all 8), the PC's state to the bit after $(number steps "$work/digits_all.txt") steps"

# ---- KWS ----
if [ -d "$shared/models/mlperf_tiny" ]; then
  kws=("$shared/models/mlperf_tiny/kws_ref_model.tflite" --train softmax_cross_entropy --optimizer sgd --train-last 1 --batch 1 "${board[@]}")
  "$tool" convert "${kws[@]}" --policy int8/full_from_float32 -o "$work/kws.nacre" >/dev/null
  "$tool" convert "$shared/models/mlperf_tiny/kws_ref_model.tflite" -o "$work/kws_ref_model.nacre" >/dev/null
  "$tests/finetune_samples" "$work/kws_ref_model.nacre" 1 32 48 "$work/kws.data" "$work/kws.test" >/dev/null
  trains kws 30720 10000 2 4
  in_integers kws
  [ "$(ram "$work/kws.txt")" -le 32768 ] || fail "KWS takes $(ram "$work/kws.txt") bytes"
  text+="; KWS, steps of 4: $(row kws 4), stack $(number stack "$work/kws.txt"), the PC's state to the bit"
  static_twin kws 10000 2 4
  text+="; $twin"
  if [ "${NACRE_LONG:-0}" = 1 ]; then
    static_twin kws 10000 2 4 clang
    text+="; compiled by clang $twin"
  fi
  "$tool" convert "${kws[@]}" -o "$work/kws_float.nacre" >/dev/null
  cp "$work/kws.data" "$work/kws_float.data"
  cp "$work/kws.test" "$work/kws_float.test"
  trains kws_float 65536 10000 2 4
  text+="; in float32 behind the same int8 layers: $(row kws_float 4)"
fi

# ---- Accuracy ----
# tuned KIND SEED EPOCHS RATE: prints the right answers after training KIND.nacre.
tuned() {
  "$tool" tune "$work/$1.nacre" --data "$work/inverted/train_images.npy" --labels "$work/inverted/train_labels.npy" --cast-samples \
    --epochs "$3" --lr "$4" --seed "$2" -o "$work/tuned.nacre" >/dev/null
  right "$work/tuned.nacre"
}
right() { "$tool" eval "$1" --data "$work/inverted/test_images.npy" --labels "$work/inverted/test_labels.npy" --cast-inputs --json | sed -n 's/^ *"right": \([0-9]*\),*$/\1/p' | head -n 1; }
mean() { awk -v r="$1" -v s="$seeds" 'BEGIN {printf("%.2f", 100 * r / (450 * s))}'; }
# accuracy WHAT EPOCHS RATE OPTION...: compares `seeds` trainings in integers and in float32.
accuracy() {
  local what=$1 epochs=$2 rate=$3 seed full float total_float=0
  total_full=0
  shift 3
  "$tool" convert "${digits[@]}" "${full_policy[@]}" "$@" -o "$work/full.nacre" >/dev/null
  "$tool" convert "${digits[@]}" --freeze-batch-norm "$@" -o "$work/float.nacre" >/dev/null 2>&1 ||
    "$tool" convert "${digits[@]}" "$@" -o "$work/float.nacre" >/dev/null
  for seed in $(seq 1 "$seeds"); do
    full=$(tuned full "$seed" "$epochs" "$rate") float=$(tuned float "$seed" "$epochs" "$rate")
    echo "  $what, seed $seed: of 450 inverted digits $full in integers, $float in float32"
    total_full=$((total_full + full)) total_float=$((total_float + float))
  done
  awk -v a="$(mean $total_full)" -v b="$(mean $total_float)" 'BEGIN {exit !(a >= b - 1)}' ||
    fail "$what: accuracy $(mean $total_full) %, in float32 $(mean $total_float) %"
  text+="; $seeds seeds on the PC, $what, $epochs epochs at $rate: $(mean $total_full) % of 450 inverted digits, in float32 $(mean $total_float) %"
}
accuracy "last layer" 3 0.03 --train-last 1
"$tool" convert "${digits[@]}" "${full_policy[@]}" "${share[@]}" -o "$work/share.nacre" >/dev/null
total_share=0
for seed in $(seq 1 "$seeds"); do total_share=$((total_share + $(tuned share "$seed" 3 0.03))); done
awk -v a="$(mean $total_share)" -v b="$(mean $total_full)" 'BEGIN {exit !(a >= b - 1)}' ||
  fail "a share of 0.1: accuracy $(mean $total_share) %, without $(mean $total_full) %"
text+=", with a share of 0.1 $(mean $total_share) %"
accuracy "all layers" 8 0.005
echo "CLAIM quantized_training shown: $text"
