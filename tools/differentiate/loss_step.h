// Adds the loss as the last forward step of a training graph.
#pragma once

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Adds an input `labels` (or `targets`) and the loss step on loss_output(). Returns the step's index. The sum of losses
// has type `sums`. A softmax before a cross-entropy over classes, or a sigmoid before a sigmoid cross-entropy, is
// skipped, because these losses take logits.
size_t add_loss(Graph& graph, const LossOptions& options, ElementType sums);

// Returns whether the loss skips the step that computes its output, and reads the input of this step.
bool skips_last_step(const Graph& graph, const LossOptions& options);

// Returns of how many losses the loss step takes the mean in each sample. For errors and sigmoid cross-entropy it is
// the product of the axes between the first and the last, for cross-entropies over classes 1.
float losses_of_sample(const Graph& graph);

// Returns the layer that add_loss makes, or kNone. Steps of training that belong to no layer of the source have it, and
// compute in the type of the sums.
int loss_layer(const Graph& graph);

const char* name_of(Loss loss);      // "softmax_cross_entropy"
bool labels_are_classes(Loss loss);  // if so, labels are integers; else real targets of the output's shape

}  // namespace nacre::tools
