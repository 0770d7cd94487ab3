// Tests that simplify() keeps the function of a network: runs random networks with an NCHW file's layout before and
// after.
//
// The comparison is exact: inputs, weights and constants are small integers, batch norms have dyadic factors, means
// divide by powers of two, and inexact functions come last. Then every sum is exact in float32 in any order. A
// network with a value that is not a multiple of 2^-6, or over 256, is skipped: 512 terms of 256 need 17 bits, and 17
// + 6 < 24.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/run_graph.h"
#include "tests/sanitized.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

const std::vector<int> kToNhwc = {0, 2, 3, 1}, kToNchw = {0, 3, 1, 2};

class Generator {
 public:
  explicit Generator(uint32_t seed) : rng_(seed) {}

  Graph run() {
    const int inputs = 1 + pick(2);
    for (int i = 0; i < inputs; ++i) input();
    for (int steps = 2 + pick(10); steps > 0; --steps) step();
    const int outputs = 1 + pick(2);
    for (int i = 0; i < outputs; ++i) output();
    return std::move(g_);
  }

 private:
  int pick(int n) { return int(rng_() % uint32_t(n)); }
  const std::vector<int64_t>& dims(ValueId id) const { return g_.values[size_t(id)].dims; }
  ValueId any() { return maps_[size_t(pick(int(maps_.size())))]; }

  void input() {
    const int64_t sizes[] = {1, 2, 4, 8};
    Value v;
    v.name = "x";
    v.dims = {1, sizes[pick(3)], sizes[1 + pick(3)], sizes[1 + pick(3)]};
    const ValueId id = g_.add(std::move(v));
    g_.inputs.push_back({g_.values[size_t(id)].name, id, "NCHW"});
    maps_.push_back(id);
  }

  ValueId integers(std::vector<int64_t> shape, int low, int high) {
    int64_t elements = 1;
    for (const int64_t d : shape) elements *= d;
    std::vector<float> data(static_cast<size_t>(elements));
    for (float& f : data) f = float(low + pick(high - low + 1));
    return g_.constant("c", std::move(shape), data);
  }

  ValueId node(Op op, std::vector<ValueId> inputs, void (*attributes)(Node&) = nullptr) {
    Node n;
    n.op = op;
    n.inputs = std::move(inputs);
    if (attributes != nullptr) attributes(n);
    return finish(std::move(n));
  }

  ValueId finish(Node n) {
    Value y;
    y.name = find_rule(n.op)->name;
    n.name = y.name + std::to_string(g_.nodes.size());
    n.outputs = {g_.add(std::move(y))};
    infer_shapes(g_, n);
    g_.nodes.push_back(n);
    return n.outputs[0];
  }

  ValueId transpose(ValueId x, const std::vector<int>& perm) {
    Node n;
    n.op = Op::kTranspose;
    n.inputs = {x};
    for (size_t i = 0; i < perm.size(); ++i) set_integer(n, "perm", perm[i], int(i));
    return finish(std::move(n));
  }

  std::vector<int> any_order() {
    const std::vector<int> orders[] = {{0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}};
    return orders[pick(5)];
  }

  ValueId reshape(ValueId x, const std::vector<int64_t>& shape) {
    Node n;
    n.op = Op::kReshape;
    n.inputs = {x};
    set_integer(n, "rank", int(shape.size()));
    for (size_t i = 0; i < shape.size(); ++i) set_integer(n, "dims", int(shape[i]), int(i));
    return finish(std::move(n));
  }

  void step() {
    const ValueId x = any();
    ValueId y = kNone;
    switch (pick(15)) {
      case 0: y = conv(x); break;
      case 1: y = depthwise(x); break;
      case 2: y = pool(x); break;
      case 3: y = batch_norm(x); break;
      case 4: y = node(Op::kClamp, {x}, [](Node& n) { set_integer(n, "clamp", 1), set_real(n, "high", 64); }); break;
      case 5: y = node(Op::kLeakyRelu, {x}, [](Node& n) { set_real(n, "alpha", 0.5f); }); break;
      case 6: y = binary(x); break;
      case 7: y = binary_with_constant(x); break;
      case 8: y = gate(x); break;
      case 9: y = concat(x); break;
      case 10: y = pad(x); break;
      case 11: y = slice(x); break;
      case 12: y = transpose(transpose(x, kToNhwc), kToNchw); break;
      case 13: y = transpose(x, any_order()); break;
      default: y = node(Op::kClamp, {conv(x)}, [](Node& n) { set_integer(n, "clamp", 1), set_real(n, "high", 6); });
    }
    if (g_.values[size_t(y)].elements() <= 2048) maps_.push_back(y);
  }

