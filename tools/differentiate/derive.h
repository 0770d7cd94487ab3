// The program `derive` computes values from state and constants only when these change, not in every run.
#pragma once

#include <span>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves such nodes (casts of parameters, their quantized and packed copies) out of `programs` to the end of `derived`.
// Their outputs are in the region `derived`, and all programs that read them share them. The graphs must be behind
// apply_policy and fuse.
void derive(std::span<Graph* const> programs, Graph* derived);

}  // namespace nacre::tools
