#!/usr/bin/env bash
# Claim cortex_m_instructions: the int8 networks of MLPerf Tiny, converted for arm/m4, run on a Cortex-M4F with the
# kernels of ports/cortex_m (always -O2; the rest at -Os). It checks:
#
#   instructions   each static program takes at most those of TensorFlow Lite Micro with CMSIS-NN, as QEMU counts them
#   outputs        for 5 random inputs they equal the PC's to the bit; for TensorFlow's own golden pairs, run from the
#                  model file, they equal TensorFlow's to the bit
#   memory         the image with the model file takes the bytes that `nacre size --target arm/m4` says
#   kernels        on random sizes, codes and scales they equal the reference kernels to the bit, within their scratch
#
# For a Cortex-M55 with Helium it checks the instructions of the static programs of four networks, and the kernels.
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, the shared networks and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
shared=${NACRE_SHARED-../shared}
[ -d "$shared/models/mlperf_tiny" ] || { echo "no shared networks: cortex_m_instructions is left out"; exit 77; }
work=$PWD/build/cortex_m
core=m4 folder=build/m4_cortex_m
verdict=shown goals= text= wrong=
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
. tests/claims/firmware_gates.sh
mkdir -p "$work"

# Name, file, and the instructions that TensorFlow Lite Micro with CMSIS-NN takes, in thousands.
networks=("KWS kws_ref_model 7700" "IC pretrainedResnet_quant 29860" "VWW vww_96_int8 24100" "AD ad01_int8 583" "str_ww str_ww_ref_model 2227")
helium=("KWS kws_ref_model 1810" "IC pretrainedResnet_quant 4910" "VWW vww_96_int8 6560" "AD ad01_int8 290")

fail() { verdict='NOT SHOWN'; wrong+="[$1] "; }
# build IMAGE OPTION..: builds an image. All images share one folder, so that the library is compiled once.
build() {
  local image=$1
  shift
  if [ -f $folder/build.ninja ]; then
    [ $# -eq 0 ] || meson configure $folder "$@"
  else
    meson setup $folder --cross-file firmware/toolchains/m4.ini --cross-file firmware/toolchains/$core.ini --buildtype=minsize -Dtools=false -Dfirmware=true -Dwerror=true \
      -Dsentences=false -Dfirmware_libm=true "$@"
  fi >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; return 1; }
  ninja -C $folder "firmware/$image.elf" >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; return 1; }
}
run() { firmware/toolchains/qemu_run.sh "$machine" "$folder/firmware/$1.elf" "${@:2}" >"$work/run.txt"; }
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }
millions() { awk -v n="$1" 'BEGIN {printf("%.2f", n / 1e6)}'; }
code_bytes() {
  arm-none-eabi-size -A "$folder/firmware/$1.elf" |
    awk '$1 ~ /^\.(vectors|text|rodata|init_array|ARM\.exidx|data)$/ {s += $2} END {print s + 0}'
}

# static_program NAME FILE MOST: converts, builds and runs a static program; sets count.
static_program() {
  model=$work/$2.nacre
  "$nacre" convert "$shared/models/mlperf_tiny/$2.tflite" -o "$model" --target arm/$core --strip-names >/dev/null
  rm -rf "$work/source"
  "$nacre" firmware "$model" --target arm/$core -o "$work/source" --golden 5 >"$work/firmware.txt"
  build static_example -Dfirmware_static="$work/source"
  run static_example || fail "$1: $(grep -v '^model' "$work/run.txt" | tr '\n' ' ')"
  count=$(number instructions_run)
  gate "arm/$core:static_fast:$2" "$(code_bytes static_example)" "$(number stack)" - "$count"
  [ "$count" -le $(($3 * 1000)) ] || fail "$core, $1: instructions"
  goals+="$1 $(millions "$count") of $(millions $(($3 * 1000))) M, "
}
kernels_equal() {
  build kernels_equal
  run kernels_equal || fail "$core, kernels: $(tr '\n' ' ' <"$work/run.txt")"
}

machine=mps2-an386
for network in "${networks[@]}"; do
  read -r name file most <<<"$network"
  static_program "$name" "$file" "$most"
  code=$(code_bytes static_example) stack=$(number stack)

  "$nacre" kernels "$model" -o "$work/kernels.h" >/dev/null
  build example -Dfirmware_static= -Dfirmware_model="$model" -Dfirmware_kernels="$work/kernels.h"
  golden=() pairs=0
  for input in "$shared/golden/tflite/$file".s*.in0.bin; do
    golden+=("$input" "$work/out$pairs.bin")
    pairs=$((pairs + 1))
  done
  run example "${golden[@]}" || fail "$name: the model file: $(tail -n 1 "$work/run.txt")"
  for ((i = 0; i < pairs; i++)); do
    cmp -s "${golden[2 * i]/.in0./.out0.}" "$work/out$i.bin" || fail "$name: another output than TensorFlow's"
  done
  "$nacre" size "$model" --target arm/m4 --json >"$work/size.json"
  for pair in "calls:$(number calls)" "scratch:$(number scratch)" "bytes:$(number arena)"; do
    grep -qE "\"${pair%%:*}\": ${pair#*:}(,|\$)" "$work/size.json" || fail "$name: size says another ${pair%%:*}"
  done
  text+="$name $code bytes of code and tables, arena $(number arena), scratch $(number scratch), stack $stack, $pairs golden pairs; "
done

kernels_equal
cases=$(number cases) m4_goals=${goals%, } goals=
core=m55 folder=build/m55_cortex_m machine=mps3-an547
for network in "${helium[@]}"; do
  read -r name file most <<<"$network"
  static_program "$name" "$file" "$most"
done
kernels_equal

echo "CLAIM cortex_m_instructions $verdict: ${wrong}M4 $m4_goals, M55 ${goals%, } with TensorFlow Lite Micro and CMSIS-NN; outputs equal to the bit, and those of \
$cases random cases of the kernels on each; ${text%; }"
[ "$verdict" = shown ]
