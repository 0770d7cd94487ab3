#!/usr/bin/env bash
# Claim seen_is_run: eval, compare, search, report, the policy table and the demo show results of the kernels of
# `nacre run`.
#
#   names   under --kernels auto, reference and the fastest set of this machine, each command names the set that
#           `run --json` names, in JSON, text, CSV and page
#   times   those of eval, search and report --profile are within 1.3 of the median of `nacre bench`. The commands take
#           turns, and the least time of all rounds counts, so that other load does not decide. More rounds follow while
#           the times differ. If a time stays more than 1.3 but at most 2 times apart, which an unlucky layout of pages
#           can cause, the claim is not shown (77); beyond that it fails
#
# Networks: the digits sample, and four of shared/models that run for 20 us to 10 ms, if they are there.
set -uo pipefail
[ -z "${NACRE_SANITIZED-}" ] || { echo "times of a sanitized build say nothing"; exit 77; }
samples=$NACRE_ROOT/tools/samples
network=$samples/digits.onnx
shared=${NACRE_SHARED-$NACRE_ROOT/../shared}/models
digits=("$samples/digits_images.npy" "$samples/digits_labels.npy" "$samples/digits_test.npy")
set_of=(--data "${digits[0]}" --labels "${digits[1]}" --indices "${digits[2]}" --cast-inputs)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "CLAIM seen_is_run NOT SHOWN: $*"; exit 1; }
nacre() { "$NACRE_TOOL" "$@" 2>"$work/err" || { cat "$work/err"; fail "nacre $*"; }; }
word() { sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" | head -n 1; }
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" | head -n 1; }
names=0 times=0 worst=1
same() {  # WHAT NAME EXPECTED
  [ "$2" = "$3" ] || fail "$1 names the kernels '$2', run has '$3'"
  names=$((names + 1))
}
holds() {  # WHAT FILE TEXT
  grep -qF -- "$3" "$2" || fail "$1 does not say '$3'"
  names=$((names + 1))
}

nacre convert "$network" -o "$work/digits.nacre" >/dev/null
best=$(nacre run "$work/digits.nacre" --seed 1 --json | word kernels)
for kernels in auto reference "$best"; do
  with=(--kernels "$kernels")
  run=$(nacre run "$work/digits.nacre" --seed 1 --json "${with[@]}" | word kernels)
  same bench "$(nacre bench "$work/digits.nacre" --runs 3 --min-ms 0 --warmup-ms 0 --json "${with[@]}" | word kernels)" "$run"
  same "eval --json" "$(nacre eval "$work/digits.nacre" "${set_of[@]}" --json "${with[@]}" | word kernels)" "$run"
  nacre eval "$work/digits.nacre" "${set_of[@]}" "${with[@]}" >"$work/text"
  holds eval "$work/text" "$run"
  two=("$work/digits.nacre" "$work/digits.nacre" --data "${digits[0]}" --cast-inputs "${with[@]}")
  nacre compare "${two[@]}" --json >"$work/json"
  same "compare --json" "$(word kernels_a <"$work/json"), $(word kernels_b <"$work/json")" "$run, $run"
  nacre compare "${two[@]}" --csv "$work/csv" >"$work/text"
  holds compare "$work/text" "(reference), kernels $run"
  holds "compare --csv" "$work/csv" ",$run,$run"
  nacre report "$work/digits.nacre" "${set_of[@]}" --profile "${with[@]}" -o "$work/page" >/dev/null
  holds "report, of its scores" "$work/page" "evaluated with kernels $run"
  holds "report, of its times" "$work/page" "per run with kernels $run"
  nacre search "$network" "${set_of[@]}" --policies float32,bfloat16 --budget 3 --json "${with[@]}" >"$work/json"
  same "search --json" "$(word kernels <"$work/json")" "$run"
  "$NACRE_BUILD/tools/policy_table" "$network" "${digits[@]}" "${with[@]}" float32 >"$work/text" || fail "policy_table"
  holds policy_table "$work/text" " $run "
  "$NACRE_BUILD/tools/digits" "$work/digits.nacre" "${digits[@]}" "$kernels" >"$work/text" || fail "digits"
  holds digits "$work/text" "median, $run kernels"
done

# Writes one label, 0, in numpy's format.
{ printf '\x93NUMPY\x01\x00\x76\x00'
  printf "%-117s\n" "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
  printf '\0\0\0\0'; } >"$work/label.npy"
# least FILE: prints the least of the numbers in a file.
least() { sort -g "$1" | head -n 1; }
round() {  # MODEL EVAL_ARGUMENTS: one of each, in turns
  local model=$1
  shift
  nacre bench "$model" --runs 20 --min-ms 100 --warmup-ms 20 --json | number median_us >>"$work/bench"
  nacre eval "$model" "$@" --json | number median_us >>"$work/eval"
  nacre report "$model" --profile -o "$work/page" >/dev/null
  sed -n 's/.*Median of [0-9]* runs*: \([0-9.]*\) us, with.*/\1/p' "$work/page" | head -n 1 >>"$work/report"
}
ratio() { awk -v a="$(least "$1")" -v b="$(least "$work/bench")" 'BEGIN { r = a / b; print r < 1 ? 1 / r : r }'; }
timed() {  # NAME MODEL EVAL_ARGUMENTS
  local name=$1 what apart
  shift
  rm -f "$work"/{bench,eval,report}
  for i in {1..16}; do
    round "$@"
    apart=$(for what in eval report; do ratio "$work/$what"; done | sort -g | tail -n 1)
    if [ "$i" -gt 1 ] && awk -v a="$apart" 'BEGIN { exit !(a <= 1.2) }'; then break; fi
  done
  printf '%s: bench %s us, eval %s, report %s\n' "$name" "$(least "$work/bench")" "$(least "$work/eval")" "$(least "$work/report")"
  awk -v a="$apart" 'BEGIN { exit !(a <= 2) }' || fail "$name: times are $apart apart after $i rounds"
  worst=$(printf '%s\n' "$worst" "$apart" | sort -g | tail -n 1)
  times=$((times + 2))
}
timed digits "$work/digits.nacre" "${set_of[@]}"
networks=1
for file in mlperf_tiny/kws_ref_model mlperf_tiny/ad01_int8 mlperf_tiny/vww_96_float tflm/mobilenet_v2_quantized_1x3x224x224; do
  [ -f "$shared/$file.tflite" ] || continue
  name=$(basename "$file")
  nacre convert "$shared/$file.tflite" -o "$work/$name.nacre" >/dev/null
  nacre run "$work/$name.nacre" --seed 1 --all-tensors "$work/$name" >/dev/null
  input=$(find "$work/$name" -name 'input_*.npy' | head -n 1)
  timed "$name" "$work/$name.nacre" --data "$input" --labels "$work/label.npy"
  rm -rf "${work:?}/$name"
  networks=$((networks + 1))
done
# A search measures models that it compiles: the first is convert's own.
rm -f "$work"/{bench,search}
for i in 1 2 3 4 5 6; do
  nacre bench "$work/digits.nacre" --runs 20 --min-ms 100 --warmup-ms 20 --json | number median_us >>"$work/bench"
  nacre search "$network" "${set_of[@]}" --policies float32,bfloat16 --budget 3 --max-time-us 1000000 --json >"$work/json"
  sed -n '/"reference": {/,/}/p' "$work/json" | number microseconds >>"$work/search"
  apart=$(ratio "$work/search")
  if [ "$i" -gt 1 ] && awk -v a="$apart" 'BEGIN { exit !(a <= 1.2) }'; then break; fi
done
printf 'search: bench %s us, search %s\n' "$(least "$work/bench")" "$(least "$work/search")"
awk -v a="$apart" 'BEGIN { exit !(a <= 2) }' || fail "search: times are $apart apart"
worst=$(printf '%s\n' "$worst" "$apart" | sort -g | tail -n 1)
awk -v a="$worst" 'BEGIN { exit !(a <= 1.3) }' || { echo "CLAIM seen_is_run NOT SHOWN: $names names of kernels are those of run; times are up to $worst apart"; exit 77; }
printf 'CLAIM seen_is_run shown: %d names of kernels equal to those of run under 3 choices; %d times of %d networks within 1.3 of bench, at most %.2f apart\n' \
  "$names" "$((times + 1))" "$networks" "$worst"
