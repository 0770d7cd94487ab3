// Sorts the nodes of a graph or function, and finds the nodes that its outputs need.
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

// Puts every node after the nodes whose outputs it reads. Keeps the file's order if it is such an order already.
// Throws Error{kBadInput} if nodes form a cycle.
NodeList in_order(const Nodes& nodes);

int64_t count_nodes(const Nodes& nodes);  // counts the nodes of inner graphs too

// Returns, in order, the nodes that the names in `needed` depend on. Adds to `uses` the readers of each name.
NodeList live_nodes(const NodeList& nodes, std::unordered_set<std::string> needed,
                    std::unordered_map<std::string, int>& uses);

}  // namespace nacre::tools::onnx_import
