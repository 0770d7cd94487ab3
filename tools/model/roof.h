// Measures the roof that kernels are compared with: the most that one core of this machine does. Each roof is
// measured in this process when it is first asked for.
//
//   arithmetic   12 independent sums in registers (AMX: 4 tiles), by the instructions of a tier (ports/vector/tiers.h)
//   bandwidth    a loop that only loads, in vectors, as many bytes as the kernel touches, again and again: from L1, L2,
//                L3 or memory
//
// A roof is no strict bound: if the operands do not fit a cache together, a part that fits is read faster.
#pragma once

#include <cstddef>
#include <string>

#include "engine/base/tensor.h"
#include "ports/vector/tiers.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {

// Operations per second; a multiply-accumulate counts as two. 0 on other machines than x86.
struct Arithmetic {
  double float32 = 0, bfloat16 = 0, int8 = 0;
};
const Arithmetic& arithmetic(x86::Tier tier);
bool has_bfloat16();  // whether vdpbf16ps is there; if not, or if slower, bfloat16 has float32's roof (except AMX)

double read_bandwidth(size_t bytes);  // bytes per second
double copy_bandwidth(size_t bytes);  // of memcpy: bytes read plus bytes written

// Returns the least seconds that the work takes, 0 on other machines than x86. int8 has its own roof. bfloat16 and
// float8 share bfloat16's. All other types take float32's.
double least_seconds(x86::Tier tier, const StepWork& work);

// Returns the tier of a kernel, "avx2/dense_f32"; for a kernel of another set, the fastest tier that runs here.
x86::Tier tier_of_kernel(const std::string& kernel);

void print_roofs();

}  // namespace nacre::tools
