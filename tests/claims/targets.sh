#!/usr/bin/env bash
# Claim targets: static programs run on every target of firmware/toolchains/*.ini, in QEMU, and compute what the PC
# does.
#
#   targets.sh           KWS and two policies of the digits sample on two targets: one Arm, one RISC-V; and of clang on one
#   NACRE_LONG=1         the five int8 networks of MLPerf Tiny and 13 policies on all targets, and each port's own test; KWS and
#                        the two policies at -O2 and of clang on all of them; what it printed: results/targets_long.txt
#   NACRE_TARGETS="m4 m4-clang m4-O2"      these: targets, and what differs from g++ at -Os
#
#   KWS            once more converted for the target, by the kernels of ports/cortex_m: instructions beside the reference's
#   each network   outputs of TensorFlow Lite Micro's inputs equal TensorFlow Lite Micro's to the bit (shared/golden/tflite), and
#                  those of two random inputs the PC's
#   flash          nacre size tells it for g++ at -Os before anything is compiled. The bytes that an image has beyond that differ by at most
#                  320 between a target's models: memory functions, and on M0+ a division that print_unsigned has too
#   digits         under each policy the outputs of three inputs are the PC's: int8/static to the bit, others within 1e-5 of the
#                  largest: libms differ in exp's last bit
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
shared=${NACRE_SHARED-../shared}
long=${NACRE_LONG:-0}
work=$PWD/build/targets
source=$work/source
verdict=shown failures= text=
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
. tests/claims/firmware_gates.sh
mkdir -p "$work"

targets=(m3 rv32imac m4-clang) networks=(kws_ref_model) policies=(float32 int8/static_from_float32)
every_form=(kws_ref_model digits_float32 digits_int8_static_from_float32)
if [ "$long" = 1 ]; then
  targets=(m0plus m3 m4 m7 m33 m55 rv32imac rv32imafc)
  for target in "${targets[@]}"; do targets+=("$target-O2" "$target-clang"); done
  networks+=(ad01_int8 pretrainedResnet_quant vww_96_int8 str_ww_ref_model)
  policies+=(bfloat16 mixed_float16 mixed_bfloat16 int8_from_float32 int8_from_mixed_bfloat16 int8/weights_from_float32
    int4_from_float32 int4/32_from_float32 float8_from_float32 float8/current_from_float32 float64)
fi
if [ -n "${NACRE_TARGETS-}" ]; then read -ra targets <<<"$NACRE_TARGETS"; fi
[ -d "$shared/models/mlperf_tiny" ] || { echo "no shared networks: the images hold the digits sample alone"; networks=(); }

fail() { verdict='NOT SHOWN'; failures+="[$1] "; }
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }

# ---- Models, inputs, expected outputs: NAME.nacre, NAME_in.bin, NAME_out.bin ----
models=()
for name in "${networks[@]}"; do
  "$nacre" convert "$shared/models/mlperf_tiny/$name.tflite" -o "$work/$name.nacre" >/dev/null
  models+=("$name")
  cp "$shared/golden/tflite/$name.s1.in0.bin" "$work/${name}_in.bin"
  cp "$shared/golden/tflite/$name.s1.out0.bin" "$work/${name}_out.bin"
