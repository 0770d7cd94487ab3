// Rematerialization: an activation that the backward pass reads is dropped after the forward pass and computed again
// where it is read. So it takes no memory in between (Chen et al. 2016, "Training deep nets with sublinear memory
// cost").
#pragma once

#include "tools/graph/graph.h"
#include "tools/graph/operands.h"

namespace nacre::tools {

struct Rematerialized {
  int steps = 0;             // number of repeated steps
  uint64_t work = 0;         // multiply-accumulates of these steps
  uint64_t work_before = 0;  // multiply-accumulates of one run without these steps
  uint64_t bound = 0;        // bytes that live at one time afterwards
  bool reached = false;      // bound <= limit
};

// Makes views, and repeats steps of a scheduled training program until the bytes that live at one time are at most
// `limit`. If that cannot be reached, it keeps the fewest bytes that it finds. A repeated step reads the same operands
// and computes the same numbers. Steps with a guard, steps that update a value, and steps that read a value updated
// since are not repeated. The other steps keep their order, so every result is equal to the bit. `kernels` are the
// target's; they give a step's costs.
Rematerialized rematerialize(Graph& graph, uint64_t limit, KernelSets kernels = reference_sets());

}  // namespace nacre::tools
