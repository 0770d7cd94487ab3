// Trains only some output channels of a layer: sub-tensor updates (Lin et al. 2022, arXiv:2206.15472, section 2.2).
// The layer is split into frozen and trained layers, whose outputs a concat joins:
//
//   y = w x + b   ->   y = concat(w[0, first) x + b[0, first),  w[first, end) x + b[first, end),
//                                 w[end, n) x + b[end, n))
//
// Masters, gradients and moments exist only for rows first .. end - 1, and the gradient of the weights is computed for
// these rows alone. The forward pass does the same work. A gradient of x is the sum of the parts'. Joining the weights
// instead would need all of them in RAM, and their whole gradient. Dense and conv2d without groups can be split. Any
// other parameters of such a layer train entirely.
#pragma once

#include <span>
#include <string>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Splits the layers that train.channels matches. `graph` has its policies resolved, and parameters are not made yet.
// Throws if a pattern matches no layer that can be split, or a layer that is not trained. Throws too if the layer
// lacks the channels, or its policy quantizes it.
void split_channels(Graph& graph, const TrainedParameters& train);

bool is_frozen_part(const std::string& layer);  // whether it names a frozen part of a split layer

// Makes a split layer whose parts are constants one layer again. `graph` is as inference_graph gives it. It is planned
// anew, and inputs that were kept stay kept. Layers stay split if their parts differ in type. They also stay split in
// several banks, because a model does not hold the banks' limits.
void merge_channels(Graph& graph);

// Copies trained channels from `state` into the constants of `simplified`. Returns how many state tensors it copied.
int with_channels(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
