// The forward pass of a training: what inference leaves out, or does in another form, and gradients need.
//
//   clamps             nodes of their own: gradients are of the unclamped op
//   batch norms        in their training form, where their statistics are state
//   dropout            fed with {seed low, seed high, step, micro-batch}
//   recurrences        with the gates and cells that their gradients read
//   codes              of a quantized file that a trained parameter reaches: real numbers, saturated as the codes were
#pragma once

#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/options.h"

namespace nacre::tools {

struct TrainingForward {
  ValueId micro_batch = kNone;  // counts micro-batches for dropout; kNone: nothing is drawn
};

// Changes result.graph, and finds result.sums and result.statistics. Throws Error where some trained layers compute in
// float64 and some do not.
TrainingForward prepare_forward(Differentiated& result, const TrainingOptions& options);

// Dropout is the identity in inference: its readers read what it does.
void leave_out_dropout(Graph& graph);

// By value: whether a parameter that is trained changes it, and it can have a gradient.
std::vector<bool> depends_on_parameters(const Graph& graph);

}  // namespace nacre::tools
