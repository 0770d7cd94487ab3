#!/usr/bin/env bash
# Claim c_whole: C reaches as far as C++. The programs of tools/samples/c compile as C99, without a warning, against the
# installed library alone, and write the bytes that the same work in C++ writes (tests/claims/c_whole):
#
#   infer     four types of numbers              profile   kernels, and all intermediate tensors of each step
#   stream    a state from run to run, twice     train     a training that is killed, at calls drawn by lot and between saves
#   threads   1 to 4 threads                     static    a static program; device trains one, in a flash without power at times
#
# Every function that a header of C declares is in a library that was installed.
#
# Needs a build with all its targets (NACRE_BUILD, else build/test), pkg-config, and NACRE_SHARED for the streams.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
build=$(realpath "${NACRE_BUILD:-build/test}")
tool=$(realpath "${NACRE_TOOL:-$build/tools/nacre}")
shared=$(realpath -m "${NACRE_SHARED:-../shared}")/models
[ -d "$shared/tflm" ] || { echo "the networks with a state are not there"; exit 77; }
[ -z "${NACRE_SANITIZED-}" ] || { echo "programs without sanitizers do not link libraries with them"; exit 77; }
work=$(mktemp -d)
verdict= failures=
trap 'rm -rf "$work"; [ -n "$verdict" ] || echo "CLAIM c_whole NOT SHOWN: ${failures}it ended early"' EXIT
fail() { failures+="[$1] "; }

meson install -C "$build" --no-rebuild --destdir "$work/root" --quiet --tags devel >"$work/install.log" 2>&1 ||
  { tail "$work/install.log"; fail "meson install"; exit 1; }
pc=$(find "$work/root" -name nacre.pc)
prefix=$work/root$(sed -n 's/^prefix=//p' "$pc")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
config() { pkg-config --define-variable=prefix="$prefix" "$@"; }
fast=nacre-x86
[ "$(uname -m)" != aarch64 ] || fast=nacre-arm
cd "$work"

# ---- Inputs ----
samples=$root/tools/samples
tail -c +129 "$samples/digits_images.npy" >all.u8
head -c $((64 * 200)) all.u8 >some.u8
tail -c +129 "$samples/digits_labels.npy" >labels.u8
python3 -c '
import struct
images, labels = open("all.u8", "rb").read(), open("labels.u8", "rb").read()
count = 640
open("images.bin", "wb").write(struct.pack("<%df" % (64 * count), *images[: 64 * count]))
open("labels.bin", "wb").write(struct.pack("<%di" % count, *labels[:count]))'
for word in silence yes no; do tail -c +45 "$shared/tflm/${word}_1000ms.wav"; done >track.s16
convert() { "$tool" convert "$@" >convert.log 2>&1 || { tail -n 3 convert.log; fail "convert $*"; }; }
convert "$samples/digits.onnx" -o float32.nacre
convert "$samples/digits.onnx" -o float16.nacre --policy float16 --io-types policy
convert "$samples/digits.onnx" -o bfloat16.nacre --policy bfloat16 --io-types policy
convert "$samples/digits.onnx" -o int8.nacre --policy int8/static_from_float32 --calibrate "$samples/digits_images.npy" --cast-samples --io-types policy
convert "$samples/digits.onnx" -o float_io.nacre --policy int8/static_from_float32 --calibrate "$samples/digits_images.npy" --cast-samples
convert "$samples/digits.onnx" -o batch.nacre --batch 256
convert "$samples/digits.onnx" -o train.nacre --train softmax_cross_entropy --optimizer adam --batch 32
convert "$samples/digits.onnx" -o last.nacre --train softmax_cross_entropy --train-last 2 --optimizer adam --batch 32
convert "$shared/silero/silero_vad_openvino_16k.onnx" --state state=stateN -o speech.nacre
convert "$shared/tflm/keyword_scrambled_8bit.tflite" --io-types policy -o keyword.nacre
convert "$shared/tflm/trained_lstm_int8.tflite" --io-types policy -o lstm.nacre

# ---- Programs ----
c=("${CC:-cc}" -std=c99 -Wall -Wextra -Wconversion -Werror -pedantic -O1 -I"$samples/c" -Imade)
cxx=("${CXX:-c++}" -std=c++20 -O1 -I"$root" -Imade)
mkdir made
"$tool" firmware float_io.nacre --target host --name digits -o made >convert.log && "$tool" firmware last.nacre --train --target host --name learner -o made >>convert.log ||
  fail "nacre firmware"
