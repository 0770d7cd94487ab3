#!/usr/bin/env bash
# Claim micro_speech_stream: TensorFlow Lite Micro's front end and its network micro_speech form one model. It takes
# new samples of 16 kHz audio and keeps the earlier ones (`nacre convert --front-end`).
#
#   features   features of 30 ms of two words equal TensorFlow Lite Micro's (shared/golden/tflm_examples.json) to the
#              bit
#   ring       tests/compile/front_end_test.cc: at every hop the features equal those of whole frames to the bit, and so
#              do the network's scores. (tests/exports/compare_tflm.py compares a whole track with TensorFlow Lite
#              Micro)
#   words      in a track of silence, noise and words at known times tools/samples/keyword_stream hears all words, each
#              within 1.5 s of its beginning, and no other. The network runs at each hop of 20 ms, or at each fifth
#   image      a Cortex-M4F hears the same words at the same times, and its scores are equal to the bit
#   cost       instructions per second of audio, by QEMU, RAM and flash, checked by firmware_gates.sh. With five hops a
#              run these are fewer than the cycles of a core at 64 MHz, at one cycle each
#
# Needs build/test (tools/test.sh) or NACRE_TOOL, the shared networks and the firmware packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
nacre=${NACRE_TOOL:-build/test/tools/nacre}
tests=$(dirname "$nacre")/../tests
shared=${NACRE_SHARED-../shared}
speech=$shared/models/tflm
[ -f "$speech/audio_preprocessor_int8.tflite" ] || { echo "no shared networks: micro_speech_stream is left out"; exit 77; }
work=$PWD/build/micro_speech
classes=silence,unknown,yes,no clock=64000000
export NACRE_QEMU_SECONDS=${NACRE_QEMU_SECONDS:-600}  # ends a run that hangs; it is no bound on speed
rm -rf "$work"
mkdir -p "$work"
. tests/claims/firmware_gates.sh
fail() { echo "CLAIM micro_speech_stream NOT SHOWN: $*"; exit 1; }

# ---- features ----
"$nacre" convert "$speech/audio_preprocessor_int8.tflite" -o "$work/features.nacre" >/dev/null
features=0
for word in yes no; do
  head -c 1004 "$speech/${word}_30ms.wav" | tail -c +45 >"$work/frame.bin"  # skips the WAV header
  rm -rf "$work/features"
  "$nacre" run "$work/features.nacre" --input "audio_frame=$work/frame.bin" --output "$work/features" >/dev/null
  tail -c 40 "$work"/features/*.npy | od -An -v -td1 -w1 | tr -d ' ' >"$work/found.txt"
  tr -d ' \n' <"$shared/golden/tflm_examples.json" | sed "s/.*\"$word\":\[\([^]]*\)\].*/\1/" | tr ',' '\n' >"$work/known.txt"
  [ "$(wc -l <"$work/found.txt")" -eq 40 ] || fail "no features of $word"
  diff <(cat "$work/known.txt"; echo) "$work/found.txt" >/dev/null || fail "features of $word are others than TensorFlow Lite Micro's"
  features=$((features + 40))
done

# ---- ring ----
NACRE_SHARED=$(realpath "$shared") "$tests/unit_tests" --gtest_filter='join_front_end.*' >"$work/ring.txt" || { tail -n 20 "$work/ring.txt"; fail "the ring"; }
grep -q 'PASSED.* 3 tests' "$work/ring.txt" || fail "tests of the ring were left out"

# ---- words ----
# The track, 16-bit mono at 16 kHz. NAME [SAMPLES] adds so many of the file's 16,000 samples.
samples=0 said=()
: >"$work/track.bin"
while read -r name count; do
  head -c $((44 + 2 * ${count:-16000})) "$speech/${name}_1000ms.wav" | tail -c +45 >>"$work/track.bin"
  case $name in yes | no) said+=("$((samples / 16)) $name") ;; esac
  samples=$(($(stat -c %s "$work/track.bin") / 2))
done <<'END'
silence
silence
yes
silence
no
silence
silence 5003
noise
silence
no
noise
silence
silence 7001
yes
silence 3333
silence
no
silence
yes
silence
silence
noise
noise
silence
END

# Returns whether the heard words are the spoken ones, each soon after its beginning.
heard_all() {
  paste -d ' ' <(printf '%s\n' "${said[@]}") "$1" |
    awk '{if (NF != 6 || $2 != $5 || $3 < $1 || $3 > $1 + 1500) wrong = 1} END {exit wrong || NR == 0}'
}

