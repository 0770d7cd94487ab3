// lstm and gru of kernels_correct_bounds.h, forward with all outputs of training, and backward.
#pragma once

#include "tests/claims/bounded.h"

namespace nacre::test {

Lists lstm_bounds(const Problem& p, const Index&);
Lists lstm_gradient_bounds(const Problem& p, const Index&);
Lists gru_bounds(const Problem& p, const Index&);
Lists gru_gradient_bounds(const Problem& p, const Index&);

}  // namespace nacre::test
