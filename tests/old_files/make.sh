#!/usr/bin/env bash
# Writes the files of a version, and what they give, once, with that version's own tool:
#
#   tests/old_files/make.sh NACRE VERSION      tests/old_files/VERSION.tar.xz and VERSION.txt
#
# Every policy for every target, and every kind of training in the middle of one. tests/claims/old_files_open.sh asks each
# later version for the same bytes. Needs a Python with numpy and onnx (NACRE_PEERS_PYTHON, tools/peers.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/old_files/facts.sh
nacre=$(realpath "$1") version=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$version
mkdir "$folder"
"${NACRE_PEERS_PYTHON:-$(tools/peers.sh)}" tests/old_files/network.py "$folder/network.onnx"
"${NACRE_PEERS_PYTHON:-$(tools/peers.sh)}" - "$folder" <<'END'
import sys
import numpy as np
for name in ('images', 'labels'):
    np.save(f'{sys.argv[1]}/{name}.npy', np.load(f'tools/samples/digits_{name}.npy')[:256])
np.savez(f'{sys.argv[1]}/inputs.npz', pixels=np.load('tools/samples/digits_images.npy')[300:303].astype(np.float32))
END
calibrate=(--calibrate "$folder/images.npy" --cast-samples)
targets=$("$nacre" convert --help | sed -n 's/.*\[host\]: //p' | tr -d ' ')

# infer NAME TARGETS OPTION...
infer() {
  "$nacre" convert "$folder/network.onnx" -o "$folder/$1.nacre" --target "$2" "${@:3}" >/dev/null
  echo "${2//,/ }" >"$folder/$1.targets"
}
for policy in float32 float64 bfloat16 mixed_float16 mixed_bfloat16 int8_from_float32 int8_from_mixed_bfloat16 int8/weights_from_float32 int4_from_float32 \
    int4/32_from_float32 float8/current_from_float32; do
  infer "${policy//\//_}" "$targets" --policy "$policy"
done
for policy in int8/static_from_float32 float8_from_float32 gptq/4/32_from_float32 awq/4/32_from_float32; do
  infer "${policy//\//_}" "$targets" --policy "$policy" "${calibrate[@]}"
done
infer unfused host,arm/m4 --policy int8/static_from_float32 "${calibrate[@]}" --no-fuse --keep division
infer padded host,cuda/sm90 --policy bfloat16 --pad-features
infer single host,x86/avx2 --policy int8/static_from_float32 "${calibrate[@]}" --rounding litert

# train NAME TUNE-OPTIONS CONVERT-OPTION...: a training of two epochs, stopped behind the first.
train() {
  local name=$1 tune=$2
  shift 2
  "$nacre" convert "$folder/network.onnx" -o "$folder/$name.nacre" --train softmax_cross_entropy --batch 16 "$@" >/dev/null
  echo "$tune" >"$folder/$name.options"
  "$nacre" tune "$folder/$name.nacre" --data "$folder/images.npy" --labels "$folder/labels.npy" --cast-samples --epochs 1 $tune --kernels reference \
    --checkpoint "$folder/$name.checkpoint" -o "$work/tuned.nacre" >/dev/null
}
train train_sgd '--lr 0.05' --optimizer sgd
train train_momentum '--lr 0.02 --validate 0.25' --optimizer momentum
train train_adam '--lr 0.005' --optimizer adam
train train_adamw_mixed_bfloat16 '--lr 0.005' --optimizer adamw --policy mixed_bfloat16
train train_mixed_float16 '--lr 0.005' --optimizer adam --policy mixed_float16
train train_float8 '--lr 0.005' --optimizer adam --policy float8_from_float32
train train_int8_static '--lr 0.01' --optimizer sgd --policy int8/static_from_float32
train train_int8_full '--lr 0.01' --optimizer sgd --policy int8/full_from_float32 "${calibrate[@]}"
train train_codes '--lr 0.01' --optimizer sgd --policy int8/static_from_float32 "${calibrate[@]}" --train-codes
train train_adapters '--lr 0.01' --optimizer adam --lora 2
train train_last '--lr 0.01' --optimizer sgd --train-last 2
train train_channels '--lr 0.01' --optimizer sgd --train-channels 'conv2.*=0.25'
train train_immediate '--lr 0.01' --optimizer sgd --update immediate
train train_targets '--lr 0.01' --optimizer adam --target host,arm/m4,cuda/sm90

facts_of "$nacre" "$folder" | grep -vE ' (-|absent)$' >"tests/old_files/$version.txt"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$version" | xz -9e >"tests/old_files/$version.tar.xz"
echo "$(find "$folder" -name '*.nacre' | wc -l) models, $(find "$folder" -name '*.checkpoint' -type d | wc -l) checkpoints, $(wc -l <"tests/old_files/$version.txt") facts: tests/old_files/$version.tar.xz, $(stat -c %s "tests/old_files/$version.tar.xz") bytes"
