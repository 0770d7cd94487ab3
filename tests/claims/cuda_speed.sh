#!/usr/bin/env bash
# Claim: bench/cuda.sh times the CUDA port on a GPU beside the goals G1 to G15. NOT SHOWN on a machine without a GPU.
# There the script makes its models and runs all of `times` on the simulated device, whose times mean nothing, with
# and without a peer. NACRE_BUILD: a build with tests/claim_tests; NACRE_TOOL: its nacre.
set -euo pipefail
cd "$(dirname "$0")/../.."
not_shown() { echo "CLAIM cuda_speed NOT SHOWN: $*"; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CUDA_FOLDER=$folder CUDA_PROGRAM=$NACRE_BUILD/tests/claim_tests CUDA_DEVICE=simulated NACRE_SHARED=
bash bench/cuda.sh models 2>"$folder/log" || { tail -n 5 "$folder/log"; not_shown "the models are not made"; }

# A peer that takes 1 us for every request, and ends in the middle of the rounds.
cat >"$folder/peer.sh" <<'END'
printf 'a test\ttorch/graph/infer_mlp10 torch/eager/infer_mlp10\n'
while read -r _ _ count; do
  asked=$((asked + 1))
  [ "$asked" -lt 24 ] || exit 0
  echo "$((count * 1000))"
done
END
times() {
  local status=0
  rm -f "$folder/times.jsonl"
  bash bench/cuda.sh times >"$folder/said" || status=$?
  [ "$status" = 77 ] || { tail -n 5 "$folder/said"; not_shown "cuda.sh times ended with $status"; }
  [ -f "$folder/times.jsonl" ] && [ ! -e "$folder/times.jsonl.partial" ] || not_shown "it wrote no times.jsonl"
  for goal in $(seq 15); do
    grep -q "^G$goal " "$folder/said" || not_shown "the table has no goal G$goal"
    grep -q "^{\"goal\":\"G$goal\"," "$folder/times.jsonl" || not_shown "times.jsonl has no goal G$goal"
  done
}

CUDA_PEER="sh $folder/peer.sh" times
grep -qE '^G9 +(missed|reached) .*batch 1, .* other 1\.00 us' "$folder/said" || not_shown "no ratio to the peer"
claim=$(grep ^CLAIM "$folder/said")
echo "CLAIM cuda_equal shown: a line of the test" >"$folder/checks.txt"
CUDA_SECONDS=2 times  # runs cuda_torch.py itself, in less time than it takes
grep -qE '^G14 +reached ' "$folder/said" || not_shown "what was checked before is not in the table"
grep -qE ' of 7 rounds in [0-9]+ s of at most [12];' "$folder/said" || not_shown "it does not say its limit"
echo "$claim"
exit 77
