// Makes 256-byte tables for unary int8 functions (entry q + 128 is y's code for x's code q), and points for int16 ones.
#pragma once

#include <array>

#include "tools/graph/graph.h"
#include "tools/passes/policy/curve_points.h"

namespace nacre::tools {

using LookupTable = std::array<int8_t, 256>;

// Return the results of TensorFlow Lite Micro's reference kernels, to the bit: NUMERICS.md section 4. The quantizers
// are per tensor. TFLite's sigmoid needs an output scale of 1/256 with zero point -128, its tanh 1/128 with 0, its
// hard_swish an output scale above scale_x / 128. For other quantizers TFLite has no kernel, and the table is
// function_table's.
LookupTable sigmoid(const Node& node, const Quantizer& x, const Quantizer& y);
LookupTable tanh(const Node& node, const Quantizer& x, const Quantizer& y);
LookupTable hard_swish(const Node& node, const Quantizer& x, const Quantizer& y);
LookupTable leaky_relu(const Node& node, const Quantizer& x, const Quantizer& y);  // reads `alpha`

// Return LiteRT's tables of sigmoid and tanh, by function_table.
LookupTable float_sigmoid(const Node& node, const Quantizer& x, const Quantizer& y);
LookupTable float_tanh(const Node& node, const Quantizer& x, const Quantizer& y);

// Returns the function of a gelu or unary step. Null unless it is exp, log, elu with alpha 1, or gelu.
float (*table_function(const Node& node))(float);

// Returns the table of saturate(zero_y + round(f(scale_x (q - zero_x)) / scale_y)), in float32, half away from zero.
LookupTable function_table(float (*f)(float), const Quantizer& x, const Quantizer& y);
LookupTable square_root_table(const Quantizer& x, const Quantizer& y);

// Returns the points of softmax on int16 codes (engine/ops/curve.h), equal to those of LiteRT's reference kernels: exp
// on [-10, 0], then 1 / (1 + x) on [0, 1]. Each has 513 points in units of 2^-15.
std::vector<int32_t> softmax_points();

// Returns 513 points of a function of int16 codes, computed in float32 as LiteRT does.
std::vector<int16_t> function_points(float (*f)(float), float x_scale, float y_scale);

}  // namespace nacre::tools
