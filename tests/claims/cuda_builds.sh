#!/usr/bin/env bash
# Claim: nvcc compiles every entry of the reference, and the kernels around products, for the device (sm_90; with
# --long for every target). No kernel is silently empty. The kernels listed below spill no registers. driver.h and
# cublaslt.h agree with <cuda.h> and <cublasLt.h>. The program of bench/cuda.sh links. A program with the port starts
# on a machine without CUDA and says so in one sentence.
#
# If a constexpr function calls one that is not, nvcc drops the body of the kernel without a message. So the
# instructions of each kernel are counted in its PTX.
set -euo pipefail
cd "$(dirname "$0")/../.."

not_shown() { echo "CLAIM cuda_builds NOT SHOWN: $*"; exit 1; }

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if ! [ -x "$nvcc" ]; then
  echo "CLAIM cuda_builds NOT SHOWN: no nvcc on this machine"
  exit 77
fi
targets=90
[ "${NACRE_LONG:-0}" != 1 ] || targets=75,80,86,89,90,100,120
build=build/cuda
log=$build.log
mkdir -p build
options=(--buildtype=release -Dtools=false -Dcuda=enabled -Dport_tests=true "-Dgpu_targets=$targets")
known=$([ -f "$build/build.ninja" ] && echo configure || echo setup)
if ! meson "$known" "$build" "${options[@]}" >"$log" 2>&1; then
  tail -n 5 "$log"
  not_shown "meson setup failed"
fi
if ! ninja -C "$build" ports/cuda/cuda_device ports/cuda/libcheck_declarations.a tests/cuda_claims >>"$log" 2>&1; then
  grep -nE 'error|FAILED' "$log" | head -n 10
  not_shown "it does not compile; see $log"
fi

# Counts the kernels, the instructions of the smallest one but count_step (whose one addition is no loop), and the
# kernels that store nothing.
read -r kernels least smallest silent < <(awk '
  /^\.visible \.entry/ { name = $3; sub(/\(.*/, "", name); inside = 1; count = stores = 0; next }
  inside && /^}/ {
    inside = 0; total++
    if (stores == 0) silent = silent "," name
    if (name !~ /^nacre_kCountStepU32(Many)?$/ && (least == 0 || count < least)) { least = count; smallest = name }
    next
  }
  inside && /;$/ && !/^[ \t]*\./ { count++; if (/[ \t](st|red|atom)\./ && !/st\.(local|param)/) stores++ }
  END { print total, least, smallest, (silent == "" ? "-" : silent) }' "$build"/ports/cuda/*.ptx)
read -r expected modules < <("$build"/ports/cuda/cuda_device | sed -n 's/^\([0-9]*\) kernels in \([0-9]*\) modules$/\1 \2/p')
[ "$kernels" = "$expected" ] || not_shown "$kernels kernels of $expected"
[ "$least" -ge 65 ] || not_shown "$smallest has $least instructions: a part of it is empty"
[ "$silent" = - ] || not_shown "these kernels store nothing: ${silent#,}"

# Checks the spills of all targets: none in the kernels listed below, and at most 64 bytes in any other.
listed='kDenseF32 kDenseBf16 kDenseF16 kDenseI8Double kDenseFloat8F32 kConv2dF32 kConv2dBf16 kConv2dI8Double
kDepthwiseConv2dF32 kDepthwiseConv2dBf16 kDepthwiseConv2dI8Double kDenseGradientXF32 kDenseGradientXBf16 kDenseGradientWF32
kDenseGradientWBf16 kConv2dGradientXF32 kBatchedMatmulF32 kSoftmaxF32 kLayerNormF32 kAddF32 kClampF32 kAveragePoolF32
kMaxPoolF32 kFakeFloat8F32 kSgdF32 kMomentumF32 kAdamF32 kAdamWF32 kAdamF32Many kAdamWF32Many kFakeFloat8Bf16E4M3TurnedMany
kFakeFloat8F32E5M2TurnedMany kUsesE5M2 kTurnedColumnsE4M3'
read -r spilling most < <(awk '
  /Compiling entry function/ { name = $0; sub(/.*function .nacre_/, "", name); sub(/. for .*/, "", name) }
  /bytes spill stores/ { split($0, part, ","); if (part[2] + 0 > 0) { spills[name] = 1; if (part[2] + 0 > most) most = part[2] + 0 } }
  END { for (name in spills) all = all "," name; print (all == "" ? "-" : all), most + 0 }' "$build"/ports/cuda/*.report)
for name in $listed; do
  grep -qE "entry function .nacre_$name. for" "$build"/ports/cuda/*.report || not_shown "no kernel is called $name"
  case $spilling, in *,$name,*) not_shown "$name spills registers" ;; esac
done
[ "$most" -le 64 ] || not_shown "a kernel spills $most bytes"
count=$(tr -cd , <<<"$spilling" | wc -c)

# Without a driver, cuda_device says one sentence and ends with the exit code of a missing thing.
status=0
sentence=$("$build"/ports/cuda/cuda_device | tail -n 1) || status=$?
case "$status $sentence" in
  "3 cuda: "*) ;;
  0\ *) sentence="a device is here: $sentence" ;;
  *) not_shown "cuda_device ended with $status and said: $sentence" ;;
esac
if ldd "$build"/ports/cuda/cuda_device | grep -qE 'libcuda|libcudart|libcublas'; then not_shown "cuda_device links CUDA"; fi
echo "CLAIM cuda_builds shown: $kernels kernels in $modules modules for sm_${targets//,/, sm_}, the least of $least instructions ($smallest), each with stores; none of $(wc -w <<<"$listed") listed kernels spills, $count others do, at most $most bytes; driver.h and cublaslt.h are what <cuda.h> and <cublasLt.h> say; the program of bench/cuda.sh links; without CUDA: \"$sentence\""
