#!/usr/bin/env bash
# Times Nacre's dense layers and convolutions beside those of Debian's oneDNN and XNNPACK, on one core.
#
#   bench/peers/layers.sh gemm|convolution [options of layer_peers]
#   bench/peers/layers.sh gemm --rounds 11 --json build/gemm.json                an example
#
# Installs the group gemm_peers of tools/packages.sh, builds layer_peers in NACRE_BUILD [build/bench] and runs it. The
# head of layer_peers.cc describes the options and the output.
#
# oneDNN uses AMX if the processor has it, Nacre only with --kernels amx. ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 keeps
# both to the same instructions. The output names the instruction sets that oneDNN may use.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/packages.sh"

build=${NACRE_BUILD:-$root/build/bench}
need_packages build tools tests gemm_peers
[[ -f $build/build.ninja ]] || meson setup "$build" "$root" --buildtype=release -Dbench=true >&2
if ! ninja -C "$build" bench/layer_peers >&2; then
  # A folder that was set up before the libraries were installed lacks the program.
  meson setup --wipe "$build" "$root" >&2
  ninja -C "$build" bench/layer_peers >&2
fi
exec "$build/bench/layer_peers" "$@"
