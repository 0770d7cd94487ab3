// Adds descriptions for users of the model: names of classes, and the mean and deviation of pixels.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// `labels`: a file with a class on each line; "": none. `normalize`: INPUT=MEAN,STD, per channel M:M:M,S:S:S. Both
// become metadata (labels, input.NAME.mean, input.NAME.std) and replace those of the network's file. Throws Error.
void describe_inputs(Graph& graph, const std::string& labels, const std::vector<std::string>& normalize);

}  // namespace nacre::tools
