#!/usr/bin/env bash
# Claim: converting the same input twice, in different folders, under another name and in another environment, gives
# the same bytes.
set -uo pipefail
tool=$NACRE_TOOL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
networks=("$NACRE_ROOT/tools/samples/digits.onnx")
for file in "${NACRE_SHARED-$NACRE_ROOT/../shared}"/models/mlperf_tiny/*.tflite; do [ ! -f "$file" ] || networks+=("$file"); done

same=0 different=
mkdir -p "$work/a" "$work/b/another folder"
for network in "${networks[@]}"; do
  name=$(basename "$network")
  cp "$network" "$work/b/another folder/copy of $name"
  ("$tool" convert "$network" -o "$work/a/model.nacre" --golden 1 >/dev/null) || { echo "CLAIM reproducible_bytes NOT SHOWN: $name cannot be converted"; exit 1; }
  (cd "$work/b/another folder" && env -i PATH="$PATH" TZ=Asia/Tokyo LC_ALL=C nice "$tool" convert "copy of $name" -o model.nacre --golden 1 >/dev/null) || exit 1
  first=$(sha256sum <"$work/a/model.nacre") second=$(sha256sum <"$work/b/another folder/model.nacre")
  echo "$name ${first%% *}"
  if [ "$first" = "$second" ]; then same=$((same + 1)); else different+=" $name"; fi
done
[ -z "$different" ] || { echo "CLAIM reproducible_bytes NOT SHOWN: other bytes for$different"; exit 1; }
echo "CLAIM reproducible_bytes shown: $same of ${#networks[@]} networks give the same sha256 in two folders"
