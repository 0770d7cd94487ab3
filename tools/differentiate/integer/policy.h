// The policy int8/full beside others: in a network that only infers it is int8/static, and its training has fewer
// options.
#pragma once

#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Layers under int8/full run as int8/static, and are given back.
std::vector<int> run_full_as_static(Graph& resolved);

// Throws where an option, or a penalty that the network's file says, needs floats or steps that integers do not have.
void refuse_floats(const Graph& graph, const TrainingOptions& options);

}  // namespace nacre::tools
