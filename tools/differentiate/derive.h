// The program `derive` computes values from state and constants only when these change, not in every run.
#pragma once

#include <span>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves nodes that read only state and constants (casts of parameters, their quantized and packed copies) out of
// `programs` to the end of `derived`. Their outputs are in the region `derived`, and the programs share them.
// apply_policy must have run on the programs.
void derive(std::span<Graph* const> programs, Graph* derived);

}  // namespace nacre::tools