  ValueId conv(ValueId x) {
    const int64_t channels = dims(x)[1], out = 1 << pick(3);
    const ValueId in = transpose(x, kToNhwc), w = integers({out, 1, 1, channels}, -1, 1);
    const ValueId bias = pick(2) == 0 ? kNone : integers({out}, -2, 2);
    return transpose(node(Op::kConv2d, {in, w, bias}), kToNchw);
  }

  ValueId depthwise(ValueId x) {
    const ValueId in = transpose(x, kToNhwc), w = integers({1, 2, dims(x)[1]}, -1, 1);
    return transpose(node(Op::kDepthwiseConv2d, {in, w}, [](Node& n) { set_integer(n, "pad_left", 1); }), kToNchw);
  }

  ValueId pool(ValueId x) {
    const ValueId in = transpose(x, kToNhwc);
    const auto attributes = [](Node& n) { set_integer(n, "kernel_w", 2), set_integer(n, "pad_right", 1); };
    return transpose(node(Op::kMaxPool, {in}, attributes), kToNchw);
  }

  ValueId batch_norm(ValueId x) {
    const int64_t c = dims(x)[1];
    const ValueId in = transpose(x, kToNhwc);
    std::vector<float> variance(static_cast<size_t>(c));
    for (float& v : variance) v = pick(2) == 0 ? 0.5f : 3.5f;  // with epsilon 0.5: factors of 1 and 1/2
    const ValueId scale = integers({c}, -1, 2), shift = integers({c}, -2, 2), mean = integers({c}, -2, 2);
    const ValueId y = node(Op::kBatchNorm, {in, scale, shift, mean, g_.constant("v", {c}, variance)},
                           [](Node& n) { set_real(n, "epsilon", 0.5f); });
    return transpose(y, kToNchw);
  }

  ValueId binary(ValueId x) {
    std::vector<ValueId> partners;
    for (const ValueId id : maps_)
      if (dims(id) == dims(x)) partners.push_back(id);
    return node(pick(2) == 0 ? Op::kAdd : Op::kSub, {x, partners[size_t(pick(int(partners.size())))]});
  }

  ValueId binary_with_constant(ValueId x) {
    const int64_t c = dims(x)[1];
    std::vector<int64_t> shapes[] = {{}, {1}, {c, 1, 1}, {1, c, 1, 1}, {1, c, dims(x)[2], 1}, {dims(x)[3]}};
    const ValueId k = integers(shapes[pick(6)], -2, 2);
    const Op op = pick(3) == 0 ? Op::kAdd : pick(2) == 0 ? Op::kSub : Op::kMul;
    return pick(3) == 0 ? node(op, {k, x}) : node(op, {x, k});
  }

  // Adds squeeze-and-excitation: the mean over space, a convolution, and a product that broadcasts.
  ValueId gate(ValueId x) {
    const auto power_of_two = [](int64_t n) { return (n & (n - 1)) == 0; };
    if (!power_of_two(dims(x)[2] * dims(x)[3])) return conv(x);
    const int64_t c = dims(x)[1];
    const ValueId m = node(Op::kMean, {x}, [](Node& n) { set_integer(n, "axes", 12), set_integer(n, "keep_dims", 1); });
    const ValueId in = transpose(m, kToNhwc), w = integers({c, 1, 1, c}, -1, 1);
    return node(Op::kMul, {x, transpose(node(Op::kConv2d, {in, w}), kToNchw)});
  }

  ValueId concat(ValueId x) {
    const ValueId other = conv(x);
    return node(Op::kConcat, pick(2) == 0 ? std::vector<ValueId>{x, other} : std::vector<ValueId>{other, x, x},
                [](Node& n) { set_integer(n, "axis", 1); });
  }

  ValueId pad(ValueId x) {
    Node n;
    n.op = Op::kPad;
    n.inputs = {x};
    for (int axis = 1; axis < 4; ++axis)
      for (const char* side : {"before", "after"}) set_integer(n, side, pick(2), axis);
    set_integer(n, "mode", pick(2) * 2);
    if (get_integer(n, "mode") == 0) set_real(n, "value", float(pick(3)));
    return finish(std::move(n));
  }

  ValueId slice(ValueId x) {
    Node n;
    n.op = Op::kSlice;
    n.inputs = {x};
    for (int axis = 0; axis < 4; ++axis) {
      const auto dim = int(dims(x)[size_t(axis)]);
      const bool back = pick(4) == 0;
      const int size = 1 + pick(dim), begin = back ? size - 1 + pick(dim - size + 1) : pick(dim - size + 1);
      set_integer(n, "begin", begin, axis);
      set_integer(n, "size", size, axis);
      set_integer(n, "step", back ? -1 : 1, axis);
    }
    return finish(std::move(n));
  }

