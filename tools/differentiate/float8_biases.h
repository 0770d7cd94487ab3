// Of a layer in float8 the bias is added behind the product of the rounded operands, and the rounding of the gradient
// belongs to that product: the gradient of the bias is the sum of dy as it was before. NUMERICS.md section 9; Keras
// layers/core/dense.py, _float8_call; TransformerEngine sums it in the kernel that rounds.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// `gradients`: as differentiate left it, where the gradient of a bias is that of its whole layer.
void leave_bias_gradients_unrounded(Graph& gradients);

}  // namespace nacre::tools
