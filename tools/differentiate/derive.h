// What depends on state and constants only is computed when these change, not in every run: the program `derive`.
#pragma once

#include <span>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves such nodes (casts of parameters, quantized copies of them) out of `programs` into the graph returned; what they
// make lives in the region `derived`, shared by the programs that read it. Graphs after apply_policy and fuse.
Graph derive(std::span<Graph* const> programs);

}  // namespace nacre::tools
