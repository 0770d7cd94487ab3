// Graphs of values with given sizes for the tests of the memory plan. They are planned and verified.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/passes/random_graph.h"
#include "tools/base/error.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools::plan_memory_graphs {

inline Graph planned(Graph graph, const Target& target = {}) {
  plan_memory(graph, target);
  verify_plan(graph);
  return graph;
}

inline uint64_t used(const Graph& graph) { return graph.banks[0].used; }

// Returns a chain of nodes that do not work in place, over values of these sizes.
inline Graph chain(const std::vector<int64_t>& bytes) {
  Graph graph;
  for (const int64_t b : bytes) bytes_value(graph, b);
  for (size_t i = 1; i < bytes.size(); ++i)
    graph.nodes.push_back(
        {.op = Op::kDense, .name = "", .words = {}, .inputs = {ValueId(i) - 1}, .outputs = {ValueId(i)}});
  graph.inputs = {{"x", 0, ""}};
  graph.outputs = {{"y", ValueId(bytes.size()) - 1, ""}};
  return graph;
}

inline ValueId node(Graph& graph, Op op, std::vector<ValueId> inputs, int64_t bytes) {
  const ValueId y = bytes_value(graph, bytes);
  const bool requantizes = op == Op::kAdd || op == Op::kClamp;  // int8, as the kernels that work in place ask
  graph.nodes.push_back({.op = op,
                         .rounding = requantizes ? Rounding::kDouble : Rounding::kNone,
                         .name = "",
                         .words = {},
                         .inputs = std::move(inputs),
                         .outputs = {y}});
  return y;
}

inline std::string refusal(auto function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace nacre::tools::plan_memory_graphs
