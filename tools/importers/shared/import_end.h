// Work that importers do last.
#pragma once

#include "tools/base/unsupported.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// "NHWC" as the layout of inputs that a spatial operator reads, in files whose channels are last.
void name_image_inputs(Graph& graph);

}  // namespace nacre::tools