for file in made/*.cc; do "${cxx[@]}" -c "$file" -o "${file%.cc}.o" $(config --cflags nacre) || fail "$file"; done
programs=0
compile() {  # NAME PACKAGES OBJECTS..
  local name=$1 packages=$2
  shift 2
  if "${c[@]}" "$samples/c/$name.c" "$@" -o "$name" $(config --cflags --libs $packages) -lstdc++; then programs=$((programs + 1)); else fail "$name.c"; fi
}
compile infer $fast
compile stream $fast
compile profile $fast
compile threads "$fast nacre-threads"
compile train "$fast nacre-files"
compile static nacre made/digits*.o
compile device $fast made/learner*.o
"${cxx[@]}" "$root/tests/claims/c_whole/peer.cc" -o peer $(config --cflags --libs $fast nacre-threads nacre-files) || fail "peer.cc"
"${cxx[@]}" "$root/tests/claims/c_whole/static_peer.cc" made/digits*.o made/learner*.o -o static_peer $(config --cflags --libs nacre) || fail "static_peer.cc"
[ -z "$failures" ] || exit 1

# ---- Bytes of C and of C++ ----
files=0 bytes=0
# same NAME: the files NAME.c and NAME.cpp are equal, and not empty.
same() {
  if [ -s "$1.c" ] && cmp "$1.c" "$1.cpp"; then files=$((files + 1)) bytes=$((bytes + $(stat -c %s "$1.c"))); else fail "$1: other bytes"; fi
}
# both PROGRAM MODEL INPUT NAME ARGUMENTS..: runs both programs.
both() {
  local program=$1 model=$2 input=$3 name=$4
  shift 4
  ./"$program" "$model" "$input" "$name.c" "$@" >said.txt 2>&1 || { cat said.txt; fail "$program"; }
  ./peer "$program" "$model" "$input" "$name.cpp" "$@" || fail "peer $program"
  same "$name"
}
for type in float32 float16 bfloat16 int8; do both infer $type.nacre some.u8 infer_$type; done
for type in float32 int8; do both profile $type.nacre some.u8 profile_$type; done
grep -q ' us  conv2d' said.txt || fail "profile prints no time of a conv2d"
steps=$(cat profile_*.c | wc -l)
[ "$(cut -d ' ' -f 4 profile_*.c | grep -c '^k')" -eq "$steps" ] || fail "a kernel has no name"
for threads in 1 2 3 4; do both threads batch.nacre all.u8 threads_$threads $threads; cmp threads_1.c threads_$threads.c || fail "$threads threads: other bytes than one"; done
for network in speech keyword lstm; do both stream $network.nacre track.s16 stream_$network; done
# The second stream begins later: where it hears the same frame as the first, its outputs show what each of them remembers.
remembered=$(python3 -c '
at = open("stream_speech.c", "rb").read()
frames = 48000 // 576
alone, size = frames // 2, 4
pairs = at[alone * size:]
print(sum(pairs[i:i + size] != pairs[i + size:i + 2 * size] for i in range(0, len(pairs), 2 * size)))')
[ "$remembered" -gt 0 ] || fail "no output depends on the frames before"

# ---- Power cuts ----
mkdir whole
./peer train train.nacre images.bin labels.bin whole 24 train.cpp || fail "peer train"
kills=0 completed=0
preload() { LD_PRELOAD=$build/tests/libpower_cut.so${LD_PRELOAD:+:$LD_PRELOAD} env POWER_CUT_FILES=/cut/ "$@"; }
saved=0 kept=0
# goes_on: said.txt is of a training that began where the last one had saved, or at a later save. Starts that keep something are counted.
goes_on() {
  local from
  from=$(sed -n 's/^from step //p' said.txt)
  [ "${from:-0}" -ge "$saved" ] || fail "step $saved was saved, and the training goes on from ${from:-nothing}"
  [ "${from:-0}" -eq 0 ] || kept=$((kept + 1))
  saved=$(sed -n 's/^saved step \([0-9]*\),.*/\1/p' said.txt | tail -n 1)
  saved=${saved:-${from:-0}}
}
mkdir cut
preload POWER_CUT_COUNT="$work/calls" ./train train.nacre images.bin labels.bin "$work/cut" 24 train.c >said.txt
same train
calls=$(cat calls)
RANDOM=47
for _ in 1 2 3 4 5 6 7 8; do
  rm -rf cut train.c && mkdir cut
  saved=0
  for _ in 1 2; do
    status=0
    preload POWER_CUT_AT=$((1 + RANDOM * calls / 32768)) ./train train.nacre images.bin labels.bin "$work/cut" 24 train.c >said.txt 2>&1 || status=$?
    case $status in 137) kills=$((kills + 1)) ;; 0) ;; *) cat said.txt; fail "train ends with $status" ;; esac
    goes_on
  done
  ./train train.nacre images.bin labels.bin cut 24 train.c >said.txt 2>&1 || { cat said.txt; fail "a training that was cut off does not end"; }
  goes_on
  same train
  completed=$((completed + 1))
