// The loss as the last forward step of a training graph.
#pragma once

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Adds an input `labels` (or `targets`) and the loss step on the first output; returns the step's index. Sums have type
// `sums`. A softmax before a softmax cross-entropy, or a sigmoid before a sigmoid one, is looked through: these losses
// take logits.
size_t add_loss(Graph& graph, const LossOptions& options, ElementType sums);

// How many losses the loss step takes the mean of in each sample: of errors, one for each of the axes between the first
// and the last; of cross-entropies over classes none, for they are summed.
float losses_of_sample(const Graph& graph);

// The layer of steps that belong to no layer of the source and compute in the type of the sums; made by add_loss.
int loss_layer(const Graph& graph);

const char* name_of(Loss loss);      // "softmax_cross_entropy"
bool labels_are_classes(Loss loss);  // integers; else real targets of the output's shape

}  // namespace nacre::tools
