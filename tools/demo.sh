#!/usr/bin/env bash
# The main job, on a fresh Debian or Ubuntu machine: installs what is missing, builds, converts the digits network, inspects
# it and reads the test images with it. The demo itself runs no Python.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
need_packages build tools

# Builds in the folder that tools/test.sh uses too, so that each takes what the other compiled with the same options.
build=build/demo
log=$build/build.log
mkdir -p "$build"
echo "building (the log is in $log)"
programs=(nacre digits policy_table shift_digits)
if ! { [ -f build/test/build.ninja ] || meson setup build/test -Dbuildtype=release -Dx86_tiers=native; } >"$log" 2>&1 ||
   ! ninja -C build/test "${programs[@]/#/tools/}" >>"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "demo: the build failed; the whole log is in $log" >&2
  exit 1
fi

tools=build/test/tools
nacre=$tools/nacre
samples=tools/samples
model=$build/digits.nacre
show() { printf '\n$ nacre %s\n' "$*"; "$nacre" "$@"; }
tell() { echo; printf '%s\n' "$@"; }  # what the next table shows, and what to notice

tell "1. A network of ONNX becomes a model file. Notice: the arena is the memory of all activations, planned before the first run."
show convert "$samples/digits.onnx" -o "$model"
tell "2. What is in the file: its layers with their policies, its inputs and outputs, and every byte that a run uses."
show inspect "$model"
tell "3. The same model on a Cortex-M4: bytes of RAM and flash. Notice: they are known here, without the board."
show size "$model" --target arm/m4
tell "4. The model reads 450 images that it was not trained on. Notice: how many are right, and the time of one."
"$tools/digits" "$model" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy"

tell "5. The same network under several policies, on these 450 images: right answers, bytes, and microseconds of a run." \
  "   Notice: int8 takes a third of the file and reads as many digits; int8/static has a quarter of the arena too."
"$tools/policy_table" "$samples/digits.onnx" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy"
tell "6. Two models side by side in a page. Notice: the path of digits.html; a browser shows accuracy, errors by layer and bytes."
show convert "$samples/digits.onnx" -o "$build/digits_int8.nacre" --policy int8_from_float32
show report "$model" "$build/digits_int8.nacre" --data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --indices "$samples/digits_test.npy" --cast-inputs -o "$build/digits.html"

# ---- Fine-tuning: the same digits, inverted, of which the network knows little ----

inverted=$build/inverted
"$tools/shift_digits" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy" inverted "$inverted"
"$tools/shift_digits" "$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy" none "$build/usual"
policies=(float32 mixed_bfloat16 mixed_float16 float8_from_float32 int8/static_from_float32)
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | head -n 1; }
right() {  # right MODEL FOLDER: prints how many of the folder's test images the model classifies right
  "$nacre" eval "$1" --data "$2/test_images.npy" --labels "$2/test_labels.npy" --cast-inputs --json | number right
}
tell "7. Fine-tuning under five policies: 1347 inverted digits, which the network has never seen; 3 epochs of Adam, batches of 32." \
  "   Columns: right of 450 inverted and of 450 upright images, before and after; then bytes of RAM, and milliseconds a step." \
  "   Notice: every policy learns. 16 bits halve the arena of a training; float8 and int8/static take more, to make codes from floats."
printf '\n'
printf '%-26s %9s %6s %9s %6s %10s %8s %9s %8s %8s %9s %8s\n' policy inverted after upright after parameters moments gradients sums derived arena ms/step
before_inverted=$(right "$model" "$inverted") before_upright=$(right "$model" "$build/usual")
for policy in "${policies[@]}"; do
  name=${policy//\//_}
  "$nacre" convert "$samples/digits.onnx" -o "$build/train_$name.nacre" --train softmax_cross_entropy --batch 32 --optimizer adam --policy "$policy" >/dev/null
  size=$("$nacre" size "$build/train_$name.nacre" --train --json)
  started=$(date +%s%N)
  "$nacre" tune "$build/train_$name.nacre" --data "$inverted/train_images.npy" --labels "$inverted/train_labels.npy" --cast-samples --epochs 3 --lr 0.002 \
    -o "$build/tuned_$name.nacre" --html "$build/tuned_$name.html" >/dev/null
  steps=$((3 * ((1347 + 31) / 32)))
  printf '%-26s %9s %6s %9s %6s %10s %8s %9s %8s %8s %9s %8s\n' "$policy" "$before_inverted" "$(right "$build/tuned_$name.nacre" "$inverted")" \
    "$before_upright" "$(right "$build/tuned_$name.nacre" "$build/usual")" "$(number parameters <<<"$size")" "$(number moments <<<"$size")" \
    "$(number gradients <<<"$size")" "$(number sums <<<"$size")" "$(number derived <<<"$size")" "$(number arena <<<"$size")" \
    "$((($(date +%s%N) - started) / 1000000 / steps))"
done
printf '\nThe curves of the first: %s\n' "$build/tuned_float32.html"
