// Handles the policy int8/full. In a network that only infers it is int8/static. Its training has fewer options.
#pragma once

#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Makes layers under int8/full run as int8/static. Returns these layers.
std::vector<int> run_full_as_static(Graph& resolved);

// Throws if an option, or a penalty in the network's file, needs floats or steps that integer training lacks.
void refuse_floats(const Graph& graph, const TrainingOptions& options);

}  // namespace nacre::tools
