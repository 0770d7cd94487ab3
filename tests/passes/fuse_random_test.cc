// Tests fuse on random float networks: layers in float32, float16, bfloat16 and float64 with activations and residual
// sums. Fused and unfused networks must give the same bytes, and the arena of a residual network must not grow.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "engine/ops/parameters.h"
#include "tests/graph/run_graph.h"
#include "tests/sanitized.h"
#include "tools/passes/memory/plan_memory.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using E = ElementType;

class FloatNetwork {
 public:
  explicit FloatNetwork(uint32_t seed) : random_(seed) {}

  // Makes a network of values [1, 4, 4, 4]. Its layers have policies of their own, or one policy.
  Graph make() {
    mixed_ = below(2) == 0;
    type_ = any_type();
    return make_steps();
  }
  Graph make_float32() { return make_steps(); }

 private:
  Graph make_steps() {
    const ValueId x = value();
    graph_.inputs.push_back({"x", x, ""});
    all_.push_back(x);
    for (int i = 0; i < 14; ++i) step();
    graph_.outputs.push_back({"y", all_.back(), ""});
    if (below(2) == 0) graph_.outputs.push_back({"also", all_[all_.size() / 2], ""});
    return std::move(graph_);
  }

  int below(int n) { return int(random_() % uint32_t(n)); }
  float real(float low, float high) { return low + (high - low) * float(random_() >> 8) * 0x1p-24f; }
  E any_type() {
    constexpr E kTypes[] = {E::kFloat32, E::kFloat16, E::kBfloat16, E::kFloat64};
    return kTypes[below(4)];
  }

  ValueId value() {
    Value v;
    v.name = "v" + std::to_string(graph_.values.size());
    v.dims = {1, 4, 4, 4};
    return graph_.add(std::move(v));
  }
  ValueId constant(const std::vector<int64_t>& dims) {
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    std::vector<float> items(static_cast<size_t>(elements));
    for (float& item : items) item = real(-1, 1);
    return graph_.constant("c" + std::to_string(graph_.values.size()), dims, items);
  }
  // Returns mostly the last value, so that chains can be fused.
  ValueId any() { return below(4) > 0 ? all_.back() : all_[size_t(below(int(all_.size())))]; }

  void add(Op op, std::vector<ValueId> inputs, const std::function<void(Node&)>& set = [](Node&) {}) {
    Layer layer;
    layer.name = "l" + std::to_string(graph_.layers.size());
    layer.asked = true;
    layer.policy.variable = layer.policy.compute = layer.policy.output = mixed_ && below(3) == 0 ? any_type() : type_;
    if (below(6) == 0) layer.policy.operation_rounding = OperationRounding::kEach;
    Node node;
    node.op = op;
    node.name = layer.name;
    node.layer = graph_.add_layer(layer);
    node.inputs = std::move(inputs);
    node.outputs = {value()};
    set(node);
    infer_shapes(graph_, node);
    all_.push_back(node.outputs[0]);
    graph_.nodes.push_back(std::move(node));
  }

  void step() {
    const int kind = below(12);
    if (kind < 5) return matmul(any());
    if (kind < 7) {
      const ValueId other = below(4) == 0 ? constant({1, 4, 4, 4}) : all_[size_t(below(int(all_.size())))];
      const bool clamps = below(3) == 0;
      return add(Op::kAdd, below(2) == 0 ? std::vector<ValueId>{any(), other} : std::vector<ValueId>{other, any()},
                 [&](Node& node) {
                   if (clamps) bounds(node);
                 });
    }
    if (kind == 7) return add(Op::kClamp, {any()}, [&](Node& node) { bounds(node); });
    constexpr Op kFunctions[] = {Op::kLeakyRelu, Op::kSigmoid, Op::kTanh, Op::kHardSwish, Op::kGelu, Op::kSilu};
    const Op function = kFunctions[below(6)];
    add(function, {any()}, [&](Node& node) {
      if (function == Op::kLeakyRelu) set_real(node, "alpha", real(-0.5f, 1.5f));
      if (function == Op::kGelu) set_integer(node, "tanh", below(2));
    });
  }
  void matmul(ValueId x) {
    const int which = below(3);
    std::vector<ValueId> inputs = {x};
    if (which == 0) inputs.push_back(constant({4, 4}));
    else if (which == 1) inputs.push_back(constant({4, 3, 3, 4}));
    else inputs.push_back(constant({3, 3, 4}));
    if (below(2) == 0) inputs.push_back(constant({4}));
    constexpr Op kMatmuls[] = {Op::kDense, Op::kConv2d, Op::kDepthwiseConv2d};
    add(kMatmuls[which], inputs, [&](Node& node) {
      if (which > 0)
        for (const char* pad : {"pad_top", "pad_left", "pad_bottom", "pad_right"}) set_integer(node, pad, 1);
      if (below(6) == 0) bounds(node);
    });
  }
  void bounds(Node& node) {
    set_integer(node, "clamp", 1);
    set_real(node, "low", real(-2, 0));
    set_real(node, "high", below(2) == 0 ? INFINITY : real(0, 2));
  }

