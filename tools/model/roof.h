// Roof that kernels are compared with: the most that one core of this machine does, measured in this process when it
// is first asked for.
//
//   arithmetic   12 independent sums in registers, nothing read or written: the instructions that a tier has
//   bandwidth    a loop that only loads, in vectors, as many bytes as the kernel touches, again and again: from L1, L2,
//                L3 or memory
//
// It is no strict bound: of operands that do not fit a cache together, a part that does is read faster.
#pragma once

#include <cstddef>
#include <string>

#include "engine/base/tensor.h"
#include "ports/vector/tiers.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {

// Operations per second, two for a multiply-accumulate; 0 on machines of another kind.
struct Arithmetic {
  double float32 = 0, bfloat16 = 0, int8 = 0;
};
const Arithmetic& arithmetic(x86::Tier tier);
bool has_bfloat16();  // vdpbf16ps; without it, or where that is slower, bfloat16 has the roof of float32

double read_bandwidth(size_t bytes);  // bytes per second
double copy_bandwidth(size_t bytes);  // of memcpy: bytes read and bytes written together

// Returns the least seconds that the work takes, 0 on machines of another kind. int8 has its own roof. bfloat16 and
// float8 share bfloat16's. All other types take float32's.
double least_seconds(x86::Tier tier, const StepWork& work);

// The tier whose instructions such a kernel has, "avx2/dense_f32"; of another set, the fastest that runs here.
x86::Tier tier_of_kernel(const std::string& kernel);

void print_roofs();

}  // namespace nacre::tools
