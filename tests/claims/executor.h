// How a claim runs a converted network and sees every tensor of it. interpreter.cc implements it by interpreting the
// graph, and engine_executor.cc by the engine on a written model. A claim links one of the two.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

using Bytes = std::vector<uint8_t>;

// Runs the network on `inputs`, in the order of graph.inputs. Returns by name the bytes of every value that is an
// input, that a step writes, or that is an alias of one of these. `graph` has gone through all passes that convert()
// runs before the plan.
std::map<std::string, Bytes> execute(const Graph& graph, const std::vector<Bytes>& inputs);

// Returns "graph interpreter" or "engine", for the claim's line.
const char* executor_name();

}  // namespace nacre::tools
