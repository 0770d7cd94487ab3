#!/usr/bin/env bash
# Claim: however the standard streams of a command are closed or full, only its outputs change, and they have the
# bytes of an undisturbed run. The exit code is 5 if standard output cannot be written, else the command's own. A
# closed stream counts as the null device. A training whose terminal hangs up saves, and goes on to the same bytes.
#   NACRE_LONG=1   every state of each of the three streams with every state of the others
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "every command many times: too long in a sanitized build"; exit 77; }
[ -c /dev/full ] || { echo "this system has no device that is always full"; exit 77; }
tool=$NACRE_TOOL samples=$NACRE_ROOT/tools/samples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM streams_closed NOT SHOWN: $*"; exit 1; }
cd "$work" || exit 1
mkdir in
cp "$samples/digits.onnx" in/net.onnx
# Writes the first ROWS images and labels: the 128 bytes of the .npy header with the new number of rows, then the
# elements.
rows=64
cut_rows() { head -c 128 "$1" | sed "s/(1797/($rows/;s/}\( *\)\$/}\1  /" | head -c 127; printf '\n'; tail -c +129 "$1" | head -c $(($2 * rows)); }
cut_rows "$samples/digits_images.npy" 64 >in/x.npy
cut_rows "$samples/digits_labels.npy" 1 >in/y.npy
"$tool" convert in/net.onnx -o in/a.nacre >log.txt 2>&1 && "$tool" convert in/net.onnx -o in/b.nacre --policy float16 >>log.txt 2>&1 &&
  "$tool" convert in/net.onnx -o in/train.nacre --train softmax_cross_entropy --train-last 1 --batch 16 >>log.txt 2>&1 &&
  "$tool" tune in/train.nacre --data in/x.npy --labels in/y.npy --cast-samples --epochs 1 --checkpoint in/ck >>log.txt 2>&1 || { cat log.txt; fail "the inputs"; }
printf 'no network' >in/broken.onnx

set="--data in/x.npy --labels in/y.npy --cast-inputs"
tune="--data in/x.npy --labels in/y.npy --cast-samples --batch 16 --epochs 2"
commands=(  # CODE WORDS..
  "0 inspect in/a.nacre --svg out/a.svg --html out/a.html" "0 inspect in/net.onnx" "0 size in/a.nacre" "0 check in/a.nacre"
  "0 kernels in/a.nacre -o out/k.h" "0 kernels" "0 bench in/a.nacre --runs 2 --min-ms 0 --warmup-ms 0" "0 firmware in/a.nacre -o out/src"
  "0 policies" "0 doctor" "0 completions bash" "0 man -o out/man" "0 convert in/net.onnx -o out/m.nacre --emit-policy out/p.json"
  "0 convert in/net.onnx -o out/m.nacre --json" "0 run in/a.nacre --seed 1 --output out/y --all-tensors out/all"
  "0 compare in/a.nacre in/b.nacre --data in/x.npy --cast-inputs --csv out/c.csv" "0 eval in/a.nacre in/b.nacre $set" "0 report in/a.nacre in/b.nacre $set --no-latency -o out/r.html"
  "0 search in/net.onnx $set --policies float32,float16 --max-drop 50 --budget 3 -o out/map.json"
  "0 tune in/net.onnx --loss softmax_cross_entropy --train-last 1 $tune --checkpoint out/ck -o out/t.nacre --csv out/t.csv --html out/t.html"
  "0 tune in/train.nacre $tune -o out/t.nacre" "0 export in/train.nacre --checkpoint in/ck -o out/e.nacre" "0 --help" "0 --version" "0 convert --help"
  "2 tune in/train.nacre $tune" "2 nothing" "3 convert in/broken.onnx -o out/m.nacre" "3 check in/broken.onnx" "5 inspect in/nowhere.nacre" "1 eval in/a.nacre in/b.nacre $set --max-drop -0")
listed() { (cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2); }
before=$(listed in)
# in_streams IN OUT ERR WORDS..: runs a command. Each stream is closed, full, read (a file that is only read) or free.
in_streams() (
  local in=$1 out=$2 err=$3
  shift 3
  case $err in closed) exec 2>&- ;; full) exec 2>/dev/full ;; read) exec 2<in/y.npy ;; *) exec 2>said.txt ;; esac
  case $out in closed) exec >&- ;; full) exec >/dev/full ;; read) exec 1<in/y.npy ;; *) exec >printed.txt ;; esac
  case $in in closed) exec <&- ;; *) exec </dev/null ;; esac
  exec "$tool" "$@"
)
ways=("closed free free" "free closed free" "free free closed" "free closed closed" "closed closed closed" "free full free" "free free full" "free full full")
if [ "${NACRE_LONG-0}" = 1 ]; then
  ways=()
  for in in free closed; do for out in free closed full read; do for err in free closed full read; do ways+=("$in $out $err"); done; done; done
fi

