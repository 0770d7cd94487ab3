#include "tests/differentiate/small_networks.h"

#include <cmath>
#include <random>

#include "tools/graph/batch.h"

namespace nacre::test {
namespace {

using tools::Graph;
using tools::Node;
using tools::ValueId;

class Maker {
 public:
  explicit Maker(int batch) { graph_.batch = batch; }

  ValueId input(std::vector<int64_t> dims) {
    const ValueId x = value("x", std::move(dims));
    graph_.inputs.push_back({"x", x, ""});
    return x;
  }
  // Adds a parameter, uniform in +-sqrt(3 / terms). So a layer's output has about the variance of its input.
  ValueId parameter(const std::string& name, const std::vector<int64_t>& dims, double terms) {
    int64_t elements = 1;
    for (const int64_t d : dims) elements *= d;
    std::vector<float> data(static_cast<size_t>(elements));
    for (float& v : data) v = float(std::sqrt(3 / terms) * next());
    return graph_.constant(name, dims, data);
  }
  ValueId filled(const std::string& name, int64_t n, float v) {
    return graph_.constant(name, {n}, std::vector<float>(size_t(n), v));
  }

  ValueId step(Op op, const std::string& name, std::vector<ValueId> inputs, std::vector<uint32_t> words = {}) {
    Node node;
    node.op = op;
    node.name = name;
    node.layer = graph_.add_layer({.name = name, .source_op = "", .policy = {}});
    node.words = std::move(words);
    node.inputs = std::move(inputs);
    node.outputs = {value(name + ":0", {})};
    infer_shapes(graph_, node);
    graph_.nodes.push_back(node);
    return node.outputs[0];
  }
  ValueId relu(const std::string& name, ValueId x) {
    const ValueId y = step(Op::kClamp, name, {x});
    set_integer(graph_.nodes.back(), "clamp", 1);
    set_real(graph_.nodes.back(), "high", INFINITY);
    return y;
  }
  Node& last() { return graph_.nodes.back(); }
  void infer_last() { infer_shapes(graph_, graph_.nodes.back()); }

  Graph finish(ValueId y) {
    graph_.outputs.push_back({"y", y, ""});
    mark_batched(graph_, true);
    check(graph_);
    return std::move(graph_);
  }

 private:
  ValueId value(const std::string& name, std::vector<int64_t> dims) {
    tools::Value v;
    v.name = name;
    v.dims = std::move(dims);
    return graph_.add(std::move(v));
  }
  // Returns a number in [-1, 1) from the high bits of Knuth's MMIX generator.
  double next() {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return double(seed_ >> 40) / double(1 << 23) - 1;
  }

  Graph graph_;
  uint64_t seed_ = 1;
};

}  // namespace

Graph perceptron(int batch) {
  Maker m(batch);
  const ValueId x = m.input({batch, 6});
  const ValueId h =
      m.relu("relu1", m.step(Op::kDense, "fc1", {x, m.parameter("w1", {5, 6}, 6), m.parameter("b1", {5}, 6)}));
  const ValueId y = m.step(Op::kDense, "fc2", {h, m.parameter("w2", {3, 5}, 5), m.parameter("b2", {3}, 5)});
  const ValueId p = m.step(Op::kSoftmax, "softmax", {y}, {1});
  set_real(m.last(), "beta", 1);
  return m.finish(p);
}

Graph convolutional(int batch) {
  Maker m(batch);
  ValueId x = m.input({batch, 6, 6, 2});
  x = m.step(Op::kConv2d, "conv1", {x, m.parameter("conv1.w", {4, 3, 3, 2}, 18), m.parameter("conv1.b", {4}, 18)});
  x = m.step(Op::kBatchNorm, "bn1",
             {x, m.filled("bn1.scale", 4, 1), m.filled("bn1.bias", 4, 0), m.filled("bn1.mean", 4, 0),
              m.filled("bn1.variance", 4, 1)});
  set_real(m.last(), "epsilon", 1e-3f);
  x = m.relu("relu1", x);
  x = m.step(Op::kMaxPool, "pool1", {x}, {1, 1, 0, 0, 0, 0, 0, 0, 1, 1});
  x = m.step(Op::kConv2d, "conv2", {x, m.parameter("conv2.w", {4, 3, 3, 4}, 36), m.parameter("conv2.b", {4}, 36)},
             {0, 0, 0, 0, 1, 1, 1, 1});
  x = m.relu("relu2", x);
  x = m.step(Op::kMean, "mean", {x}, {6});
  return m.finish(m.step(Op::kDense, "fc", {x, m.parameter("fc.w", {3, 4}, 4), m.parameter("fc.b", {3}, 4)}));
}

Graph residual(int batch) {
  Maker m(batch);
  const auto conv = [&](const std::string& name, ValueId x, int in, int out, int kernel, int stride, int pad) {
    const int terms = kernel * kernel * in;
    std::vector<uint32_t> words(8, uint32_t(pad));
    words[0] = words[1] = uint32_t(stride - 1), words[2] = words[3] = 0;
    return m.step(Op::kConv2d, name,
                  {x, m.parameter(name + ".w", {out, kernel, kernel, in}, terms), m.parameter(name + ".b", {out}, 9)},
                  words);
  };
  const ValueId h = m.relu("relu1", conv("conv1", m.input({batch, 7, 7, 3}), 3, 6, 3, 1, 1));
  const ValueId y = conv("conv3", m.relu("relu2", conv("conv2", h, 6, 10, 3, 2, 1)), 10, 10, 3, 1, 1);
  ValueId x = m.relu("relu3", m.step(Op::kAdd, "add", {y, conv("shortcut", h, 6, 10, 1, 2, 0)}));
  x = m.relu("relu4", conv("conv4", x, 10, 16, 1, 1, 0));
  x = m.step(Op::kMean, "mean", {x}, {6});
  return m.finish(m.step(Op::kDense, "fc", {x, m.parameter("fc.w", {3, 16}, 16), m.parameter("fc.b", {3}, 4)}));
}

LabelledRows three_classes(uint64_t seed, int rows, int width) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  LabelledRows made;
  for (int r = 0; r < rows; ++r) {
    made.labels.push_back(int32_t(random() % 3));
    for (int i = 0; i < width; ++i) made.x.push_back(noise(random) + (i % 3 == made.labels.back() ? 1.5f : -0.5f));
  }
  return made;
}

}  // namespace nacre::test
