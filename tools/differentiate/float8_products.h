// Makes the float8 layers of a training step products of codes, for targets that multiply codes.
//
//   x' = fake_float8(x, f_x), w' = fake_float8(w, f_w)     q = fake_float8(x, f_x), p = fake_float8(w, f_w): E4M3
//   y = dense(x', w', b)                                   y = dense(q, p, b, t_w, t_x)
//   dy' = fake_float8(dy, f_dy)                            e = fake_float8(dy, f_dy): E5M2
//   dx = dense_gradient_x(dy', w')                         dx = dense(e, transpose(p), none, t_w, t_dy)
//   dense_gradient_w(dy', x', dw)                          dense_float8_gradient_w(e, q, t_dy, t_x, dw)
//
// A convolution is rewritten alike, with p as it is: dx = conv2d_gradient_x(e, p, t_w, t_dy),
// conv2d_float8_gradient_w(e, q, t_dy, t_x, dw).
//
// t is the factor that turns a code into its value. It is f if quantizing divides by f, else 1 / f, which `derive`
// then computes. Some products are not rewritten, among them: those with scales per row (float8/current), with rounding
// after every operation (NUMERICS.md section 14), or in float64; layers whose activation was fused into the product;
// depthwise convolutions. NUMERICS.md section 9 says how the numbers differ.
#pragma once

#include <string_view>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Returns whether the target is a GPU whose Tensor Cores take float8.
bool multiplies_float8(std::string_view target);

// Rewrites the products of `gradients`, whose types must be applied already. Removes float8 values that only the
// rewritten products read.
void multiply_float8_codes(Graph& gradients);

}  // namespace nacre::tools
