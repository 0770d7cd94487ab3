// Random graphs for the planner: a few inputs, then nodes that read some of the values so far. Shapes are arbitrary
// so that sizes are; check() would refuse them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct RandomGraph {
  int nodes = 20;
  int largest = 4096;  // bytes of a value
  int granule = 1;     // sizes are multiples of this
  double pointwise = 0.3, views = 0.2;
};

inline ValueId bytes_value(Graph& graph, int64_t bytes) {
  Value value;
  value.name = "v" + std::to_string(graph.values.size());
  value.type = ElementType::kInt8;
  value.dims = {1, bytes};
  graph.values.push_back(value);  // add() would search all names
  return ValueId(graph.values.size()) - 1;
}

class RandomGraphMaker {
 public:
  RandomGraphMaker(const RandomGraph& shape, uint32_t seed) : shape_(shape), random_(seed) {}

  Graph make() {
    const int inputs = 1 + below(2);
    for (int i = 0; i < inputs; ++i) {
      graph_.inputs.push_back({"in" + std::to_string(i), bytes_value(graph_, size()), ""});
      known_.push_back(graph_.inputs.back().value);
    }
    for (int n = 0; n < shape_.nodes; ++n) add_node(n);
    std::vector<bool> read(graph_.values.size());
    for (const Node& node : graph_.nodes)
      for (const ValueId v : node.inputs) read[size_t(v)] = true;
    for (const ValueId v : known_)
      if (!read[size_t(v)]) graph_.outputs.push_back({"out" + std::to_string(v), v, ""});
    return std::move(graph_);
  }

 private:
  int below(int n) { return int(random_() % uint32_t(n)); }
  bool with(double probability) { return double(random_()) < probability * 4294967296.0; }
  int64_t size() { return int64_t{1 + below(shape_.largest / shape_.granule)} * shape_.granule; }
  int64_t bytes(ValueId v) const { return graph_.values[size_t(v)].dims[1]; }

  // Returns mostly a recent value, because networks are deep rather than wide.
  ValueId any() {
    const int count = int(known_.size());
    return known_[size_t(with(0.7) ? count - 1 - below(count < 4 ? count : 4) : below(count))];
  }

  void add_node(int n) {
    Node node{.op = Op::kDense, .name = "n" + std::to_string(n), .words = {}, .inputs = {any()}, .outputs = {}};
    int64_t out = size();
    if (with(shape_.views)) {
      out = make_view(node);
    } else if (with(shape_.pointwise)) {
      node.op = Op::kClamp;
      node.rounding = Rounding::kDouble;
      out = bytes(node.inputs[0]);
    } else if (with(0.4)) {
      node.inputs.push_back(any());
    }
    node.outputs = {bytes_value(graph_, out)};
    known_.push_back(node.outputs[0]);
    graph_.nodes.push_back(std::move(node));
  }

  // Makes the node a view and returns the bytes of its output.
  int64_t make_view(Node& node) {
    const int64_t in = bytes(node.inputs[0]);
    switch (below(3)) {
      case 0: node.op = Op::kReshape; return in;
      case 1: {
        node.op = Op::kSlice;
        const int64_t out = 1 + below(int(in)), begin = below(int(in - out + 1));
        set_integer(node, "begin", int(begin), 1);
        set_integer(node, "size", 1, 0);
        set_integer(node, "size", int(out), 1);
        for (int axis = 0; axis < kMaxRank; ++axis) set_integer(node, "step", 1, axis);
        return out;
      }
      default:
        node.op = Op::kConcat;
        node.inputs.push_back(any());
        set_integer(node, "axis", 1);
        return in + bytes(node.inputs[1]);
    }
  }

  RandomGraph shape_;
  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> known_;
};

inline Graph random_graph(const RandomGraph& shape, uint32_t seed) { return RandomGraphMaker(shape, seed).make(); }

}  // namespace nacre::tools
