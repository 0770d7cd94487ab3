// Tests pad_features: the channel counts that it makes, where it stops, and that results keep their bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "tests/graph/run_graph.h"
#include "tests/passes/growing_network.h"
#include "tools/calibration/quantize_static.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// A network of convolutions with any number of channels, steps that may stand between them, and dense layers at the
// end.
class PaddedNetwork : GrowingNetwork {
 public:
  explicit PaddedNetwork(uint32_t seed) : GrowingNetwork(seed) {}

  Graph make() {
    graph_.batch = kBatch;
    last_ = value();
    const int64_t size = 4 + below(3);
    graph_.values[size_t(last_)].dims = {kBatch, size, size, 1 + below(9)};
    graph_.inputs.push_back({"x", last_, ""});
    for (int i = 0; i < 7; ++i) image_step();
    if (below(3) == 0) graph_.outputs.push_back({"image", last_, ""});
    if (below(2) == 0) {
      add(Op::kMean, {last_}, [](Node& node) { set_integer(node, "axes", 6); });
    } else {
      const std::vector<int64_t> x = dims();
      add(Op::kReshape, {last_}, [&](Node& node) {
        set_integer(node, "rank", 2);
        set_integer(node, "dims", kBatch, 0);
        set_integer(node, "dims", int(x[1] * x[2] * x[3]), 1);
      });
    }
    for (int i = 0; i < 3; ++i) {
      const int64_t out = 1 + below(20);
      matmul(Op::kDense, {out, dims().back()}, out);
      activate();
    }
    if (below(2) == 0) add(Op::kSoftmax, {last_}, [](Node& node) { set_integer(node, "axis", 1); });
    graph_.outputs.push_back({"y", last_, ""});
    return std::move(graph_);
  }

 private:
  static constexpr int kBatch = 2;

  void matmul(Op op, const std::vector<int64_t>& w, int64_t out) {
    std::vector<ValueId> inputs = {last_, constant(w)};
    if (below(3) > 0) inputs.push_back(constant({out}));
    const int64_t kernel = op == Op::kConv2d ? w[1] : w[0];
    add(op, inputs, [&](Node& node) {
      if (op != Op::kDense && kernel == 3)
        for (const char* pad : {"pad_top", "pad_left", "pad_bottom", "pad_right"}) set_integer(node, pad, 1);
    });
  }
  void activate() {
    constexpr Op kFunctions[] = {Op::kLeakyRelu, Op::kSigmoid, Op::kTanh, Op::kHardSwish, Op::kSilu, Op::kClamp};
    const Op function = kFunctions[below(6)];
    add(function, {last_}, [&](Node& node) {
      if (function == Op::kLeakyRelu) set_real(node, "alpha", 0.25f);
      if (function != Op::kClamp) return;
      set_integer(node, "clamp", 1);
      set_real(node, "low", below(3) == 0 ? 0.25f : 0);
      set_real(node, "high", below(2) == 0 ? 6 : INFINITY);
    });
  }
  void image_step() {
    const int64_t channels = dims().back(), kernel = below(2) == 0 ? 1 : 3, out = 1 + below(20);
    switch (below(8)) {
      case 0: return activate();
      case 1: return matmul(Op::kDepthwiseConv2d, {3, 3, channels}, channels);
      case 2: return add(Op::kAdd, {last_, constant({channels})});
      case 3: {  // a residual block, whose two branches are padded alike
        const ValueId x = last_;
        matmul(Op::kConv2d, {channels, 3, 3, channels}, channels);
        return add(Op::kAdd, {x, last_});
      }
      case 4:
        return add(below(2) == 0 ? Op::kMaxPool : Op::kAveragePool, {last_}, [](Node& node) {
          set_integer(node, "kernel_h", 2);
          set_integer(node, "kernel_w", 2);
        });
      default: return matmul(Op::kConv2d, {out, kernel, kernel, channels}, out);
    }
  }
};

Graph typed(Graph graph, const std::string& policy) {
  Calibration ranges;
  for (const Value& v : graph.values)
    if (!v.constant()) ranges.ranges[v.name] = {.range = {-3, 5}, .method = RangeMethod::kMinMax, .amaxes = {5}};
  resolve_policies(graph, parse_policy_options({.policy = policy}));
  quantize_static(graph, &ranges);
  apply_policy(graph);
  check(graph);
  return graph;
}

// Counts dense and conv2d layers: those whose number of features is a whole multiple, and all of them.
struct Counts {
  int whole = 0, all = 0;
};
Counts counts_of(const Graph& graph) {
  Counts counts;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kDense && node.op != Op::kConv2d) continue;
    const ElementType type = graph.values[size_t(node.inputs[0])].type;
    const int64_t multiple = element_bits(type) == 8 ? 16 : 8;
    ++counts.all;
    counts.whole += graph.values[size_t(node.outputs[0])].dims.back() % multiple == 0;
  }
  return counts;
}

