// A float8 layer adds its bias after the product of the rounded operands. The gradient is rounded for that product. So
// the gradient of the bias is the sum of the unrounded dy: NUMERICS.md section 9; Keras layers/core/dense.py,
// _float8_call. TransformerEngine computes this sum in the kernel that rounds.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Makes each gradient of a bias a sum of the unrounded dy. `gradients` is as differentiate left it.
void leave_bias_gradients_unrounded(Graph& gradients);

}  // namespace nacre::tools
