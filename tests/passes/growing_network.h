// A random network that grows layer by layer. Tests of passes derive their networks from it.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/graph/run_graph.h"
#include "tools/passes/passes.h"

namespace nacre::tools {

class GrowingNetwork {
 protected:
  explicit GrowingNetwork(uint32_t seed) : random_(seed) {}

  int below(int n) { return int(random_() % uint32_t(n)); }
  const std::vector<int64_t>& dims() { return graph_.values[size_t(last_)].dims; }
  ValueId value() {
    Value v;
    v.name = "v" + std::to_string(graph_.values.size());
    return graph_.add(std::move(v));
  }
  ValueId constant(const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    std::vector<float> items(static_cast<size_t>(elements));
    for (float& item : items) item = float(random_() >> 8) * 0x1p-24f - 0.5f;
    return graph_.constant("c" + std::to_string(graph_.values.size()), shape, items);
  }
  void add(Op op, std::vector<ValueId> inputs, const std::function<void(Node&)>& set = [](Node&) {}) {
    Node node;
    node.op = op;
    node.name = "l" + std::to_string(graph_.layers.size());
    node.layer = graph_.add_layer({.name = node.name, .source_op = "", .policy = {}});
    node.inputs = std::move(inputs);
    node.outputs = {value()};
    set(node);
    infer_shapes(graph_, node);
    last_ = node.outputs[0];
    graph_.nodes.push_back(std::move(node));
  }

  Graph graph_;
  std::mt19937 random_;
  ValueId last_ = kNone;  // what the last layer made
};

}  // namespace nacre::tools
