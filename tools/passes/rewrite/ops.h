// Which TensorFlow op a node is, for the lists of the rewrite. Private to tools/passes/rewrite.
#pragma once

#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct TensorflowOp {
  std::string name;  // the op that is looked up in the lists
  std::string with;  // what the node does besides: "+BiasAdd+Relu"
};

TensorflowOp tensorflow_op(const Graph& graph, const Node& node);

}  // namespace nacre::tools
