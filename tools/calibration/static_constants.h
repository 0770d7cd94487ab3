// Constants as codes: weights, bias, and constant operands of an elementwise op. Of quantize_static, and of what
// training made of a source's codes.
#pragma once

#include <string>

#include "tools/calibration/softmax_masks.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Codes for the weights and the bias of a dense or conv whose input has its quantizer.
void code_matmul(Graph& graph, Node& node, bool dense_per_channel);

// Codes for the constant operands of any other op; those of a concat are its output's. Of masks up to their limits,
// which are those of `output`; null: none.
void code_operands(Graph& graph, Node& node, const std::string& output = "", const MaskLimits* masks = nullptr);

}  // namespace nacre::tools
