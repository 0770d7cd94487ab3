// Weights that a policy names and leaves as they are: wider in the model than their layer's policy says, or than the
// source's file has them. With bytes, one sentence each.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Tables and matrices that stay floats though their layer's policy quantizes weights: there is no form of codes.
std::vector<std::string> kept_weights(const LoadedModel& model, uint32_t program);

// Weights that the source's file holds in fewer bytes, in layers that no policy was asked for. `compiled`: the graph
// after the last pass.
std::vector<std::string> widened_weights(const Graph& compiled);

// One line each under a heading; "" where there is none.
std::string kept_weights_text(const std::vector<std::string>& kept, const std::vector<std::string>& widened);

}  // namespace nacre::tools
