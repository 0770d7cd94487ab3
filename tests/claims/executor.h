// How a claim runs a converted network and sees every tensor of it. Implemented once by interpreting the graph
// (interpreter.cc) and once by the engine on a written model; a claim links one of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

using Bytes = std::vector<uint8_t>;

// `inputs` in the order of graph.inputs. Gives the bytes of every value that is an input, or that a step writes, or
// that is an alias of one of these, by name. `graph` has gone through all passes that convert() runs before the plan.
std::map<std::string, Bytes> execute(const Graph& graph, const std::vector<Bytes>& inputs);

// "graph interpreter" or "engine": stands in the claim's line.
const char* executor_name();

}  // namespace nacre::tools
