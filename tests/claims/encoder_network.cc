#include "tests/claims/encoder_network.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tools/base/split_mix64.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr int kOutlierEvery = 61;  // one of this many channels is large
constexpr float kOutlier = 12;

class Draws {
 public:
  explicit Draws(uint64_t seed) : stream_(seed) {}
  // Returns the sum of four uniform numbers; its variance is 1.
  float next() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += double(stream_.next() >> 40) / 0x1p24 - 0.5;
    return float(sum * std::sqrt(3.0));
  }
  std::vector<float> tensor(int64_t count, double deviation, double mean = 0) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = float(mean + deviation * double(next()));
    return values;
  }

 private:
  SplitMix64 stream_;
};

class Encoder {
 public:
  Encoder(const EncoderShape& shape, uint64_t seed) : s_(shape), draws_(seed) {}

  Graph make() {
    graph_.source = "encoder";
    Value x;
    x.name = "x";
    x.dims = {1, s_.tokens, s_.hidden};
    x.batched = true;
    ValueId at = graph_.add(std::move(x));
    graph_.inputs.push_back({"x", at, ""});
    for (int i = 0; i < s_.layers; ++i) at = layer(at, fmt::format("layer{}.", i));
    graph_.outputs.push_back({"y", at, ""});
    check(graph_);
    return std::move(graph_);
  }

 private:
  ValueId layer(ValueId x, const std::string& name) {
    const ValueId attended = dense(attention(x, name), name + "out", s_.hidden, s_.hidden);
    const ValueId sum = norm(step(Op::kAdd, name + "add1", {x, attended}), name + "norm1");
    const ValueId wide = step(Op::kGelu, name + "gelu", {dense(sum, name + "fc1", s_.hidden, s_.between)});
    return norm(step(Op::kAdd, name + "add2", {sum, dense(wide, name + "fc2", s_.between, s_.hidden)}), name + "norm2");
  }

  ValueId attention(ValueId x, const std::string& name) {
    const ValueId query = heads(dense(x, name + "query", s_.hidden, s_.hidden), name + "query");
    const ValueId key = heads(dense(x, name + "key", s_.hidden, s_.hidden), name + "key");
    const ValueId value = heads(dense(x, name + "value", s_.hidden, s_.hidden), name + "value");
    const ValueId products = step(Op::kBatchedMatmul, name + "products", {query, key},
                                  [](Node& node) { set_integer(node, "transpose_b", 1); });
    const float root = 1 / std::sqrt(float(s_.hidden / s_.heads));
    const ValueId scores =
        step(Op::kMul, name + "scores", {products, graph_.constant(name + "root", {1}, std::vector{root})});
    const ValueId weights = step(Op::kSoftmax, name + "weights", {scores}, [](Node& node) {
      set_integer(node, "axis", 3);
      set_real(node, "beta", 1);
    });
    const ValueId mixed = step(Op::kBatchedMatmul, name + "mixed", {weights, value});
    return reshape(swap_heads(mixed, name + "merged"), name + "joined", {1, s_.tokens, s_.hidden});
  }

  ValueId heads(ValueId x, const std::string& name) {
    return swap_heads(reshape(x, name + ".heads", {1, s_.tokens, s_.heads, s_.hidden / s_.heads}), name + ".split");
  }
  ValueId reshape(ValueId x, const std::string& name, const std::vector<int>& dims) {
    return step(Op::kReshape, name, {x}, [&](Node& node) {
      set_integer(node, "rank", int(dims.size()));
      for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "dims", dims[i], int(i));
    });
  }
  ValueId swap_heads(ValueId x, const std::string& name) {
    return step(Op::kTranspose, name, {x}, [](Node& node) {
      constexpr int kOrder[] = {0, 2, 1, 3};
      for (int i = 0; i < 4; ++i) set_integer(node, "perm", kOrder[i], i);
    });
  }

  ValueId dense(ValueId x, const std::string& name, int in, int out) {
    const ValueId w = graph_.constant(name + ".w", {out, in}, draws_.tensor(int64_t{in} * out, 1 / std::sqrt(in)));
    const ValueId b = graph_.constant(name + ".b", {out}, draws_.tensor(out, 0.02));
    return step(Op::kDense, name, {x, w, b});
  }

  ValueId norm(ValueId x, const std::string& name) {
    std::vector<float> scale = draws_.tensor(s_.hidden, 0.1, 1);
    for (size_t i = 7; i < scale.size(); i += kOutlierEvery) scale[i] *= kOutlier;
    const ValueId gain = graph_.constant(name + ".scale", {s_.hidden}, scale);
    const ValueId shift = graph_.constant(name + ".bias", {s_.hidden}, draws_.tensor(s_.hidden, 0.2));
    return step(Op::kLayerNorm, name, {x, gain, shift}, [](Node& node) { set_real(node, "epsilon", 1e-5f); });
  }

  ValueId step(Op op, const std::string& name, std::vector<ValueId> inputs, auto set) {
    Value y;
    y.name = name;
    y.batched = true;
    const ValueId id = graph_.add(std::move(y));
    Node node = make_step(op, Node(), name, std::move(inputs), {id});
    node.layer = graph_.add_layer({.name = name, .source_op = find_rule(op)->name, .policy = {}});
    set(node);
    infer_shapes(graph_, node);
    graph_.nodes.push_back(std::move(node));
    return id;
  }
  ValueId step(Op op, const std::string& name, std::vector<ValueId> inputs) {
    return step(op, name, std::move(inputs), [](Node&) {});
  }

  const EncoderShape s_;
  Draws draws_;
  Graph graph_;
};

}  // namespace

Graph encoder_network(const EncoderShape& shape, uint64_t seed) { return Encoder(shape, seed).make(); }

std::vector<float> encoder_input(const EncoderShape& shape, uint64_t seed) {
  constexpr int kWords = 40;  // vectors that tokens are made from, the same for every seed
  Draws words(1), draws(seed);
  const std::vector<float> vectors = words.tensor(int64_t{kWords} * shape.hidden, 1);
  const std::vector<float> common = words.tensor(shape.hidden, 0.5);
  SplitMix64 picks(seed + 1000);
  std::vector<float> x;
  for (int token = 0; token < shape.tokens; ++token) {
    const auto word = size_t(picks.below(kWords)) * size_t(shape.hidden);
    for (int c = 0; c < shape.hidden; ++c)
      x.push_back(vectors[word + size_t(c)] + common[size_t(c)] + 0.3f * draws.next());
  }
  return x;
}

}  // namespace nacre::test
