#include "tools/differentiate/float8_biases.h"

#include <map>

namespace nacre::tools {

void leave_bias_gradients_unrounded(Graph& gradients) {
  std::map<ValueId, ValueId> before;  // by a value rounded to float8: the value before rounding
  for (Node& node : gradients.nodes) {
    if (node.op == Op::kFakeFloat8) before[node.outputs[0]] = node.inputs[0];
    if (node.op != Op::kBiasGradient) continue;
    const auto rounded = before.find(node.inputs[0]);
    if (rounded != before.end()) node.inputs[0] = rounded->second;
  }
}

}  // namespace nacre::tools
