// Finds the nodes that compute in float32 whatever 16-bit type their layer's policy names: normalizations, and some
// reductions and poolings. The source's own kernels do the same (NUMERICS.md section 14).
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

enum class SourceLanguage : uint8_t { kKeras, kOnnx, kTflite };

void find_float32_norms(Graph& graph, SourceLanguage language);

}  // namespace nacre::tools
