// Tests properties on random graphs: integer steps stay within a derived distance of the real-valued network, and
// fuse changes no byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "tests/graph/run_graph.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// Makes graphs of one layer, or of several.
struct Maker {
  explicit Maker(uint32_t seed) : rng(seed) { layer = graph.add_layer({"layer", "TEST", {}}); }

  Graph graph;
  std::mt19937 rng;
  int layer;

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(rng); }

  Quantizer quantizer(float scale) {
    return {.codes = ElementType::kInt8, .scale = {scale}, .zero = {integer(-100, 100)}, .axis = 0};
  }

  ValueId value(std::vector<int64_t> dims, std::optional<Quantizer> quantizer) {
    Value v;
    v.name = "v";
    v.dims = std::move(dims);
    v.quantizer = std::move(quantizer);
    return graph.add(std::move(v));
  }
  ValueId input(std::vector<int64_t> dims, Quantizer q) {
    const ValueId id = value(std::move(dims), std::move(q));
    graph.inputs.push_back({graph.values[size_t(id)].name, id, ""});
    return id;
  }

  // Adds codes with one scale, or with one scale per index of `axis`.
  ValueId weights(std::vector<int64_t> dims, int axis, float scale, bool per_channel) {
    int64_t elements = 1;
    for (const int64_t d : dims) elements *= d;
    std::vector<int8_t> codes(static_cast<size_t>(elements));
    for (int8_t& c : codes) c = int8_t(integer(-127, 127));
    Quantizer q{.codes = ElementType::kInt8, .scale = {}, .zero = {}, .axis = axis};
    for (int64_t k = 0; k < (per_channel ? dims[size_t(axis)] : 1); ++k) q.scale.push_back(scale * real(0.5f, 1));
    q.zero.assign(q.scale.size(), 0);
    const ValueId id = graph.constant("w", dims, codes);
    graph.values[size_t(id)].quantizer = q;
    graph.values[size_t(id)].type = ElementType::kFloat32;
    return id;
  }

  ValueId bias(ValueId x, ValueId w, int64_t channels) {
    std::vector<int32_t> codes(static_cast<size_t>(channels));
    for (int32_t& c : codes) c = integer(-5000, 5000);
    Quantizer q = *graph.values[size_t(w)].quantizer;
    for (float& s : q.scale) s *= graph.values[size_t(x)].quantizer->scale[0];
    q.codes = ElementType::kInt32;
    q.axis = 0;
    const ValueId id = graph.constant("b", {channels}, codes);
    graph.values[size_t(id)].quantizer = q;
    graph.values[size_t(id)].type = ElementType::kFloat32;
    return id;
  }

  // Adds a node with one output that has the quantizer `q` and becomes the graph's only output.
  Node& add(
      Op op, std::vector<ValueId> inputs, std::optional<Quantizer> q,
      const std::function<void(Node&)>& set = [](Node&) {}) {
    Node node;
    node.op = op;
    node.name = "n" + std::to_string(graph.nodes.size());
    node.layer = layer;
    node.inputs = std::move(inputs);
    node.outputs = {value({}, std::move(q))};
    set(node);
    infer_shapes(graph, node);
    graph.outputs = {{"y", node.outputs[0], ""}};
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back();
  }
  ValueId last() const { return graph.nodes.back().outputs[0]; }
};

void set_clamp(Node& node, float low, float high) {
  set_integer(node, "clamp", 1);
  set_real(node, "low", low);
  set_real(node, "high", high);
}

void random_clamp(Maker& m, Node& node) {
  if (m.integer(0, 2) > 0) set_clamp(node, 0, m.integer(0, 1) == 0 ? INFINITY : 6);
}

// Returns the network in real numbers: activations without quantizers, constants decoded.
Graph real_network(Graph graph) {
  for (Value& v : graph.values)
    if (!v.constant()) v.quantizer.reset();
  apply_policy(graph);
  return graph;
}