  // Adds a step that may end the network. Only this step may be an inexact function.
  void output() {
    ValueId y = any();
    const int64_t rest = g_.values[size_t(y)].elements();
    const int64_t space = dims(y)[2] * dims(y)[3];
    switch (pick(8)) {
      case 0:
      case 1: y = node(Op::kDense, {reshape(y, {1, rest}), integers({3, rest}, -1, 1)}); break;
      case 2:
        if ((space & (space - 1)) == 0) y = node(Op::kMean, {y}, [](Node& n) { set_integer(n, "axes", 12); });
        y = node(Op::kAdd, {y, integers({1}, -1, 1)});
        break;
      case 3: y = node(Op::kSoftmax, {y}, [](Node& n) { set_integer(n, "axis", 1), set_real(n, "beta", 1); }); break;
      case 4: y = node(Op::kSigmoid, {y}); break;
      case 5: y = transpose(node(Op::kTanh, {y}), any_order()); break;
      case 6:
        if ((dims(y)[2] & (dims(y)[2] - 1)) == 0) y = node(Op::kMean, {y}, [](Node& n) { set_integer(n, "axes", 4); });
        break;
      default: y = node(Op::kAdd, {y, y});
    }
    g_.outputs.push_back({g_.values[size_t(y)].name, y, ""});
  }

  Graph g_;
  std::mt19937 rng_;
  std::vector<ValueId> maps_;  // rank 4, NCHW
};

bool exact(const Graph& run, const Graph& graph) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const bool final = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      const bool inexact = n.op == Op::kSoftmax || n.op == Op::kSigmoid || n.op == Op::kTanh;
      return inexact && n.outputs[0] == ValueId(i);
    });
    if (final) continue;
    bool derived = false;  // made from an inexact function: may only be moved
    for (const Node& n : graph.nodes)
      if (n.outputs[0] == ValueId(i) && n.op == Op::kTranspose)
        for (const Node& m : graph.nodes) derived = derived || (m.outputs[0] == n.inputs[0] && m.op == Op::kTanh);
    if (derived) continue;
    for (const float v : reals(run.values[i]))
      if (!(std::fabs(v) <= 256) || v * 64 != std::floor(v * 64)) return false;
  }
  return true;
}

uint64_t moved_bytes(const Graph& g) {
  uint64_t bytes = 0;
  for (const Node& n : g.nodes)
    if (n.op == Op::kTranspose) bytes += uint64_t(g.values[size_t(n.outputs[0])].elements()) * 4;
  return bytes;
}

TEST(simplify, random_networks_compute_the_same) {
  const int networks = nacre::test::generated(3000);
  int counted = 0, fewer = 0;
  size_t nodes_before = 0, nodes_after = 0;
  for (uint32_t seed = 0; seed < uint32_t(networks); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph before = Generator(seed).run();
    ASSERT_NO_THROW(check(before));
    Graph g = before;
    simplify(g);
    ASSERT_NO_THROW(check(g)) << dump(before) << dump(g);
    Graph again = g;
    again.log.clear();
    simplify(again);
    EXPECT_EQ(again.log, std::vector<std::string>()) << "a second time finds something: " << dump(g);
    EXPECT_LE(moved_bytes(g), moved_bytes(before));
    nodes_before += before.nodes.size(), nodes_after += g.nodes.size();
    fewer += moved_bytes(g) < moved_bytes(before);

    std::mt19937 rng(seed);
    std::vector<std::vector<uint8_t>> inputs;
    for (const Binding& b : before.inputs) {
      std::vector<float> x(static_cast<size_t>(before.values[size_t(b.value)].elements()));
      for (float& f : x) f = float(int(rng() % 9) - 4);
      inputs.push_back(bytes_of(x));
    }
    const Graph expected = run_graph(before, inputs);
    if (!exact(expected, before)) continue;
    ++counted;
    const Graph got = run_graph(g, inputs);
    ASSERT_EQ(got.outputs.size(), expected.outputs.size());
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      const Value& a = expected.values[size_t(expected.outputs[i].value)];
      const Value& b = got.values[size_t(got.outputs[i].value)];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.dims, b.dims);
      ASSERT_EQ(reals(a), reals(b)) << dump(before) << dump(g);
    }
  }
  EXPECT_GT(counted, networks / 2);
  RecordProperty("counted", counted);
  RecordProperty("fewer", fewer);
  std::printf("%d networks compared exactly, %d of %d move fewer bytes, nodes %zu -> %zu\n", counted, fewer, networks,
              nodes_before, nodes_after);
}

}  // namespace
}  // namespace nacre::tools
