// Computes what an op of inference should give, in another way than engine/ops does: in long double with a bound on the
// kernel's error, or in exact integers. Windows are materialised (padded input, dilated kernel), and most other ops
// gather by multi-index.
#pragma once

#include <vector>

#include "tests/one_step.h"

namespace nacre::test {

struct Expected {
  std::vector<int32_t> dims;
  std::vector<double> value;
  std::vector<double> tolerance;  // 0: equal to the bit
};

// Returns one Expected per output. Throws std::out_of_range for an op without an oracle.
std::vector<Expected> oracle(const KernelEntry& entry, const std::vector<uint32_t>& words,
                             const std::vector<Array>& inputs);

}  // namespace nacre::test
