// Only some output channels of a layer are trained: sub-tensor updates (Lin et al. 2022, arXiv:2206.15472, section
// 2.2). The layer is split into a frozen and a trained one, whose outputs a concat joins:
//
//   y = w x + b   ->   y = concat(w[0, first) x + b[0, first),  w[first, end) x + b[first, end),
//                                 w[end, n) x + b[end, n))
//
// Masters, gradients and moments are those of the rows first .. end - 1, and the gradient of the weights is computed
// for these alone; the forward pass does the same work, and a gradient of x is the sum of the parts'. Joining the
// weights instead would need all of them in RAM, and their whole gradient. Dense and conv2d without groups; of what
// else such a layer holds, all is trained.
#pragma once

#include <span>
#include <string>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// `graph`: policies resolved, before parameters are made. Throws where a pattern of train.channels matches no layer
// that can be split, or one that is not trained, where channels are not the layer's, and where its policy quantizes it.
void split_channels(Graph& graph, const TrainedParameters& train);

bool is_frozen_part(const std::string& layer);  // of a split layer

// A split layer of constants alone becomes the layer that it was. `graph`: as inference_graph gives it; planned anew,
// inputs kept where they were. In several banks, whose limits a model does not hold, layers stay split; so do those
// whose parts have other types.
void merge_channels(Graph& graph);

// The rows of `simplified`'s constants that `state` has in parts. Returns of how many constants.
int with_channels(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
