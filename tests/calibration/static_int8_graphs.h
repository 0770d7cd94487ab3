// Small networks for the tests of quantize_static: layers that ask for int8, ranges, and comparisons of graphs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/calibration/quantizers.h"
#include "tools/passes/passes.h"

namespace nacre::tools::static_int8_graphs {

inline const std::string kHead = "graph \"net\" batch=1\n";

inline std::string activation(const std::string& name, const std::string& dims = "[1, 4]") {
  return "value %" + name + " float32 " + dims + " batched\n";
}

inline Graph asked(const std::string& text, const std::vector<std::string>& not_static = {}) {
  Graph graph = parse(text);
  check(graph);
  for (Layer& layer : graph.layers) {
    if (std::ranges::count(not_static, layer.name) != 0) continue;
    layer.policy.quantization = Quantization::kInt8Static;
    layer.asked = true;
  }
  return graph;
}

inline Calibration ranges(const std::vector<std::pair<std::string, Range>>& list) {
  Calibration c;
  c.samples = 1;
  for (const auto& [name, range] : list)
    c.ranges[name] = {.range = range, .method = RangeMethod::kMinMax, .amaxes = {1, 2}};
  return c;
}

inline const Value& value(const Graph& graph, const std::string& name) {
  for (const Value& v : graph.values)
    if (v.name == name) return v;
  throw Error(kFailed, name, "no such value");
}

inline bool has_value(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.values, [&](const Value& v) { return v.name == name; });
}

inline void expect_codes(const Graph& graph, const std::string& name, Range range) {
  const std::optional<Quantizer>& q = value(graph, name).quantizer;
  ASSERT_TRUE(q.has_value()) << name;
  const Quantizer expected = quantizer_of_range(range);
  EXPECT_EQ(q->scale, expected.scale) << name;
  EXPECT_EQ(q->zero, expected.zero) << name;
}

inline Graph quantized(Graph graph, const Calibration& c, const StaticOptions& options = {}) {
  quantize_static(graph, &c, options);
  check(graph);
  return graph;
}

inline Graph compiled(Graph graph) {
  apply_policy(graph);
  fuse(graph);
  check(graph);
  return graph;
}

inline std::vector<Op> ops(const Graph& graph) {
  std::vector<Op> list;
  for (const Node& node : graph.nodes) list.push_back(node.op);
  return list;
}

}  // namespace nacre::tools::static_int8_graphs
