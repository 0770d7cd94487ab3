// Prints the places that nacre convert --tune tried, as a table and as JSON.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/evaluate/tried_places.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// The nodes of `graph` are the steps.
std::string places_table(const Graph& graph, const TriedPlaces& tried, size_t width);
Json places_json(const Graph& graph, const TriedPlaces& tried);

}  // namespace nacre::tools