TEST(pad_features, results_are_what_they_are_to_the_byte) {
  for (const char* policy : {"float16", "bfloat16", "int8_from_float32", "int8_from_bfloat16",
                             "float8/current_from_float32", "float8_from_float32", "int8/static_from_float32"})
    for (uint32_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(std::string(policy) + ", seed " + std::to_string(seed));
      const Graph graph = typed(PaddedNetwork(seed).make(), policy);
      Graph padded = graph;
      pad_features(padded);
      check(padded);
      const Counts counts = counts_of(padded);
      EXPECT_EQ(counts.whole, counts.all);
      std::mt19937 rng(seed);
      const std::vector<std::vector<uint8_t>> inputs = random_inputs(graph, rng);
      const Graph expected = run_graph(graph, inputs), made = run_graph(padded, inputs);
      ASSERT_EQ(made.outputs.size(), expected.outputs.size());
      for (size_t i = 0; i < made.outputs.size(); ++i) {
        const Value &y = made.values[size_t(made.outputs[i].value)],
                    &was = expected.values[size_t(expected.outputs[i].value)];
        EXPECT_EQ(y.name, was.name);
        EXPECT_EQ(y.dims, was.dims);
        EXPECT_EQ(*y.data, *was.data);
      }
    }
}

// One region reaches from the convolution to the dense layer. A slice cuts the padding off before softmax.
TEST(pad_features, a_stretch_ends_where_channels_are_joined) {
  Graph graph = typed(parse(R"(graph "t" batch=2
layer "conv" source="CONV_2D"
layer "relu" source="RELU"
layer "mean" source="MEAN"
layer "fc" source="FULLY_CONNECTED"
layer "softmax" source="SOFTMAX"
value %x float32 [2, 3, 3, 2] batched
value %c float32 [2, 3, 3, 5] batched
value %r float32 [2, 3, 3, 5] batched
value %m float32 [2, 5] batched
value %f float32 [2, 3] batched
value %y float32 [2, 3] batched
value %w float32 [5, 1, 1, 2] region=weights data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
value %b float32 [5] region=weights data=float32 {1, 2, 3, 4, 5}
value %v float32 [3, 5] region=weights data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
input "x" %x
output "y" %y
%c = conv2d(%x, %w, %b) name="conv" layer="conv"
%r = clamp(%c) clamp=1 high=inf name="relu" layer="relu"
%m = mean(%r) axes=6 name="mean" layer="mean"
%f = dense(%m, %v) name="fc" layer="fc"
%y = softmax(%f) axis=1 beta=1 name="softmax" layer="softmax"
)"),
                      "float16");
  graph.log.clear();
  pad_features(graph);
  check(graph);
  std::vector<Op> ops;
  std::vector<std::vector<float>> constants;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kCast) ops.push_back(node.op);
    for (const ValueId id : node.inputs)
      if (id != kNone && graph.values[size_t(id)].constant()) constants.push_back(reals(graph.values[size_t(id)]));
  }
  EXPECT_EQ(ops, (std::vector<Op>{Op::kConv2d, Op::kClamp, Op::kMean, Op::kDense, Op::kSlice, Op::kSoftmax}));
  ASSERT_EQ(graph.log.size(), 3u);
  EXPECT_EQ(graph.log[0], "pad_features: conv: 5 features are 8");
  EXPECT_EQ(graph.log[1], "pad_features: fc: 3 features are 8");
  EXPECT_TRUE(graph.log[2].starts_with("pad_features: softmax: a slice of f")) << graph.log[2];
  std::vector<float> w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, v(64);
  w.resize(16);
  for (size_t k = 0; k < 3; ++k)
    for (size_t i = 0; i < 5; ++i) v[8 * k + i] = float(5 * k + i + 1);
  EXPECT_EQ(constants, (std::vector<std::vector<float>>{w, {1, 2, 3, 4, 5, 0, 0, 0}, v}));
}

TEST(pad_features, float32_and_whole_counts_are_left) {
  for (const auto& [policy, out] :
       {std::pair("float32", 10), std::pair("float16", 24), std::pair("int8_from_float32", 32)}) {
    Graph graph;
    graph.batch = 1;
    Value x, y;
    x.name = "x", x.dims = {1, 16}, y.name = "y", y.dims = {1, out};
    graph.inputs.push_back({"x", graph.add(x), ""});
    const ValueId w = graph.constant("w", {out, 16}, std::vector<float>(size_t(out) * 16, 0.5f)), made = graph.add(y);
    graph.outputs.push_back({"y", made, ""});
    Node node = make_step(Op::kDense, Node(), "fc", {0, w}, {made});
    node.layer = graph.add_layer({.name = "fc", .source_op = "", .policy = {}});
    graph.nodes.push_back(node);
    const Graph before = typed(graph, policy);
    Graph after = before;
    pad_features(after);
    EXPECT_EQ(dump(after), dump(before)) << policy;
    EXPECT_EQ(after.log, before.log) << policy;
  }
}

}  // namespace
}  // namespace nacre::tools
