// The program `derive`: computes values of state and constants only when these change, not in every run.
#pragma once

#include <span>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves such nodes (casts of parameters, quantized and packed copies of them) out of `programs` to the end of
// `derived`; what they make lives in the region `derived`, shared by the programs that read it. Graphs after
// apply_policy and fuse.
void derive(std::span<Graph* const> programs, Graph* derived);

}  // namespace nacre::tools
