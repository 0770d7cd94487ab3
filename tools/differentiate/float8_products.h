// The layers of a training step in float8, as products of codes: for targets that multiply them.
//
//   x' = fake_float8(x, f_x), w' = fake_float8(w, f_w)     q = fake_float8(x, f_x), p = fake_float8(w, f_w): E4M3
//   y = dense(x', w', b)                                   y = dense(q, p, b, t_w, t_x)
//   dy' = fake_float8(dy, f_dy)                            e = fake_float8(dy, f_dy): E5M2
//   dx = dense_gradient_x(dy', w')                         dx = dense(e, transpose(p), none, t_w, t_dy)
//   dense_gradient_w(dy', x', dw)                          dense_float8_gradient_w(e, q, t_dy, t_x, dw)
//
// and of a convolution alike, with p as it is: dx = conv2d_gradient_x(e, p, t_w, t_dy),
// conv2d_float8_gradient_w(e, q, t_dy, t_x, dw).
//
// t, what a code times it stands for: f where quantizing divides by it, else 1 / f, which `derive` then makes. Left as
// they are: scales of rows (float8/current), rounding after every operation (NUMERICS.md section 14), float64, layers
// whose activation was fused into the product, and depthwise convolutions, which are no products of matrices.
// NUMERICS.md section 9 says how the numbers differ.
#pragma once

#include <string_view>

#include "tools/graph/graph.h"

namespace nacre::tools {

// The GPUs whose Tensor Cores take float8.
bool multiplies_float8(std::string_view target);

// `gradients`: with its types. What only the products read of the values in float8 is gone then.
void multiply_float8_codes(Graph& gradients);

}  // namespace nacre::tools
