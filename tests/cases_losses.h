// Random cases of losses and of their gradients, for find_case_maker() and for gradient checks.
#pragma once

#include "tests/cases.h"

namespace nacre::test {

// Returns null if the op is not a loss. Updated operands (loss and count) come last among the inputs.
CaseMaker find_loss_case_maker(Op op);

}  // namespace nacre::test
