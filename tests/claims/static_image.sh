#!/usr/bin/env bash
# Claim static_image: `nacre firmware` writes a complete, small image of a Cortex-M4F, which computes what the PC
# does.
#
#   each network   outputs of 5 random inputs equal the PC's to the bit; RAM besides the arena at most 64 bytes, stack at
#                  most 700; KWS: text and rodata, start-up, tables and self-test among them, at most 6,000 bytes
#                  without weights at -Os
#   flash          `nacre size` tells it before anything is compiled, without start-up and self-test. The bytes that an image has
#                  beyond that differ by at most 64 between the networks
#   constants      one changed in the source: it does not compile; a bit flipped in the image: the self-test fails
#   nothing else   no symbol of the verifier, the binder, a shape rule or a FlatBuffer is in the image
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
shared=${NACRE_SHARED-../shared}
work=$PWD/build/static_image
source=$work/source
elf=build/m4_static/firmware/static_example.elf
verdict=shown text= least=1000000 most=0
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
. tests/claims/firmware_gates.sh
mkdir -p "$work"

fail() { verdict='NOT SHOWN'; text+="[$1] "; }
build() { ninja -C build/m4_static firmware/static_example.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; return 1; }; }
run() { firmware/toolchains/qemu_run.sh mps2-an386 "$elf" >"$work/run.txt"; }
number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }
# sections NAMES: prints the bytes of sections: flash without weights and golden pairs, or RAM without the stack.
sections() { arm-none-eabi-size -A "$elf" | awk -v names="$1" '$1 ~ "^\\.(" names ")$" {s += $2} END {print s + 0}'; }
symbol_bytes() { arm-none-eabi-nm -CS -t d "$elf" | awk -v name="$1" '$NF ~ name {s += $2} END {print s + 0}'; }

# All networks share one folder, so that the build is configured once.
if [ -d "$shared/models/mlperf_tiny" ]; then
  networks=(kws_ref_model ad01_int8 pretrainedResnet_quant vww_96_int8 str_ww_ref_model)
else
  echo "no shared networks: the image holds the digits sample, in float32 with libm"
  networks=(digits)
fi
model() {
  rm -rf "$source"
  if [ "$1" = digits ]; then
    "$nacre" convert tools/samples/digits.onnx -o "$work/$1.nacre" >/dev/null
  else
    "$nacre" convert "$shared/models/mlperf_tiny/$1.tflite" -o "$work/$1.nacre" >/dev/null
  fi
  "$nacre" firmware "$work/$1.nacre" --target arm/m4 -o "$source" --golden 5 >"$work/$1.txt"
}

model "${networks[0]}"
if [ ! -f build/m4_static/build.ninja ]; then
  meson setup build/m4_static --cross-file firmware/toolchains/m4.ini --buildtype=minsize -Dtools=false -Dfirmware=true -Dwerror=true \
    -Dsentences=false -Dfirmware_libm=true -Dfirmware_static="$source" >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; exit 1; }
fi

for name in "${networks[@]}"; do
  model "$name"
  build
  run || fail "$name: $(grep -v '^model' "$work/run.txt" | tr '\n' ' ')"
  code=$(sections 'vectors|text|rodata|init_array|ARM.exidx|data') ram=$(($(sections 'data|bss') - $(symbol_bytes '::arena$')))
  stack=$(number stack)
  gate "arm/m4:static:$name" "$code" "$stack" "$(sections 'data|bss')" "$(number instructions_run)"
  said=$("$nacre" size "$work/$name.nacre" --target arm/m4 --json)
  flash_number() { printf '%s' "$said" | sed -n '/"static_flash"/,/}/s/.*"'"$1"'": \([0-9]*\).*/\1/p'; }
  rest=$((code - $(flash_number kernels) - $(flash_number tables)))
  [ "$rest" -ge "$least" ] || least=$rest
  [ "$rest" -le "$most" ] || most=$rest
  [ "$name" != kws_ref_model ] || [ "$code" -le 6000 ] || fail "$name has more than 6,000 bytes"
  [ "$ram" -le 64 ] || fail "$name: other RAM"
  [ "$stack" -le 700 ] || fail "$name: stack"
  [ "$(number failed)" = 0 ] || fail "$name: outputs"
  hash=$("$nacre" kernels "$work/$name.nacre" | sed -n 's/.*the model \([0-9a-f]\{32\}\) needs.*/\1/p')
  grep -q "^model $hash$" "$work/run.txt" || fail "$name prints another hash than the file's"
  if arm-none-eabi-nm -C "$elf" | grep -E 'shapes|Model::|Verif|Program::(bind|measure)|find_entry|flatbuffers'; then
    fail "$name links more than kernels"
  fi
  text+="$name $code bytes (tables $(symbol_bytes 'k(Calls|Steps|Records|Words|Op[0-9]+|Inputs|Outputs|Blocks)$|model_program$')), other RAM $ram, stack $stack, $(number instructions_run) instructions; "
