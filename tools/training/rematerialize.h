// Rematerialization: an activation that the backward pass reads is forgotten after the forward pass and computed anew where it is
// read, so that it takes no memory in between (Chen et al. 2016, "Training deep nets with sublinear memory cost").
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

struct Rematerialized {
  int steps = 0;                 // computed a second time
  uint64_t work = 0;             // multiply-accumulates of these
  uint64_t work_before = 0;      // of one run without them
  uint64_t bound = 0;            // bytes that no plan can be smaller than, after
};

// Repeats steps of `gradients` (after the last pass before schedule) until the bytes that live at one time are at most `limit`, or
// until no repetition lowers them. Each time it takes the one that lowers them most, of equals the cheapest. A repeated step
// computes what it did before, from the same operands, and observes nothing: steps that update anything are not repeated.
Rematerialized rematerialize(Graph& gradients, uint64_t limit);

}  // namespace nacre::tools