text= hops=
for hops in 1 5; do
  front_end=(--front-end "$speech/audio_preprocessor_int8.tflite" --hop 320 --hops $hops)
  "$nacre" convert "$speech/micro_speech_quantized.tflite" "${front_end[@]}" -o "$work/pc.nacre" >/dev/null
  "$(dirname "$nacre")/keyword_stream" "$work/pc.nacre" $classes "$work/scores_pc.bin" <"$work/track.bin" >"$work/words_pc.txt" 2>"$work/pc.txt"
  cp "$work/pc.nacre" "$work/kept.nacre"
  if "$(dirname "$nacre")/keyword_stream" "$work/pc.nacre" $classes "$work/pc.nacre" <"$work/track.bin" >/dev/null 2>&1; then fail "scores go over the model"; fi
  cmp -s "$work/pc.nacre" "$work/kept.nacre" || fail "the model was written over"
  heard_all "$work/words_pc.txt" || { cat "$work/words_pc.txt"; fail "on the PC other words than were said: ${said[*]}"; }

  # ---- image ----
  "$nacre" convert "$speech/micro_speech_quantized.tflite" "${front_end[@]}" -o "$work/m4.nacre" --target arm/m4 >/dev/null
  rm -rf "$work/source"
  "$nacre" firmware "$work/m4.nacre" --target arm/m4 -o "$work/source" >"$work/firmware.txt"
  if [ ! -f build/m4_micro_speech/build.ninja ]; then
    meson setup build/m4_micro_speech --cross-file firmware/toolchains/m4.ini --buildtype=minsize -Dtools=false -Dfirmware=true -Dwerror=true \
      -Dsentences=false -Dfirmware_static="$work/source" >"$work/meson.log" 2>&1 || { tail -n 20 "$work/meson.log" >&2; exit 1; }
  fi
  ninja -C build/m4_micro_speech firmware/static_stream.elf >"$work/ninja.log" 2>&1 || { tail -n 20 "$work/ninja.log" >&2; exit 1; }
  elf=build/m4_micro_speech/firmware/static_stream.elf
  firmware/toolchains/qemu_run.sh mps2-an386 $elf build/micro_speech/track.bin build/micro_speech/scores_m4.bin $classes >"$work/run.txt" ||
    { tail -n 5 "$work/run.txt"; fail "the image"; }
  grep ' ms ' "$work/run.txt" | cmp -s - "$work/words_pc.txt" || fail "the image heard other words than the PC"
  cmp -s "$work/scores_pc.bin" "$work/scores_m4.bin" || fail "the image's scores are others than the PC's"
  number() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$work/run.txt" | tail -n 1; }
  runs=$(number runs)
  [ "$(stat -c %s "$work/scores_pc.bin")" -eq $((4 * runs)) ] && [ "$runs" -eq $((samples / (320 * hops))) ] || fail "$runs runs"

  # ---- cost ----
  per_second=$(($(number instructions) / (runs * 320 * hops / 1600) * 10))
  [ $hops = 1 ] || [ $per_second -lt $clock ] || fail "$per_second instructions per second of audio: a core at 64 MHz is not in time"
  code=$(arm-none-eabi-size -A $elf | awk '$1 ~ /^\.(vectors|text|rodata|init_array|ARM\.exidx|data)$/ {s += $2} END {print s + 0}')
  memory=$(arm-none-eabi-size -A $elf | awk '$1 ~ /^\.(data|bss)$/ {s += $2} END {print s + 0}')
  gate arm/m4:stream:micro_speech_$((20 * hops))ms "$code" "$(number stack)" "$memory" "$(number instructions_most)"
  weights=$(arm-none-eabi-size -A $elf | awk '$1 == ".model" {print $2}')
  ram=$(sed -n 's/^ *RAM *\([0-9,]*\),.*/\1/p' "$work/firmware.txt")
  text+="scores every $((20 * hops)) ms: $runs equal to the PC's to the bit, $(awk -v n="$per_second" 'BEGIN {printf("%.1f", n / 1e6)}') M \
instructions per second of audio, at most $(awk -v n="$(number instructions_most)" 'BEGIN {printf("%.2f", n / 1e6)}') M a run, RAM $ram bytes, \
flash $code and $weights of weights, stack $(number stack); "
done

echo "CLAIM micro_speech_stream shown: $features features of TensorFlow Lite Micro's front end equal to the bit; ${#said[@]} words in $((samples / 16000)) s \
of audio, all heard and no other, on the PC and by a Cortex-M4F image under QEMU (-Os, kernels -O2): ${text%; }"
