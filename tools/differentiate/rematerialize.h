// Rematerialization: an activation that the backward pass reads is forgotten after the forward pass and computed anew
// where it is read, so that it takes no memory in between (Chen et al. 2016, "Training deep nets with sublinear memory
// cost").
#pragma once

#include "tools/graph/graph.h"
#include "tools/graph/operands.h"

namespace nacre::tools {

struct Rematerialized {
  int steps = 0;             // that run a second time, or a third
  uint64_t work = 0;         // multiply-accumulates of these
  uint64_t work_before = 0;  // of one run without them
  uint64_t bound = 0;        // bytes that live at one time, after
  bool reached = false;      // bound <= limit
};

// Repeats steps of a training program (scheduled, views made) until the bytes that live at one time are at most
// `limit`; where that cannot be reached, until they are the fewest that it finds. A repeated step computes what it did
// before, from the same operands, and observes nothing: steps that update anything, and steps that read what was
// updated since, are not repeated. The order of all other steps stays, so every result is the same to the bit.
// `kernels`: the target's; they say what a step costs.
Rematerialized rematerialize(Graph& graph, uint64_t limit, KernelSets kernels = reference_sets());

}  // namespace nacre::tools
