// Prepares the forward pass of a training. It adds the parts that gradients need and inference leaves out or does
// otherwise.
//
//   clamps             become nodes, because gradients are those of the unclamped op
//   batch norms        have their training form if their statistics are state
//   dropout            reads {seed low, seed high, step, micro-batch}
//   recurrences        give the gates and cells that their gradients read
//   codes              of a quantized file become real numbers if a trained parameter reaches them, saturated as before
#pragma once

#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/options.h"

namespace nacre::tools {

struct TrainingForward {
  // Counts micro-batches for dropout. kNone if nothing draws random numbers.
  ValueId micro_batch = kNone;
};

// Changes result.graph, and sets result.sums and result.statistics. Throws Error if some trained layers compute in
// float64 and some do not.
TrainingForward prepare_forward(Differentiated& result, const TrainingOptions& options);

// Removes dropouts, which are the identity in inference. Their readers read their inputs.
void leave_out_dropout(Graph& graph);

// Returns, per value, whether a trained parameter changes it and it can have a gradient.
std::vector<bool> depends_on_parameters(const Graph& graph);

}  // namespace nacre::tools
