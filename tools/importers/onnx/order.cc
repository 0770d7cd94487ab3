#include "tools/importers/onnx/order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "tools/base/error.h"

namespace nacre::tools::onnx_import {
namespace {

// Visits the names that a node reads, and the names that graphs in its attributes capture from outside.
void each_read(const ::onnx::NodeProto& node, const std::function<void(const std::string&)>& visit) {
  for (const std::string& input : node.input())
    if (!input.empty()) visit(input);
  for (const ::onnx::AttributeProto& attribute : node.attribute()) {
    for (const ::onnx::NodeProto& inner : attribute.g().node()) each_read(inner, visit);
    for (const ::onnx::ValueInfoProto& output : attribute.g().output()) visit(output.name());
  }
}

std::string place_of(const ::onnx::NodeProto& node) {
  const std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "unnamed";
  return name + " (" + node.op_type() + ")";
}

// The edges from nodes to their readers. A node has an edge to itself only if one of its inputs is its own output. A
// graph inside it may use the name of such an output.
struct Edges {
  std::vector<std::vector<int>> readers;
  std::vector<int> missing;  // count of each node's reads whose writers are not in the order yet
  bool sorted = true;
};

Edges edges_of(const Nodes& nodes) {
  std::unordered_map<std::string, int> writers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].output())
      if (!output.empty()) writers.emplace(output, i);
  Edges edges{std::vector<std::vector<int>>(size_t(nodes.size())), std::vector<int>(size_t(nodes.size()), 0)};
  for (int i = 0; i < nodes.size(); ++i)
    each_read(nodes[i], [&](const std::string& name) {
      const auto writer = writers.find(name);
      const auto& own = nodes[i].input();
      if (writer == writers.end()) return;
      if (writer->second == i && std::find(own.begin(), own.end(), name) == own.end()) return;
      edges.readers[size_t(writer->second)].push_back(i);
      ++edges.missing[size_t(i)];
      edges.sorted &= writer->second < i;
    });
  return edges;
}

}  // namespace

NodeList in_order(const Nodes& nodes) {
  Edges edges = edges_of(nodes);
  NodeList order;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (edges.sorted) order.push_back(&nodes[i]);
    else if (edges.missing[size_t(i)] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(&nodes[next]);
    for (const int reader : edges.readers[size_t(next)])
      if (--edges.missing[size_t(reader)] == 0) ready.push(reader);
  }
  if (order.size() == size_t(nodes.size())) return order;
  const auto first = std::find_if(edges.missing.begin(), edges.missing.end(), [](int count) { return count > 0; });
  throw Error(kBadInput, place_of(nodes[int(first - edges.missing.begin())]),
              "depends on its own output: the nodes form a cycle", "export it again");
}

int64_t count_nodes(const Nodes& nodes) {
  int64_t count = nodes.size();
  for (const ::onnx::NodeProto& node : nodes)
    for (const ::onnx::AttributeProto& attribute : node.attribute()) count += count_nodes(attribute.g().node());
  return count;
}

NodeList live_nodes(const NodeList& nodes, std::unordered_set<std::string> needed,
                    std::unordered_map<std::string, int>& uses) {
  for (const std::string& name : needed) ++uses[name];
  NodeList live;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const auto& outputs = (*node)->output();
    if (std::ranges::none_of(outputs, [&](const std::string& o) { return needed.contains(o); })) continue;
    live.push_back(*node);
    each_read(**node, [&](const std::string& name) {
      needed.insert(name);
      ++uses[name];
    });
  }
  std::reverse(live.begin(), live.end());
  return live;
}

}  // namespace nacre::tools::onnx_import
