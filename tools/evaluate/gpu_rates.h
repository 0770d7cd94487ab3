// Rates of the GPUs that the targets "cuda/sm90" and so on name, for estimates. This project measured none of them.
#pragma once

#include <string_view>

namespace nacre::tools {

// One card of each architecture by its datasheet: operations per second without sparsity (a multiply-accumulate is
// two), and bytes per second. 0: its Tensor Cores do not take the type. `half`: float16 with float32 sums, and
// bfloat16 if it is taken. The RTX 5090's Tensor Core rates are from memory of the RTX Blackwell white paper.
struct GpuArchitecture {
  const char *target, *card;
  double float32, half, int8, float8, memory;
  bool bfloat16;
};
inline constexpr double kTera = 1e12;
inline constexpr GpuArchitecture kGpuArchitectures[] = {
    {"cuda/sm75", "T4", 8.1 * kTera, 65 * kTera, 130 * kTera, 0, 0.320 * kTera, false},
    {"cuda/sm80", "A100 SXM 80 GB", 19.5 * kTera, 312 * kTera, 624 * kTera, 0, 2.039 * kTera, true},
    {"cuda/sm86", "A40", 37.4 * kTera, 149.7 * kTera, 299.3 * kTera, 0, 0.696 * kTera, true},
    {"cuda/sm89", "L40S", 91.6 * kTera, 362 * kTera, 733 * kTera, 733 * kTera, 0.864 * kTera, true},
    {"cuda/sm90", "H200", 67 * kTera, 990 * kTera, 1979 * kTera, 1979 * kTera, 4.8 * kTera, true},
    {"cuda/sm100", "B200", 75 * kTera, 2250 * kTera, 4500 * kTera, 4500 * kTera, 7.7 * kTera, true},
    {"cuda/sm120", "RTX 5090", 104.8 * kTera, 209.5 * kTera, 838 * kTera, 419 * kTera, 1.792 * kTera, true},
};

// The share of these rates that large products and copies reach: 50, 780, 1400 and 3.8 T of the H200's, as reported
// for such cards (torch's products of random data; fp8 through cuBLASLt; copies). Other cards are assumed to reach
// the same share.
struct GpuShares {
  double float32, half, eight_bits, memory;
};
inline constexpr GpuShares kReached = {50.0 / 67, 780.0 / 990, 1400.0 / 1979, 3.8 / 4.8};

// Microseconds besides the work itself. A kernel in a CUDA graph takes 1.3 to 2. Launching the graph and waiting for
// it takes 3 to 5. A copy between host and device takes 5 to 10, and its bytes go over PCIe at 25 to 50 GB/s. A
// training step of a float8 layer takes about 6 for the nodes that quantize and transpose its operands and update its
// scales.
inline constexpr double kKernelUs = 1.65, kGraphUs = 4, kCopyUs = 7.5, kFloat8TrainingUs = 6;
inline constexpr double kCopyBytes = 37.5e9;  // bytes per second

// Operations per second of one core of a PC. The float32 table for a Zen 3 in docs/pc.md gives, on one thread at batch
// 1, 28 G for a network that reads its weights once (AD) and 84 G for convolutions (IC). A launch, two copies and a
// kernel on a GPU take longer than a million operations on this core.
inline constexpr double kHostOperations = 50e9;
static_assert(kGraphUs + 2 * kCopyUs + kKernelUs > 1e6 / kHostOperations * 1e6);

// Returns null if no architecture has that name.
constexpr const GpuArchitecture* find_gpu_architecture(std::string_view target) {
  for (const GpuArchitecture& architecture : kGpuArchitectures)
    if (target == architecture.target) return &architecture;
  return nullptr;
}

}  // namespace nacre::tools