runs=0
for line in "${commands[@]}"; do
  IFS=' ' read -ra words <<<"$line"
  code=${words[0]}
  words=("${words[@]:1}")
  rm -rf out && mkdir out
  in_streams free free free "${words[@]}"
  status=$?
  [ "${words[*]: -1}" != -0 ] || code=$status  # eval --max-drop -0 may end with either verdict
  [ $status -eq "$code" ] || { cat said.txt; fail "${words[*]} ends with $status, not $code"; }
  whole=$(listed out)
  prints=$([ -s printed.txt ] && echo 1 || echo 0)
  for way in "${ways[@]}"; do
    IFS=' ' read -r in out err <<<"$way"
    rm -rf out && mkdir out
    in_streams "$in" "$out" "$err" "${words[@]}" 2>/dev/null
    status=$?
    expected=$code
    case $out in full | read) [ "$code" -ne 0 ] || [ $prints -eq 0 ] || expected=5 ;; esac
    [ $status -eq "$expected" ] || fail "${words[*]} ends with $status, not $expected, where its streams are $way"
    [ "$before" = "$(listed in)" ] || fail "${words[*]} changed an input where its streams are $way"
    [ "$whole" = "$(listed out)" ] || fail "${words[*]} wrote other outputs where its streams are $way"
    if [ $expected -eq 5 ] && [ "$code" -eq 0 ] && [ "$err" = free ]; then
      grep '^nacre: standard output: cannot be written: ' said.txt >said_line.txt || fail "${words[*]} does not say that standard output cannot be written"
    fi
    runs=$((runs + 1))
  done
done
said=$("$tool" convert in/net.onnx -o - 2>&1 >&-) && fail "a model for a closed standard output"
grep 'is standard output, and that is closed' <<<"$said" >said_line.txt || fail "a model for a closed standard output: $said"

# ---- A terminal that hangs up: the shell and the system send SIGHUP each ----
hang_up() {  # PROCESS LOG
  until grep -s '^epoch   1' "$2" >said_line.txt || ! kill -0 "$1" 2>/dev/null; do sleep 0.01; done
  kill -HUP "$1" 2>/dev/null
  sleep 0.002
  kill -HUP "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}
# All its epochs take a second or more after the first, so a signal, or the end of a reader, reaches it at work on a
# busy machine too.
train=(tune in/net.onnx --loss softmax_cross_entropy --train-last 2 --data "$samples/digits_images.npy" --labels "$samples/digits_labels.npy" --cast-samples --batch 16 --epochs 60)
"$tool" "${train[@]}" -o out/whole.nacre >printed.txt 2>&1 || { cat printed.txt; fail "a training"; }
hears_hup=(env --default-signal=HUP)  # even below nohup
"${hears_hup[@]}" "$tool" "${train[@]}" --checkpoint out/hung -o out/hung.nacre >hung.txt 2>&1 &
hang_up $! hung.txt
status=$?
[ $status -eq 129 ] || fail "a training whose terminal hangs up ends with $status, not by the signal"
grep 'what was learned is in out/hung' hung.txt >said_line.txt || fail "a training whose terminal hangs up does not say where it saved"
"$tool" "${train[@]}" --checkpoint out/hung -o out/hung.nacre >printed.txt 2>&1 && grep '^goes on from' printed.txt >said_line.txt || fail "it does not go on"
cmp -s out/whole.nacre out/hung.nacre || fail "a training that hung up and went on has other bytes"
"${hears_hup[@]}" "$tool" "${train[@]}" -o out/alone.nacre >alone.txt 2>&1 &
hang_up $! alone.txt
[ -s out/alone.nacre ] || { cat alone.txt; fail "a training without a checkpoint whose terminal hangs up keeps nothing"; }

# ---- Warnings that nobody reads ----
"$tool" "${train[@]}" --csv /dev/full -o out/unread.nacre 2> >(head -c 1 >/dev/null) >printed.txt
status=$?
[ $status -eq 5 ] && cmp -s out/whole.nacre out/unread.nacre || fail "a training whose warnings have no reader ends with $status"
# ---- A log whose reader ends: the training goes on ----
"$tool" "${train[@]}" -o out/piped.nacre 2>printed.txt | head -n 1 >said_line.txt
status=${PIPESTATUS[0]}
[ $status -eq 5 ] && cmp -s out/whole.nacre out/piped.nacre || fail "a training whose log has no reader ends with $status"

# ---- Samples from standard input ----
"$tool" eval in/a.nacre --data - --labels in/y.npy --cast-inputs <in/x.npy >printed.txt 2>&1 || { cat printed.txt; fail "eval of samples from standard input"; }

# ---- Standard streams that are open on an input ----
refused() {  # WHAT STATUS
  [ "$2" -eq 2 ] && cmp -s "$samples/digits.onnx" out/net.onnx || fail "$1 ends with $2, or its input is overwritten"
}
cp in/net.onnx out/net.onnx
"$tool" convert - -o out/net.onnx <out/net.onnx >printed.txt 2>&1
refused "an output that is the file of standard input" $?
"$tool" convert - -o out/piped.nacre --emit-policy out/net.onnx <out/net.onnx >printed.txt 2>&1
refused "a side output that is the file of standard input" $?
"$tool" convert out/net.onnx -o - >>out/net.onnx 2>printed.txt
refused "an output at the end of its input" $?
"$tool" inspect out/net.onnx 1<>out/net.onnx 2>printed.txt
refused "text that is printed over its input" $?
echo "CLAIM streams_closed shown: ${#commands[@]} commands in ${#ways[@]} ways, $runs runs: exit codes right, inputs as they were, outputs the same bytes; SIGHUP saves and goes on"
