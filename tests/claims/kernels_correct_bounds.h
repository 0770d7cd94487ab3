// Expected results by the formula of an op's row (OpRow::bounds): each number in long double with a bound on the error
// of float32, carried through every operation to first order.
#pragma once

#include "tests/oracle.h"

namespace nacre::test {

bool has_bounds(Op op);

// `like`: what the reference kernel of the same types made of the step.
struct BoundedResults {
  std::vector<Expected> outputs, updated;
};
BoundedResults bounded_results(const KernelEntry& entry, const std::vector<uint32_t>& words,
                               const std::vector<Array>& inputs, const Execution& like);

}  // namespace nacre::test