done 2>killed.txt  # the shell's notes on killed processes
# Between two saves, by a signal from outside.
for step in 4 12; do
  rm -rf cut train.c && mkdir cut
  ./train train.nacre images.bin labels.bin cut 400000 train.c >said.txt &
  process=$!
  until grep -q "^saved step $step," said.txt || ! kill -0 $process 2>/dev/null; do sleep 0.01; done
  kill -KILL $process && kills=$((kills + 1))
  wait $process || true
  ./train train.nacre images.bin labels.bin cut 1 train.c >said.txt
  sed -n 's/^from step //p' said.txt >from.txt
  [ "$(cat from.txt)" -ge "$step" ] || fail "killed behind step $step, goes on from $(cat from.txt)"
  end=$(($(cat from.txt) + 3))
  ./train train.nacre images.bin labels.bin cut $end train.c >said.txt
  rm -rf whole && mkdir whole
  ./peer train train.nacre images.bin labels.bin whole $end train.cpp
  same train
done 2>killed.txt
[ "$kills" -ge 12 ] && [ "$kept" -ge 8 ] || fail "$kills kills, $kept starts from a checkpoint"

# ---- Static programs ----
./static <images.bin >static.c 2>said.txt || { cat said.txt; fail "static"; }
./static_peer static images.bin static.cpp
same static
./static_peer device images.bin labels.bin 6 device.cpp
flash=$(./device images.bin labels.bin 6 device.c | sed -n 's/^1 starts, \([0-9]*\) calls.*/\1/p') || fail "device"
same device
cuts=0 cuts_kept=0
for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
  said=$(./device images.bin labels.bin 6 device.c $((1 + (${flash:-1} - 1) * i / 11))) || said=refused
  [[ $said == "2 starts"* ]] && cuts=$((cuts + 1)) || fail "power $i: $said"
  [[ $said == *"from step 0" ]] || cuts_kept=$((cuts_kept + 1))
  same device
done

[ "$cuts_kept" -ge 6 ] || fail "$cuts_kept of $cuts flashes keep a checkpoint"

# ---- Functions ----
sed -n 's/.*\b\(nacre_[a-z0-9_]*\)(.*/\1/p' $(find "$prefix/include/nacre/engine" "$prefix/include/nacre/ports" -name "nacre_c*.h" -o -name "*_c.h") |
  grep -vE '^nacre_(mpi_|arm_.*_to_)' | sort -u >declared.txt
nm --defined-only -g "$(dirname "$(dirname "$pc")")"/*.a 2>/dev/null | sed -n 's/.* T \(nacre_[a-z0-9_]*\)$/\1/p' | sort -u >defined.txt
missing=$(comm -23 declared.txt defined.txt | paste -sd ' ')
[ -z "$missing" ] || fail "not in a library: $missing"
functions=$(comm -12 declared.txt defined.txt | wc -l)

verdict=shown
[ -z "$failures" ] || verdict='NOT SHOWN'
echo "CLAIM c_whole $verdict: ${failures}$programs C99 programs without a warning; $files files of $bytes bytes are those of C++ (4 types of numbers, 3 streams of which $remembered frames show their history, 1 to 4 threads, $steps steps with kernels and tensors); $kills SIGKILLs in $((completed + 2)) trainings, $kept starts from a checkpoint; $cuts cuts of a flash, $cuts_kept starts from its checkpoint; all end with the same state; $functions functions of the headers are in the libraries"
[ "$verdict" = shown ]