done
[ $((most - least)) -le 64 ] || fail "nacre size says another flash: the rest takes $least to $most bytes"

# ---- One constant at a time, of the last network ----
# changed SED: changes a constant in the source of the tables. The compiler must notice it.
refusals=0
changed() {
  cp "$source/model.cc" "$work/whole"
  sed -i "$1" "$source/model.cc"
  ! cmp -s "$work/whole" "$source/model.cc" || fail "$1 changes nothing"
  if ninja -C build/m4_static firmware/static_example.elf >"$work/ninja.log" 2>&1; then fail "$1: not noticed"; fi
  grep -q 'a constant is not what nacre firmware wrote' "$work/ninja.log" || fail "$1: another error"
  cp "$work/whole" "$source/model.cc"
  refusals=$((refusals + 1))
}
changed '/kWords\[\] = {/{n;s/\([0-9]*\)u/1\1u/}'
changed '0,/static_step(\([0-9]*\), \([0-9]*\), \([0-9]*\),/s//static_step(\1, \2, 1\3,/'
changed '0,/static_record(\([0-9]*\), /s//static_record(1\1, /'
changed '0,/{\([0-9]*\), \([0-9]*\)})/s//{\1, 1\2})/'
build

# flipped SYMBOL BYTE: flips the lowest bit of this byte of a constant in a copy of the image. The self-test must
# notice it.
changes=0 noticed=0
flipped() {
  local address bytes section offset value
  read -r address bytes < <(arm-none-eabi-nm -CS -t d "$elf" | awk -v name="$1" '$NF ~ name {print $1 + 0, $2 + 0; exit}')
  [ -n "$address" ] && [ "$2" -lt "$bytes" ] || { fail "$1 has no byte $2"; return; }
  section=.rodata
  [ "$1" != model_weights ] || section=.model
  offset=$(arm-none-eabi-readelf -SW "$elf" | sed 's/\[ *//' | awk -v s="$section" '$2 == s {print $4, $5}' |
    { read -r from at; echo $((address - 0x$from + 0x$at + $2)); })
  cp "$elf" "$work/flipped.elf"
  value=$(od -An -tu1 -j "$offset" -N 1 "$elf")
  # shellcheck disable=SC2059
  printf "\\x$(printf %x $((value ^ 1)))" | dd of="$work/flipped.elf" bs=1 seek="$offset" conv=notrunc status=none
  changes=$((changes + 1))
  if firmware/toolchains/qemu_run.sh mps2-an386 "$work/flipped.elf" >"$work/flipped.txt" 2>&1; then
    unnoticed+="$1+$2 "
  else
    noticed=$((noticed + 1))
  fi
}
unnoticed=
export NACRE_QEMU_SECONDS=20
for byte in 12 20 28; do flipped 'kCalls$' "$byte"; done  # in the first call: where its three operands lie
for byte in 3 20; do flipped 'kSteps$' "$byte"; done
for byte in 0 100; do flipped 'model_weights$' "$byte"; done
for byte in $(seq 0 4 $(($(symbol_bytes 'kOp0$') - 4))); do flipped 'kOp0$' "$byte"; done
[ "$noticed" -eq "$changes" ] || fail "$noticed of $changes flipped bits noticed"

echo "CLAIM static_image $verdict: ${#networks[@]} networks on a Cortex-M4F, outputs of 5 inputs each equal to the PC's to the bit, text and \
rodata without weights at -Os: ${text%; }; nacre size says them but for start-up and self-test, $least to $most bytes; $refusals of $refusals constants changed in the source refused by the compiler, $noticed of $changes bits flipped \
in the image noticed by the self-test (not: ${unnoticed:-none})"
[ "$verdict" = shown ]
