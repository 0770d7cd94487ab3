// Random cases of losses and of their gradients, for find_case_maker() and for who checks gradients.
#pragma once

#include "tests/cases.h"

namespace nacre::test {

// Null for an op that is no loss. Operands that are updated (loss and count) are among the inputs, after what is read.
CaseMaker find_loss_case_maker(Op op);

}  // namespace nacre::test
