// Declares the last action of an import, which several importers share.
#pragma once

#include "tools/base/unsupported.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Sets the layout "NHWC" on inputs that a convolution or pooling reads. It is for files whose channels are last.
void name_image_inputs(Graph& graph);

}  // namespace nacre::tools