std::vector<float> decoded(const std::vector<uint8_t>& codes, const Quantizer& q) {
  std::vector<float> result;
  for (const uint8_t c : codes) result.push_back(q.scale[0] * float(int8_t(c) - q.zero[0]));
  return result;
}

// Returns the largest distance between a code of the integer network and the real result, measured in codes and
// saturated.
double distance_in_codes(const Graph& source, std::mt19937& rng) {
  Graph integer = source;
  apply_policy(integer);
  check(integer);
  for (const Node& node : integer.nodes) EXPECT_NE(node.op, Op::kDequantize) << "not an integer form";
  const std::vector<std::vector<uint8_t>> codes = random_inputs(integer, rng);
  std::vector<std::vector<uint8_t>> reals_in;
  for (size_t i = 0; i < codes.size(); ++i)
    reals_in.push_back(bytes_of(decoded(codes[i], *source.values[size_t(source.inputs[i].value)].quantizer)));
  const Graph done = run_graph(integer, codes), real = run_graph(real_network(source), reals_in);
  const Value& y = done.values[size_t(done.outputs[0].value)];
  const std::vector<float> expected = reals(real.values[size_t(real.outputs[0].value)]);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double code = double(expected[i]) / double(y.quantizer->scale[0]) + double(y.quantizer->zero[0]);
    worst = std::max(worst, std::abs(std::clamp(code, -128.0, 127.0) - double(int8_t((*y.data)[i]))));
  }
  return worst;
}

void conv(Maker& m, Op op) {
  const bool depthwise = op == Op::kDepthwiseConv2d, per_channel = m.integer(0, 1) == 1;
  const int groups = depthwise ? 1 : m.integer(1, 2), in = 4, out = depthwise ? 4 * m.integer(1, 2) : 6;
  const ValueId x = m.input({1, 7, 6, in}, m.quantizer(m.real(0.01f, 0.1f)));
  const ValueId w = depthwise ? m.weights({3, 2, out}, 2, 0.01f, per_channel)
                              : m.weights({out, 3, 2, in / groups}, 0, 0.01f, per_channel);
  const float terms = depthwise ? 6 : 6.0f * float(in / groups);
  // Sums of random codes have a standard deviation of about 74 * 74 * sqrt(terms). This scale lets y use most of its
  // range.
  const float y_scale =
      m.graph.values[size_t(x)].quantizer->scale[0] * 0.01f * 74 * 74 * std::sqrt(terms) / m.real(40, 90);
  std::vector<ValueId> inputs = {x, w};
  if (m.integer(0, 3) > 0) inputs.push_back(m.bias(x, w, out));
  m.add(op, inputs, m.quantizer(y_scale), [&](Node& node) {
    for (const char* name : {"stride_h", "stride_w"}) set_integer(node, name, m.integer(1, 2));
    for (const char* name : {"dilation_h", "dilation_w"}) set_integer(node, name, m.integer(1, 2));
    for (const char* name : {"pad_top", "pad_left", "pad_bottom", "pad_right"})
      set_integer(node, name, m.integer(0, 1));
    if (!depthwise) set_integer(node, "groups", groups);
    random_clamp(m, node);
  });
}

void dense(Maker& m) {
  const ValueId x = m.input({3, 24}, m.quantizer(m.real(0.01f, 0.1f)));
  const ValueId w = m.weights({5, 24}, 0, 0.01f, m.integer(0, 1) == 1);
  const float y_scale = m.graph.values[size_t(x)].quantizer->scale[0] * 0.01f * 74 * 74 * 4.9f / m.real(40, 90);
  m.add(Op::kDense, {x, w, m.bias(x, w, 5)}, m.quantizer(y_scale), [&](Node& node) { random_clamp(m, node); });
}

