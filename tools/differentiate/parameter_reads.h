// Finds the constants that the steps of a network read as parameters.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Per value: the constants and state from which it is computed. Empty for values that depend on anything else.
using Sources = std::vector<std::set<ValueId>>;
Sources sources_of(const Graph& graph);

// Returns the parameters that the node's slots read, by slot, without those that the source freezes. If steps compute a
// slot's value, these are all parameters from which they compute it. `stored` is stored_values().
std::multimap<size_t, ValueId> parameters_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                             const Sources& sources);
// Returns what parameters_of returns, and also the parameters that the source freezes.
std::multimap<size_t, ValueId> weights_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                          const Sources& sources);

}  // namespace nacre::tools
