// Runs a graph node by node with evaluate(): the oracle of the tests of passes.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tools/base/error.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Returns the graph with every value constant: inputs as given (bytes, in the order of graph.inputs), others as
// computed.
inline Graph run_graph(Graph graph, const std::vector<std::vector<uint8_t>>& inputs) {
  const auto fill = [&graph](ValueId id, std::vector<uint8_t> bytes) {
    Value& v = graph.values[size_t(id)];
    if (bytes.size() != storage_bytes(v.type, uint64_t(v.elements())))
      throw Error(kFailed, v.name, "given another number of bytes");
    v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    v.stored = v.type;
  };
  if (inputs.size() != graph.inputs.size()) throw Error(kFailed, "run_graph", "given another number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i) fill(graph.inputs[i].value, inputs[i]);
  for (const Node& node : graph.nodes) {
    std::vector<std::vector<uint8_t>> results = evaluate(graph, node);
    for (size_t i = 0; i < results.size(); ++i) fill(node.outputs[i], std::move(results[i]));
  }
  return graph;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& items) {
  std::vector<uint8_t> bytes(items.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), items.data(), bytes.size());
  return bytes;
}

// Returns one array per input: uniform in [-1, 1) for float32, random bytes for other types.
inline std::vector<std::vector<uint8_t>> random_inputs(const Graph& graph, std::mt19937& rng) {
  std::vector<std::vector<uint8_t>> inputs;
  for (const Binding& b : graph.inputs) {
    const Value& v = graph.values[size_t(b.value)];
    if (v.type == ElementType::kFloat32) {
      std::vector<float> x(static_cast<size_t>(v.elements()));
      for (float& f : x) f = float(rng() >> 8) * 0x1p-23f - 1;
      inputs.push_back(bytes_of(x));
    } else {
      std::vector<uint8_t> x(storage_bytes(v.type, uint64_t(v.elements())));
      for (uint8_t& byte : x) byte = uint8_t(rng());
      inputs.push_back(x);
    }
  }
  return inputs;
}

}  // namespace nacre::tools
