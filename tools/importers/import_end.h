// What importers do last.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// One Error with everything that is not supported, a line each; none where nothing is. `among`: " of 12 operators".
void report_problems(const std::string& file, const std::vector<std::string>& problems, const std::string& among = "");

// "NHWC" as the layout of inputs that a spatial operator reads, in files whose channels are last.
void name_image_inputs(Graph& graph);

}  // namespace nacre::tools
