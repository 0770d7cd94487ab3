# The facts that a version's files give: . tests/old_files/facts.sh; facts_of NACRE FOLDER
#
# Prints one line a fact, the same for the version that wrote the files and for every later one:
#
#   run FILE TARGET SHA256        outputs of three inputs, by the reference kernels, or by kernels that give the same bytes
#   run FILE TARGET near          outputs by kernels that add in another order: near those of the reference (near.py)
#   export FILE SHA256            outputs of the model that `nacre export` writes of its checkpoint
#   network FILE SHA256           the same with --network, of the source's file
#   resume FILE SHA256 SHA256     epochs, and outputs of the tuned model, of a training that goes on from its checkpoint
#
# A program for the host runs by the reference kernels, one for another target by the kernels that the target names. A line
# ends in `-` where the tool refuses, and in `absent` where this processor lacks the target's instructions.
facts_of() {
  local nacre=$1 folder=$2 work file name target
  work=$(mktemp -d)
  # outputs MODEL [OPTION...]: the hash of what it gives.
  outputs() {
    rm -rf "$work/out"
    if "$nacre" run "$@" --input "$folder/inputs.npz" --output "$work/out" >/dev/null 2>"$work/err"; then cat "$work"/out/*.npy | sha256sum | cut -c 1-64
    elif grep -q 'does not have its instructions' "$work/err"; then echo absent
    else echo -; fi
  }
  local reference=(--kernels reference) kernels hash exact
  for file in "$folder"/*.nacre; do
    name=$(basename "$file" .nacre)
    if [ ! -d "$folder/$name.checkpoint" ]; then
      # The host's program is the first one.
      for target in $(cat "$folder/$name.targets"); do
        kernels=()
        [ "$target" != host ] || kernels=("${reference[@]}")
        hash=$(outputs "$file" --target "$target" "${kernels[@]}")
        if [ "$target" = host ]; then
          exact=$hash
          rm -rf "$work/exact"
          cp -r "$work/out" "$work/exact"
        elif [ "$hash" != "$exact" ] && [ ${#hash} -eq 64 ] && python3 tests/old_files/near.py "$work/exact" "$work/out"; then
          hash=near
        fi
        echo "run $name $target $hash"
      done
      continue
    fi
    echo "run $name host $(outputs "$file" "${reference[@]}")"
    "$nacre" export "$file" --checkpoint "$folder/$name.checkpoint" -o "$work/exported.nacre" >/dev/null 2>"$work/err" || rm -f "$work/exported.nacre"
    echo "export $name $(outputs "$work/exported.nacre" "${reference[@]}")"
    "$nacre" export "$file" --checkpoint "$folder/$name.checkpoint" --network "$folder/network.onnx" -o "$work/exported.nacre" >/dev/null 2>"$work/err" ||
      rm -f "$work/exported.nacre"
    echo "network $name $(outputs "$work/exported.nacre" "${reference[@]}")"
    rm -rf "$work/checkpoint"
    cp -r "$folder/$name.checkpoint" "$work/checkpoint"
    "$nacre" tune "$file" --data "$folder/images.npy" --labels "$folder/labels.npy" --cast-samples --epochs 2 $(cat "$folder/$name.options") --kernels reference \
      --checkpoint "$work/checkpoint" --csv "$work/epochs.csv" -o "$work/tuned.nacre" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; rm -f "$work/tuned.nacre"; }
    echo "resume $name $(sha256sum <"$work/epochs.csv" | cut -c 1-64) $(outputs "$work/tuned.nacre" "${reference[@]}")"
    rm -f "$work/exported.nacre" "$work/tuned.nacre" "$work/epochs.csv"
  done
  rm -rf "$work"
}