template <Op kOp>
void binary(Maker& m) {
  const ValueId a = m.input({2, 3, 4}, m.quantizer(m.real(0.01f, 0.1f)));
  const ValueId b = m.input(m.integer(0, 1) == 0 ? std::vector<int64_t>{2, 3, 4} : std::vector<int64_t>{3, 1},
                            m.quantizer(m.real(0.01f, 0.1f)));
  m.add(kOp, {a, b}, m.quantizer(m.real(0.05f, 0.2f)), [&](Node& node) { random_clamp(m, node); });
}

template <Op kOp>
void pool(Maker& m) {
  const Quantizer q = m.quantizer(m.real(0.01f, 0.1f));
  const bool same = m.integer(0, 1) == 1;
  m.add(kOp, {m.input({1, 6, 5, 3}, q)}, same ? q : m.quantizer(q.scale[0] * m.real(0.7f, 1.5f)), [&](Node& node) {
    set_integer(node, "kernel_h", m.integer(1, 3));
    set_integer(node, "kernel_w", m.integer(2, 3));
    for (const char* name : {"stride_h", "stride_w"}) set_integer(node, name, m.integer(1, 2));
    set_integer(node, "pad_right", m.integer(0, 1));
  });
}

void clamp(Maker& m) {
  const Quantizer q = m.quantizer(m.real(0.03f, 0.1f));
  m.add(Op::kClamp, {m.input({2, 20}, q)}, m.integer(0, 1) == 0 ? q : m.quantizer(m.real(0.03f, 0.1f)),
        [&](Node& node) { set_clamp(node, m.real(-3, 0), m.real(0, 6)); });
}

void mean(Maker& m) {
  m.add(Op::kMean, {m.input({2, 5, 3, 4}, m.quantizer(0.05f))}, m.quantizer(m.real(0.01f, 0.03f)),
        [&](Node& node) { set_integer(node, "axes", m.integer(1, 15)); });
}

template <Op kOp>
void function(Maker& m, float y_scale, int y_zero) {
  m.add(kOp, {m.input({3, 256}, m.quantizer(m.real(0.01f, 0.1f)))},
        Quantizer{.codes = ElementType::kInt8, .scale = {y_scale}, .zero = {y_zero}, .axis = 0}, [&](Node& node) {
          if (kOp == Op::kLeakyRelu) set_real(node, "alpha", m.real(0.01f, 0.5f));
        });
}

void softmax(Maker& m) {
  m.add(Op::kSoftmax, {m.input({3, 12}, m.quantizer(m.real(0.02f, 0.2f)))},
        Quantizer{.codes = ElementType::kInt8, .scale = {1.0f / 256}, .zero = {-128}, .axis = 0}, [&](Node& node) {
          set_integer(node, "axis", 1);
          set_real(node, "beta", 1);
        });
}

void moves(Maker& m) {
  const Quantizer q = m.quantizer(0.05f);
  const ValueId a = m.input({2, 3}, q), b = m.input({2, 3}, m.quantizer(m.real(0.04f, 0.06f)));
  m.add(Op::kConcat, {a, b}, q, [](Node& node) { set_integer(node, "axis", 1); });
  m.add(Op::kPad, {m.last()}, q, [](Node& node) { set_integer(node, "before", 1, 1); });
  m.add(Op::kTranspose, {m.last()}, q, [](Node& node) { set_integer(node, "perm", 1, 0); });
}

struct Case {
  const char* name;
  void (*make)(Maker& m);
  double bound;  // codes
};

