// Finds a node's TensorFlow op, for the lists of the rewrite. Private to tools/passes/rewrite.
#pragma once

#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct TensorflowOp {
  std::string name;  // the op that the lists are searched for
  std::string with;  // the rest of the node: "+BiasAdd+Relu"
};

TensorflowOp tensorflow_op(const Graph& graph, const Node& node);

}  // namespace nacre::tools
