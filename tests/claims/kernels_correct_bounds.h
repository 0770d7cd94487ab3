// Expected results by the formula of an op's row (OpRow::bounds). Each number is a long double with a bound on the
// error of float32, which every operation carries on to first order.
#pragma once

#include "tests/oracle.h"

namespace nacre::test {

bool has_bounds(Op op);

// `like` is the reference kernel's result for the same types and step.
struct BoundedResults {
  std::vector<Expected> outputs, updated;
};
BoundedResults bounded_results(const KernelEntry& entry, const std::vector<uint32_t>& words,
                               const std::vector<Array>& inputs, const Execution& like);

}  // namespace nacre::test
