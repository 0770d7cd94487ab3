// Results that kernels_correct expects from kernels of training. They are those of OpRow::bounds (op_rows.h), else the
// float64 kernel's for the same op and numbers, within a bound on the error of float32. Kernels that promise
// the same operations in the same order must equal the reference kernel of the same types to the bit. Other tests
// show that the float64 kernels are right: gradients against differences, optimizers against their formulas.
#pragma once

#include <string>

#include "tests/oracle.h"
#include "tests/random.h"

namespace nacre::test {

bool has_reference_case(Op op);

struct ReferenceCase {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;  // also updated operands
  std::vector<Expected> outputs, updated;
};
ReferenceCase reference_case(const KernelEntry& entry, Random& random);

}  // namespace nacre::test