// A rescaled code is rounded at most twice, by at most half a unit each: 1. The multiplier (2^-31 relative) and the
// float32 oracle (sums of 24 products of at most 2^-24 relative error, of at most 127 * 127 * 24 / 74^2 * 90 codes)
// add less than 0.003. Averages of codes are rounded once. TFLite's fixed-point functions add at most 1 code to that
// rounding.
constexpr double kOracle = 0.003, kTwice = 1 + kOracle, kFunction = 1.5 + kOracle;
constexpr Case kCases[] = {
    {"conv2d", [](Maker& m) { conv(m, Op::kConv2d); }, kTwice},
    {"depthwise_conv2d", [](Maker& m) { conv(m, Op::kDepthwiseConv2d); }, kTwice},
    {"dense", &dense, kTwice},
    {"add", &binary<Op::kAdd>, kTwice},
    {"sub", &binary<Op::kSub>, kTwice},
    {"mul", &binary<Op::kMul>, kTwice},
    {"average_pool", &pool<Op::kAveragePool>, 0.5 * 1.5 + kTwice},  // averaged, then rescaled by up to 1 / 0.7
    {"max_pool", &pool<Op::kMaxPool>, kTwice},
    {"clamp", &clamp, kTwice + 0.5},  // bounds are codes, rounded
    {"mean", &mean, kTwice},
    {"sigmoid", [](Maker& m) { function<Op::kSigmoid>(m, 1.0f / 256, -128); }, kFunction},
    {"tanh", [](Maker& m) { function<Op::kTanh>(m, 1.0f / 128, 0); }, kFunction},
    {"hard_swish", [](Maker& m) { function<Op::kHardSwish>(m, 0.05f, -20); }, kFunction},
    {"silu", [](Maker& m) { function<Op::kSilu>(m, 0.05f, -20); }, 0.5 + kOracle},  // rounded once
    {"leaky_relu", [](Maker& m) { function<Op::kLeakyRelu>(m, 0.06f, -7); }, kTwice},
    {"softmax", &softmax, kFunction},
    {"moves", &moves, kTwice},
};

TEST(apply_policy_property, integer_steps_stay_near_the_real_network) {
  for (const Case& c : kCases) {
    double worst = 0;
    for (uint32_t seed = 1; seed <= 100; ++seed) {
      Maker m(seed);
      c.make(m);
      check(m.graph);
      const double distance = distance_in_codes(m.graph, m.rng);
      EXPECT_LE(distance, c.bound) << c.name << " seed " << seed << "\n" << dump(m.graph, true);
      worst = std::max(worst, distance);
      if (distance > c.bound) return;
    }
    RecordProperty(c.name, std::to_string(worst));
  }
}

// Only calibration gives codes to silu, so that files of either rounding have its table.
TEST(apply_policy_property, silu_is_a_table_for_either_rounding) {
  for (const Rounding rounding : {Rounding::kHalfAway, Rounding::kHalfEven}) {
    Maker m(1);
    function<Op::kSilu>(m, 0.05f, -20);
    m.graph.quantize_rounding = rounding;
    apply_policy(m.graph, {});
    ASSERT_EQ(m.graph.nodes.size(), 1u);
    EXPECT_EQ(m.graph.nodes[0].op, Op::kLookup);
  }
}

TEST(apply_policy_property, single_rounding_rounds_once) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Maker m(seed);
    dense(m);
    Graph graph = m.graph;
    apply_policy(graph, {.rounding = Rounding::kSingle});
    check(graph);
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(graph.nodes[0].rounding, Rounding::kSingle);
    const std::vector<std::vector<uint8_t>> codes = random_inputs(graph, m.rng);
    const Graph done = run_graph(graph, codes);
    const Graph real =
        run_graph(real_network(m.graph),
                  {bytes_of(decoded(codes[0], *m.graph.values[size_t(m.graph.inputs[0].value)].quantizer))});
    const Value& y = done.values[size_t(done.outputs[0].value)];
    const std::vector<float> expected = reals(real.values[size_t(real.outputs[0].value)]);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double code = double(expected[i]) / double(y.quantizer->scale[0]) + double(y.quantizer->zero[0]);
      EXPECT_NEAR(std::clamp(code, -128.0, 127.0), double(int8_t((*y.data)[i])), 0.5 + kOracle) << "seed " << seed;
    }
  }
}