done
for policy in "${policies[@]}"; do
  name=digits_${policy//\//_} calibrate=()
  case $policy in int8/static* | float8_*) calibrate=(--calibrate tools/samples/digits_images.npy --cast-samples) ;; esac
  "$nacre" convert tools/samples/digits.onnx -o "$work/$name.nacre" --policy "$policy" "${calibrate[@]}" >/dev/null
  models+=("$name")
  rm -rf "$work/dump" "$work/host"
  "$nacre" run "$work/$name.nacre" --seed 1 --all-tensors "$work/dump" >/dev/null
  tail -c 256 "$work"/dump/input_*.npy >"$work/${name}_in.bin"  # 64 float32
  "$nacre" run "$work/$name.nacre" --input "pixels=$work/${name}_in.bin" --output "$work/host" >/dev/null
  tail -c 40 "$work"/host/*.npy >"$work/${name}_out.bin"
done

# ---- The images ----
# Each target has one build folder and one folder of sources, so that the library is compiled once.
prepare() {
  local overlay=(--cross-file "firmware/toolchains/${1%-*}.ini")
  case $1 in
    *-clang) overlay+=(--cross-file firmware/toolchains/clang.ini) ;;
    *-O2) overlay+=(-Doptimization=2) ;;
  esac
  [ -f "build/targets/$1/build.ninja" ] ||
    meson setup "build/targets/$1" --cross-file firmware/toolchains/m4.ini "${overlay[@]}" --cross-file "$work/root.ini" --buildtype=minsize \
      -Dtools=false -Dfirmware=true -Dwerror=true -Dsentences=false -Dfirmware_libm=true -Dfirmware_static="$source" >"$work/meson.log" 2>&1 ||
    { tail -n 20 "$work/meson.log" >&2; return 1; }
}
# machine_of TARGET: prints the machine that runs the target's images, by its name among nacre's targets.
machine_of() { cat firmware/toolchains/m4.ini "firmware/toolchains/${1%-*}.ini" | sed -n "s/^machine = '\(.*\)'/\1/p" | tail -n 1; }
nacre_target() { case $1 in rv32*) echo "riscv/${1%-*}" ;; *) echo "arm/${1%-*}" ;; esac; }
# form_of TARGET: prints the target's name in rows of firmware_gates.txt: static_files_clang for m4-clang.
form_of() { case $1 in *-*) echo "static_files_${1#*-}" ;; *) echo static_files ;; esac; }

# code_bytes TARGET: prints the bytes of code of the target's image, without weights.
code_bytes() {
  local size=arm-none-eabi-size
  case $1 in rv32*) size=riscv64-unknown-elf-size ;; esac
  $size -A "$2" | awk '$1 ~ /^\.(vectors|text|rodata|init_array|ARM\.exidx|data)$/ {s += $2} END {print s + 0}'
}

equal=0 count=0 least=1000000 most=0
# flash TARGET MODEL BYTES: updates `least` and `most` with the bytes that the image has beyond those of `nacre size`,
# which are its start-up and self-test. It skips float64 networks on targets without an FPU, because their self-test
# brings float32 routines that no kernel has.
flash() {
  local said rest
  case $1:$2 in m0plus:*float64 | m3:*float64 | rv32imac:*float64) return ;; esac
  said=$("$nacre" size "$work/$2.nacre" --target "$(nacre_target "$1")" --json | sed -n '/"static_flash"/,/}/s/.*"\(kernels\|tables\)": \([0-9]*\).*/\2/p')
  rest=$(($3 - ($(echo "$said" | paste -sd +))))
  [ "$rest" -ge "$least" ] || least=$rest
  [ "$rest" -le "$most" ] || most=$rest
}
# image TARGET MODEL: checks that the image computes what the PC does. Adds its outputs to `count`, and those equal to
# the bit to `equal`.
image() {
  local elf=build/targets/$1/firmware/static_files.elf bytes
  echo 'not built' >"$work/run.txt"
  "$nacre" firmware "$work/$2.nacre" --target "$(nacre_target "$1")" -o "$source" >/dev/null
  ninja -C "build/targets/$1" firmware/static_files.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; return 1; }
  rm -f "$work/found"
  firmware/toolchains/qemu_run.sh "$(machine_of "$1")" "$elf" "build/targets/$2_in.bin" build/targets/found >"$work/run.txt" 2>&1 || return 1
  bytes=$({ cmp -l "$work/$2_out.bin" "$work/found" || true; } | wc -l)
  count=$((count + 1))
  [ "$1" != "${1%-*}" ] || flash "$1" "$2" "$(code_bytes "$1" "$elf")"
  gate "$(nacre_target "$1"):$(form_of "$1"):$2" "$(code_bytes "$1" "$elf")" "$(number stack)" - "$(number instructions_run)"
  if [ "$bytes" -eq 0 ]; then equal=$((equal + 1)); return 0; fi
  case $2 in digits_int8_static* | [!d]*) return 1 ;; esac  # the self-test has checked the others' bound
}

printf "[constants]\nroot = '%s'\n" "$PWD" >"$work/root.ini"
rm -rf "$source"
"$nacre" firmware "$work/${models[0]}.nacre" --target arm/m4 -o "$source" >/dev/null
for target in "${targets[@]}"; do
  if [ "$long" = 1 ] && [ "$target" = "${target%-O2}" ] && ! firmware/toolchains/test_port.sh "$target" >"$work/port.txt" 2>&1; then
    fail "$target: test_port.sh: $(grep -m 1 FAIL "$work/port.txt")"
  fi
  prepare "$target"
  instructions= least=1000000 most=0
  for model in "${models[@]}"; do
    if [ "$target" != "${target%-*}" ] && ! [[ " ${every_form[*]} " == *" $model "* ]]; then continue; fi
    image "$target" "$model" || fail "$target, $model: $(tr '\n' ' ' <"$work/run.txt")"
    [ "$model" != kws_ref_model ] || instructions=" (KWS $(number instructions_run) instructions)"
    if [ "$long" = 1 ]; then printf '  %-10s %-36s %12s instructions, stack %s\n' "$target" "$model" "$(number instructions_run)" "$(number stack)"; fi
  done
  if [ "${models[0]}" = kws_ref_model ]; then
    "$nacre" convert "$shared/models/mlperf_tiny/kws_ref_model.tflite" -o "$work/fast.nacre" --target "$(nacre_target "$target")" >/dev/null
    for file in in out; do cp "$work/kws_ref_model_$file.bin" "$work/fast_$file.bin"; done
    image "$target" fast || fail "$target, KWS by ports/cortex_m: $(tr '\n' ' ' <"$work/run.txt")"
    instructions=${instructions/ instructions/ instructions, $(number instructions_run) by ports\/cortex_m}
  fi
  if [ "$most" -gt 0 ]; then
    instructions=${instructions/%)/, flash what nacre size says and $least to $most bytes)}
    [ $((most - least)) -le 320 ] || fail "$target: nacre size says another flash: the rest takes $least to $most bytes"
  fi
  text+="$target$instructions, "
done

echo "CLAIM targets $verdict: ${#models[@]} models each on ${#targets[@]} targets, by g++ at -Os and the reference kernels unless said: $text$equal of $count outputs equal to the \
bit, the others within the bound; integers all${failures:+; failed: $failures}"
[ "$verdict" = shown ]
