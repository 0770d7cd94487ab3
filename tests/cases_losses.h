// Random cases of losses and of their gradients, for tests/ops/loss_test.cc.
#pragma once

#include "tests/cases.h"

namespace nacre::test {

// Returns null if the op is not a loss. Updated operands (loss and count) come last among the inputs.
CaseMaker find_loss_case_maker(Op op);

}  // namespace nacre::test
