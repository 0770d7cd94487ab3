#!/usr/bin/env bash
# Claim: a file that a command reads may be removed, replaced, cut or overwritten while the command runs. The command
# then ends with the bytes of an undisturbed run, or refuses and writes nothing. The claim stops the command in each
# phase, from the moment when it has read its inputs to its end, changes the file, and lets the command go on.
#   NACRE_LONG=1   12 phases instead of 2
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "a hundred commands: too long in a sanitized build"; exit 77; }
[ -r /proc/self/io ] || { echo "this system does not count what a process reads"; exit 77; }
tool=$NACRE_TOOL samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM inputs_change NOT SHOWN: $*"; exit 1; }
cd "$work" || exit 1
phases=2
[ "${NACRE_LONG-0}" != 1 ] || phases=12
mkdir good other
cp "$samples/digits.onnx" good/net.onnx
# Writes the first ROWS images and labels: the 128 bytes of the .npy header with the new number of rows, then the
# elements.
rows=96
cut_rows() { head -c 128 "$1" | sed "s/(1797/($rows/;s/}\( *\)\$/}\1  /" | head -c 127; printf '\n'; tail -c +129 "$1" | head -c $(($2 * rows)); }
cut_rows "$samples/digits_images.npy" 64 >good/x.npy
cut_rows "$samples/digits_labels.npy" 1 >good/y.npy
"$tool" convert good/net.onnx -o good/a.nacre >log.txt 2>&1 && "$tool" convert good/net.onnx -o good/b.nacre --policy float16 >>log.txt 2>&1 || { cat log.txt; fail "the models"; }
printf '{"default": "int8/static_from_float32"}\n' >good/p.json
# Other inputs of the same length: the network after one epoch of training, and images and labels in another order.
"$tool" convert good/net.onnx -o train.nacre --train softmax_cross_entropy --batch 32 >>log.txt 2>&1 &&
  "$tool" tune train.nacre --data good/x.npy --labels good/y.npy --cast-samples --lr 0.05 --epochs 1 --checkpoint ck >>log.txt 2>&1 &&
  "$tool" export train.nacre --checkpoint ck --network good/net.onnx --onnx -o other/net.onnx >>log.txt 2>&1 || { cat log.txt; fail "another network"; }
shifted() { head -c 128 "$1"; tail -c +$((129 + $2)) "$1"; head -c $((128 + $2)) "$1" | tail -c +129; }
shifted good/x.npy 2560 >other/x.npy
shifted good/y.npy 40 >other/y.npy
cp good/b.nacre other/a.nacre
cp good/a.nacre other/b.nacre
printf '{"default": "float16_from_float32"}\n' >other/p.json
! cmp -s good/net.onnx other/net.onnx || fail "the other network is the same"

set="--data in/x.npy --labels in/y.npy --cast-inputs"
commands=(  # INPUTS: WORDS..
  "net.onnx,x.npy,p.json: convert in/net.onnx --policy-file in/p.json --calibrate in/x.npy --cast-samples -o out/m.nacre"
  "net.onnx,x.npy,y.npy: tune in/net.onnx --loss softmax_cross_entropy --train-last 1 --data in/x.npy --labels in/y.npy --cast-samples --epochs 3 --validate 0.2 -o out/t.nacre"
  "a.nacre,b.nacre,x.npy,y.npy: eval in/a.nacre in/b.nacre $set --json"
  "net.onnx,x.npy,y.npy: report in/net.onnx --policies float32,int8/static_from_float32 $set --no-latency -o out/r.html"
  "a.nacre,x.npy,y.npy: report in/a.nacre in/b.nacre $set --no-latency -o out/r.html")
change() {  # WAY FILE
  case $1 in
    removed) rm "in/$2" ;;
    replaced) cp "other/$2" "in/$2.new" && mv "in/$2.new" "in/$2" ;;
    cut) truncate -s $(($(stat -c %s "in/$2") / 2)) "in/$2" ;;
    overwritten) cat "other/$2" >"in/$2" ;;
  esac
}
begin() { rm -rf in out && cp -r good in && mkdir out; }
# Removes times, because they depend on the machine.
result() { (find out -type f -exec cat {} + ; sed -E 's/"(median_us|p99_us|microseconds)": [0-9.e+-]+/"\1": 0/;s/[0-9.]+ us/us/g' printed.txt) | sed -E 's/[0-9.,]+ (&micro;s|us|µs)/us/g' | sha256sum; }
# Waits until this process has read this many bytes, or has ended. A command reads its inputs when it begins.
until_read() {
  local name count
  while kill -0 "$1" 2>/dev/null && { read -r name count <"/proc/$1/io"; } 2>/dev/null && [ "$name" = rchar: ] && [ "$count" -lt "$2" ]; do :; done
}

# Counts the bytes of libraries that a process reads before any input. The process then waits for standard input.
mkfifo gate
"$tool" inspect - <gate >printed.txt 2>&1 &
waiting=$!
exec 3>gate
until read -r _ file _ <"/proc/$waiting/syscall" && [ "$file" = 0x0 ] && [ "$(cat "/proc/$waiting/comm")" = "$(basename "$tool" | head -c 15)" ]; do :; done 2>/dev/null
read -r _ libraries <"/proc/$waiting/io"
exec 3>&-
wait $waiting

same=0 refused=0 missed=0
for line in "${commands[@]}"; do
  IFS=',' read -ra inputs <<<"${line%%: *}"
  IFS=' ' read -ra words <<<"${line#*: }"
  begin
  first=$(date +%s%N)
  "$tool" "${words[@]}" >printed.txt 2>said.txt || { cat said.txt; fail "${words[*]}"; }
  took=$((($(date +%s%N) - first) / 1000))
  whole=$(result)
  bytes=$libraries
  for input in $(printf '%s\n' "${words[@]}" | sed -n 's,^in/,,p' | sort -u); do bytes=$((bytes + $(stat -c %s "good/$input"))); done
  for input in "${inputs[@]}"; do
    for way in removed replaced cut overwritten; do
      for ((phase = 0; phase < phases; ++phase)); do
        begin
        "$tool" "${words[@]}" >printed.txt 2>said.txt &
        process=$!
        until_read $process $bytes
        [ $phase -eq 0 ] || sleep "$(printf '%d.%06d' $((took * phase / phases / 1000000)) $((took * phase / phases % 1000000)))"
        kill -STOP $process 2>/dev/null || missed=$((missed + 1))
        change "$way" "$input"
        kill -CONT $process 2>/dev/null
        wait $process
        status=$?
        if [ $status -eq 0 ]; then
          [ "$whole" = "$(result)" ] || fail "${words[0]}: $input $way in phase $phase of $phases: another result than undisturbed"
          same=$((same + 1))
        else
          { [ $status -eq 3 ] || [ $status -eq 5 ]; } && grep '^nacre: ' said.txt >said_line.txt || { cat said.txt; fail "${words[0]}: $input $way in phase $phase: ends with $status"; }
          [ -z "$(ls out)" ] || fail "${words[0]}: $input $way in phase $phase: refused, and wrote"
          refused=$((refused + 1))
        fi
      done
    done
  done
done
[ $missed -lt $(((same + refused) / 3)) ] || fail "$missed of $((same + refused)) commands had ended before their input was changed"
echo "CLAIM inputs_change shown: ${#commands[@]} commands, $((same + refused)) changes of inputs (removed, replaced, cut, overwritten) in $phases phases: $same with the start's result, $refused refused with nothing written; $missed came after the end"
