// A layer in float8 adds its bias behind the product of the rounded operands. The rounding of the gradient belongs to
// that product, so the gradient of the bias is the sum of the unrounded dy. NUMERICS.md section 9; Keras
// layers/core/dense.py, _float8_call; TransformerEngine sums it in the kernel that rounds.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// `gradients`: as differentiate left it, where the gradient of a bias is that of its whole layer.
void leave_bias_gradients_unrounded(Graph& gradients);

}  // namespace nacre::tools