  Graph graph_;
  std::mt19937 random_;
  std::vector<ValueId> all_;
  bool mixed_ = false;
  E type_ = E::kFloat32;
};

TEST(fuse_random, float_networks_give_the_same_bytes) {
  int kinds[Clamp::kGeluTanh + 1] = {}, residuals = 0;
  std::map<E, int> types;
  const int networks = nacre::test::generated(600);
  for (uint32_t seed = 1; seed <= uint32_t(networks); ++seed) {
    Graph unfused = FloatNetwork(seed).make();
    apply_policy(unfused);
    check(unfused);
    Graph fused = unfused;
    fuse(fused);
    check(fused);
    std::mt19937 rng(seed);
    const std::vector<std::vector<uint8_t>> inputs = random_inputs(unfused, rng);
    const Graph a = run_graph(unfused, inputs), b = run_graph(fused, inputs);
    for (size_t i = 0; i < a.outputs.size(); ++i)
      ASSERT_EQ(*a.values[size_t(a.outputs[i].value)].data, *b.values[size_t(b.outputs[i].value)].data)
          << "seed " << seed << "\n"
          << dump(unfused) << dump(fused);
    for (const Node& node : fused.nodes) {
      if (!is_matmul(node.op)) continue;
      const bool residual = node.inputs.size() > 3 && node.inputs[3] != kNone;
      const int64_t kind = get_integer(node, "clamp");
      ++kinds[kind];
      residuals += residual;
      if (residual || kind > Clamp::kBounds) ++types[fused.values[size_t(node.outputs[0])].type];
    }
  }
  for (uint32_t kind = 0; kind <= Clamp::kGeluTanh; ++kind) EXPECT_GT(kinds[kind], networks / 40) << kind;
  EXPECT_GT(residuals, networks / 4);
  for (const E type : {E::kFloat32, E::kFloat16, E::kBfloat16, E::kFloat64})
    EXPECT_GT(types[type], networks / 12) << int(type);
}

Graph planned_network(Graph graph, bool fused, bool ordered) {
  apply_policy(graph);
  if (fused) fuse(graph);
  if (ordered) schedule(graph, {});
  plan_memory(graph, {});
  verify_plan(graph);
  return graph;
}

// Builds blocks y = relu(x + conv(relu(conv(x)))) as in a residual network. The last convolution can write over x.
TEST(fuse_random, the_arena_of_a_residual_network_shrinks) {
  std::string text = "graph \"t\" batch=1\nvalue %x0 float32 [1, 8, 8, 4]\n", nodes;
  for (int block = 0; block < 3; ++block) {
    const std::string b = std::to_string(block), next = std::to_string(block + 1);
    for (const char* name : {"h", "g", "s"}) text += "value %" + (name + b) + " float32 [1, 8, 8, 4]\n";
    text += "value %x" + next + " float32 [1, 8, 8, 4]\n";
    for (const char* name : {"w", "u"}) {
      text += "value %" + (name + b) + " float32 [4, 1, 1, 4] data=float32 {";
      for (int i = 0; i < 16; ++i) text += (i > 0 ? ", " : "") + std::to_string((i * 7 + block) % 5 - 2);
      text += "}\n";
    }
    nodes += "%h" + b + " = conv2d(%x" + b + ", %w" + b + ") clamp=1 high=inf name=\"a" + b + "\"\n" + "%g" + b +
             " = conv2d(%h" + b + ", %u" + b + ") name=\"b" + b + "\"\n" + "%s" + b + " = add(%g" + b + ", %x" + b +
             ") name=\"c" + b + "\"\n" + "%x" + next + " = clamp(%s" + b + ") clamp=1 high=inf name=\"d" + b + "\"\n";
  }
  const Graph graph = parse(text + "input \"x\" %x0\noutput \"y\" %x3\n" + nodes);
  check(graph);
  constexpr uint64_t kValue = 8 * 8 * 4 * 4;
  // Unfused: x, the hidden value and the second result. Fused: the second result is written over x.
  EXPECT_EQ(planned_network(graph, false, true).banks[0].used, 3 * kValue);
  EXPECT_EQ(planned_network(graph, true, true).banks[0].used, 2 * kValue);
}

// Compares one order of steps: a fused step lives with x, r and y, the matmul alone with x, r and s. A residual from
// another branch must exist before the matmul, which restricts the order; the orders that schedule finds are compared
// in their sum only. All layers have one type, because the wider result of a fused cast may live longer.
TEST(fuse_random, no_network_needs_more_memory) {
  uint64_t plain = 0, fused = 0;
  const int networks = nacre::test::generated(300);
  for (uint32_t seed = 1; seed <= uint32_t(networks); ++seed) {
    const Graph graph = FloatNetwork(seed).make_float32();
    EXPECT_LE(planned_network(graph, true, false).liveness_bound, planned_network(graph, false, false).liveness_bound)
        << "seed " << seed;
    plain += planned_network(graph, false, true).banks[0].used;
    fused += planned_network(graph, true, true).banks[0].used;
  }
  EXPECT_LT(fused, plain);
  std::printf("%d networks: arenas of %d bytes, fused %d\n", networks, int(plain), int(fused));
}

}  // namespace
}  // namespace nacre::tools
