// Adds the loss as the last forward step of a training graph.
#pragma once

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Adds an input `labels` (or `targets`) and the loss step on the first output. Returns the step's index. Sums have
// type `sums`. A softmax before a softmax cross-entropy, or a sigmoid before a sigmoid one, is skipped, because these
// losses take logits.
size_t add_loss(Graph& graph, const LossOptions& options, ElementType sums);

// Returns of how many losses the loss step takes the mean in each sample. For errors it is the product of the axes
// between the first and the last. For cross-entropies over classes it is 1, because their losses are summed.
float losses_of_sample(const Graph& graph);

// Returns the layer of steps that belong to no layer of the source and compute in the type of the sums. add_loss makes
// it.
int loss_layer(const Graph& graph);

const char* name_of(Loss loss);      // "softmax_cross_entropy"
bool labels_are_classes(Loss loss);  // if so, labels are integers; else real targets of the output's shape

}  // namespace nacre::tools
