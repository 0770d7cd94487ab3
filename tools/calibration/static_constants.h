// Turns constants into codes: weights, biases, and constant operands of other ops. quantize_static codes the constants
// of a network. tools/compile/deployed.cc codes trained weights again that were codes in the source.
#pragma once

#include <string>

#include "tools/calibration/softmax_masks.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Gives a dense or convolution node, whose input has its quantizer, codes for weights and bias. Coded weights stay.
void code_matmul(Graph& graph, Node& node, bool dense_per_channel);

// Gives any other op codes for its constant operands. Operands of a concat take the quantizer of its output. If `masks`
// is not null, operands that are masks are clamped to the limits that it holds under the name `output`.
void code_operands(Graph& graph, Node& node, const std::string& output = "", const MaskLimits* masks = nullptr);

}  // namespace nacre::tools
