// Which constants the steps of a network read as parameters.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// The constants and state that values are computed of, by value; none of what depends on an input.
using Sources = std::vector<std::set<ValueId>>;
Sources sources_of(const Graph& graph);

// Parameters that the node's slots read, by slot. For a slot whose value steps compute, all parameters that it is
// computed of. `stored`: stored_values().
std::multimap<size_t, ValueId> parameters_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                             const Sources& sources);
// With those that the source freezes.
std::multimap<size_t, ValueId> weights_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                          const Sources& sources);

}  // namespace nacre::tools
