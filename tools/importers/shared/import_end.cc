#include "tools/importers/shared/import_end.h"

namespace nacre::tools {

void name_image_inputs(Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kConv2d && node.op != Op::kDepthwiseConv2d && node.op != Op::kAveragePool &&
        node.op != Op::kMaxPool)
      continue;
    for (Binding& b : graph.inputs)
      if (b.value == node.inputs[0]) b.layout = "NHWC";
  }
}

}  // namespace nacre::tools