// uint8 codes c equal int8 codes c - 128. The networks must be the same, and their bytes must differ in the sign bit
// only.
TEST(apply_policy_property, uint8_networks_equal_int8_networks) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Maker m(seed);
    conv(m, Op::kConv2d);
    Graph int8 = m.graph, uint8 = m.graph;
    for (Value& v : uint8.values) {
      if (v.constant()) continue;
      v.quantizer->codes = ElementType::kUint8;
      v.quantizer->zero[0] += 128;
    }
    for (Graph* graph : {&int8, &uint8}) {
      apply_policy(*graph);
      check(*graph);
    }
    std::vector<std::vector<uint8_t>> codes = random_inputs(int8, m.rng);
    const Graph a = run_graph(int8, codes);
    for (uint8_t& c : codes[0]) c ^= 0x80;
    const Graph b = run_graph(uint8, codes);
    std::vector<uint8_t> flipped = *b.values[size_t(b.outputs[0].value)].data;
    for (uint8_t& c : flipped) c ^= 0x80;
    EXPECT_EQ(b.values[size_t(b.outputs[0].value)].type, ElementType::kUint8);
    EXPECT_EQ(*a.values[size_t(a.outputs[0].value)].data, flipped) << "seed " << seed;
  }
}

// Returns a chain of steps with clamps between them, in int8 or float32.
Graph random_chain(uint32_t seed, bool int8) {
  Maker m(seed);
  const auto q = [&]() -> std::optional<Quantizer> {
    return int8 ? std::optional(m.quantizer(m.real(0.02f, 0.1f))) : std::nullopt;
  };
  const auto dims = std::vector<int64_t>{1, 4, 4, 4};
  ValueId x = m.value(dims, q());
  m.graph.inputs.push_back({"x", x, ""});
  std::vector<ValueId> all = {x};
  for (int i = 0; i < 8; ++i) {
    const ValueId from = m.integer(0, 3) > 0 ? x : all[size_t(m.integer(0, int(all.size()) - 1))];
    const std::optional<Quantizer> kept = m.graph.values[size_t(from)].quantizer;
    const int kind = m.integer(0, 5);
    if (kind <= 2)
      m.add(Op::kClamp, {from}, m.integer(0, 3) > 0 ? kept : q(),
            [&](Node& n) { set_clamp(n, m.real(-9, 0), m.real(0, 9)); });
    else if (kind == 3)
      m.add(Op::kAdd, {from, all[size_t(m.integer(0, int(all.size()) - 1))]}, q(),
            [&](Node& n) { random_clamp(m, n); });
    else if (kind == 4) m.add(Op::kConv2d, {from, m.weights({4, 1, 1, 4}, 0, 0.01f, true)}, q());
    else
      m.add(Op::kMaxPool, {from}, kept, [&](Node& n) {
        set_integer(n, "kernel_h", 1);
        set_integer(n, "kernel_w", 1);
      });
    all.push_back(x = m.last());
  }
  if (m.integer(0, 1) == 1) m.graph.outputs.push_back({"also", all[all.size() / 2], ""});
  return m.graph;
}

TEST(fuse_property, fused_and_unfused_give_the_same_bytes) {
  size_t melted = 0;
  for (const bool int8 : {false, true})
    for (uint32_t seed = 1; seed <= 200; ++seed) {
      Graph unfused = random_chain(seed, int8);
      apply_policy(unfused);
      check(unfused);
      Graph fused = unfused;
      fuse(fused);
      check(fused);
      std::mt19937 rng(seed);
      const std::vector<std::vector<uint8_t>> inputs = random_inputs(unfused, rng);
      const Graph a = run_graph(unfused, inputs), b = run_graph(fused, inputs);
      for (size_t i = 0; i < a.outputs.size(); ++i)
        EXPECT_EQ(*a.values[size_t(a.outputs[i].value)].data, *b.values[size_t(b.outputs[i].value)].data)
            << (int8 ? "int8" : "float32") << " seed " << seed << "\n"
            << dump(unfused) << dump(fused);
      melted += unfused.nodes.size() - fused.nodes.size();
    }
  EXPECT_GT(melted, 100u);  // the chains have something to fuse
}

}  // namespace
}  // namespace nacre::tools
