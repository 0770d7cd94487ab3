// The order of the nodes of a graph or function, and which of them are needed.
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

// Every node after those whose outputs it reads, else in the file's order. Nodes that form a cycle: Error{kBadInput}.
NodeList in_order(const Nodes& nodes);

int64_t count_nodes(const Nodes& nodes);  // with those of the graphs inside them

// Keeps the nodes, in order, that `needed` depends on. `uses` counts the readers of each name.
NodeList live_nodes(const NodeList& nodes, std::unordered_set<std::string> needed,
                    std::unordered_map<std::string, int>& uses);

}  // namespace nacre::tools::onnx_import
