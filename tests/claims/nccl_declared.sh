#!/usr/bin/env bash
# Checks NVIDIA's NCCL without a GPU: ports/cuda/nccl.h declares the same as its header (declared/nccl.cc); the library
# has these functions and tells its version. It brings NCCL from PyPI (200 MB), so no other test runs it; its output is
# in nccl_declared.txt. It needs g++ and CUDA's headers (NACRE_CUDA, else /usr/local/cuda).
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip -q download --no-deps --only-binary :all: -d "$work" "${NACRE_NCCL:-nvidia-nccl-cu13==2.32.3}" >&2
python3 -m zipfile -e "$work"/*.whl "$work"
g++ -std=c++20 -I. -isystem "$work/nvidia/nccl/include" -isystem "${NACRE_CUDA:-/usr/local/cuda}/include" -fsyntax-only -Wall -Wextra ports/cuda/declared/nccl.cc ||
  { echo "CLAIM nccl_declared NOT SHOWN: other declarations"; exit 1; }
cat >"$work/load.cc" <<'END'
#include <cstdio>

#include "ports/cuda/nccl.h"

int main() {
  const nacre::cuda::Nccl* const nccl = nacre::cuda::load_nccl();
  int version = 0;
  if (nccl == nullptr || nccl->version(&version) != nacre::cuda::kNcclSuccess) return 1;
  std::printf("%d\n", version);
}
END
g++ -std=c++20 -I. "$work/load.cc" ports/cuda/nccl.cc -o "$work/load"
version=$(LD_LIBRARY_PATH=$work/nvidia/nccl/lib "$work/load") || { echo "CLAIM nccl_declared NOT SHOWN: the library does not load, or lacks a function"; exit 1; }
if [ -z "$(ldconfig -p | grep libnccl)" ] && "$work/load" >/dev/null; then echo "CLAIM nccl_declared NOT SHOWN: it loads where there is none"; exit 1; fi
echo "CLAIM nccl_declared shown: 9 functions as <nccl.h> declares them; libnccl.so.2 has them, and tells version $version"
