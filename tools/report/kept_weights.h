// Finds weights that stay wider in the model than their layer's policy says, or than the source's file stores them.
// Each gives one sentence, with its bytes.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns the tables and matrices that stay floats though their layer's policy quantizes weights: no codes exist for
// them.
std::vector<std::string> kept_weights(const LoadedModel& model, uint32_t program);

// Returns the weights that the source's file stores in fewer bytes, in layers for which no policy was asked.
// `compiled` is the graph after the last pass.
std::vector<std::string> widened_weights(const Graph& compiled);

// Returns a heading and one line each, or "" if there are none.
std::string kept_weights_text(const std::vector<std::string>& kept, const std::vector<std::string>& widened);

}  // namespace nacre::tools
