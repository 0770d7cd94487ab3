// Sorts the nodes of a graph or function, and finds those that are needed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <onnx/onnx_pb.h>

namespace nacre::tools::onnx_import {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using NodeList = std::vector<const ::onnx::NodeProto*>;

// Puts every node after those whose outputs it reads, and else keeps the file's order. Throws Error{kBadInput} if
// nodes form a cycle.
NodeList in_order(const Nodes& nodes);

int64_t count_nodes(const Nodes& nodes);  // counts those of inner graphs too

// Returns, in order, the nodes that `needed` depends on. `uses` counts the readers of each name.
NodeList live_nodes(const NodeList& nodes, std::unordered_set<std::string> needed,
                    std::unordered_map<std::string, int>& uses);

}  // namespace nacre::tools::onnx_import
