// Makes the table and the JSON of what nacre convert --tune measured: each step on XNNPACK and on our own kernels.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/evaluate/tried_places.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// `graph`: its nodes are the steps of `tried`, in the same order.
std::string places_table(const Graph& graph, const TriedPlaces& tried, size_t width);
Json places_json(const Graph& graph, const TriedPlaces& tried);

}  // namespace nacre::tools
