#include "tools/commands/doctor/self_test.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/base/split_mix64.h"
#include "tools/compile/compile.h"
#include "tools/graph/batch.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

// A policy, and the largest difference of an output as a share of the largest output. In float16 each of the four
// roundings on the way is at most 2^-11 of a number. In int8 a layer's input may differ in its last bit: that moves a
// code by one, of 127 for the largest number. Two layers do so.
struct Case {
  const char* policy;
  float tolerance;
};
constexpr Case kCases[] = {{"float32", kFloatTolerance}, {"float16", 0x1p-9f}, {"int8_from_float32", 2.f / 127}};

ValueId weights(Graph& graph, const char* name, const std::vector<int64_t>& dims, SplitMix64& random) {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = float(random.next() >> 40) * 0x1p-24f - 0.5f;
  return graph.constant(name, dims, numbers);
}

ValueId add_step(Graph& graph, Op op, const char* name, std::vector<ValueId> inputs) {
  const int layer = graph.add_layer({.name = name, .source_op = name, .policy = {}});
  const ValueId output = graph.add({.name = std::string(name) + ":0", .dims = {}});
  Node node = make_step(op, Node(), name, std::move(inputs), {output});
  node.layer = layer;
  infer_shapes(graph, node);
  graph.nodes.push_back(std::move(node));
  return output;
}

// x [1, 9, 9, 5] -> conv 3x3, 19 -> relu -> dense 21 over [7, 7, 19] rows. The sizes are no multiples of vectors, so
// tails run too.
Graph network() {
  Graph graph;
  graph.source = "self-test";
  SplitMix64 random(1);
  const ValueId x = graph.add({.name = "x", .dims = {1, 9, 9, 5}});
  graph.inputs.push_back({"x", x, ""});
  const ValueId conv = add_step(graph, Op::kConv2d, "conv",
                                {x, weights(graph, "w1", {19, 3, 3, 5}, random), weights(graph, "b1", {19}, random)});
  const ValueId relu = add_step(graph, Op::kClamp, "relu", {conv});
  set_integer(graph.nodes.back(), "clamp", 1);
  set_real(graph.nodes.back(), "high", INFINITY);
  const ValueId y = add_step(graph, Op::kDense, "dense",
                             {relu, weights(graph, "w2", {21, 19}, random), weights(graph, "b2", {21}, random)});
  graph.outputs.push_back({"y", y, ""});
  mark_batched(graph, true);
  return graph;
}

}  // namespace

std::vector<std::string> test_kernels(std::span<const Port* const> ports) {
  std::vector<std::string> differences;
  for (const Case& each : kCases) {
    const Compiled compiled = compile(network(), {.policies = parse_policy_options({.policy = each.policy})});
    const LoadedModel model(compiled.bytes, "self-test", kReportDefect);
    const std::vector<uint8_t> inputs = seeded_inputs(model, 0, 1);
    const std::vector<uint8_t> expected = BoundProgram(model, 0, Ports{nullptr}, nullptr).run(inputs);
    for (const Port* const port : ports) {
      const std::vector<uint8_t> found = BoundProgram(model, 0, Ports{port}, nullptr).run(inputs);
      const Difference d = difference(model, 0, expected, found);
      if (!d.within(each.tolerance))
        differences.push_back(fmt::format("{} under {}: differs by {:.3g} of the largest output", name_of_port(port),
                                          each.policy, d.largest));
    }
  }
  return differences;
}

}  // namespace nacre::tools
