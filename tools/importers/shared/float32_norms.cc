// Marks the nodes that compute in float32, by three rules. First, an operator of kWideOperators computes in float32 in
// its source's kernels, so all nodes of its layer do here. Second, an exporter may have written out a normalization
// whose module computes in float32. Such a formula divides by the root of a sum of squares:
//
//   s = mean or sum of x^2, (x - m)^2 or x x      r = sqrt or rsqrt or power +-1/2 of s, + epsilon, max, ..
//   x r, x / r, and factors that scale r before
//
// The second rule does not apply to Keras files, which hold layers and functions instead of formulas. Third, for Keras
// alone, a LayerNormalization of an input of the network computes in float32.
#include "tools/importers/shared/float32_norms.h"

#include <algorithm>
#include <string_view>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"

namespace nacre::tools {
namespace {

struct WideOperator {
  SourceLanguage language;
  std::string_view name;
};

// The Keras operators are those of Keras 3 that compute in result_type(x.dtype, "float32"). UnitNormalization and
// Normalize do not. The ONNX operators have a stash_type, or compute in float32 in onnxruntime's CPU kernels.
constexpr WideOperator kWideOperators[] = {
    {SourceLanguage::kKeras, "GroupNormalization"},
    {SourceLanguage::kKeras, "RMSNormalization"},
    {SourceLanguage::kKeras, "Moments"},
    {SourceLanguage::kKeras, "Norm"},
    {SourceLanguage::kKeras, "Std"},
    {SourceLanguage::kKeras, "Var"},
    {SourceLanguage::kOnnx, "GlobalLpPool"},
    {SourceLanguage::kOnnx, "GroupNormalization"},
    {SourceLanguage::kOnnx, "InstanceNormalization"},
    {SourceLanguage::kOnnx, "LpNormalization"},
    {SourceLanguage::kOnnx, "LpPool"},
    {SourceLanguage::kOnnx, "LRN"},
    {SourceLanguage::kOnnx, "MeanVarianceNormalization"},
    {SourceLanguage::kOnnx, "ReduceL2"},
    {SourceLanguage::kOnnx, "ReduceLogSum"},
    {SourceLanguage::kOnnx, "ReduceSumSquare"},
    {SourceLanguage::kOnnx, "RMSNormalization"},
    {SourceLanguage::kOnnx, "SimplifiedLayerNormalization"},
    {SourceLanguage::kOnnx, "SkipSimplifiedLayerNormalization"},
    {SourceLanguage::kTflite, "L2_NORMALIZATION"},
    {SourceLanguage::kTflite, "L2_POOL_2D"},
};

class Norms {
 public:
  explicit Norms(Graph& graph) : graph_(graph), writer_(graph.values.size(), -1), readers_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].inputs)
        if (id != kNone) readers_[size_t(id)].push_back(i);
      for (const ValueId id : graph.nodes[i].outputs) writer_[size_t(id)] = int(i);
    }
  }

  void find_operators(SourceLanguage language) {
    for (Node& node : graph_.nodes) {
      if (node.layer == kNone) continue;
      const std::string& name = graph_.layers[size_t(node.layer)].source_op;
      const auto is = [&](const WideOperator& wide) { return wide.language == language && wide.name == name; };
      node.wide = node.wide || std::ranges::any_of(kWideOperators, is);
    }
  }

  // Marks LayerNormalizations of a network's input. Keras does not cast the input of this layer, so a float32 input of
  // the network stays float32.
  void find_uncast_inputs() {
    for (Node& node : graph_.nodes)
      if (node.op == Op::kLayerNorm && is_input(origin(node.inputs[0]))) node.wide = true;
  }

  void find_formulas() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (squares(graph_.nodes[i])) follow_square(i);
  }

 private:
  static constexpr int kMostSteps = 6;  // most nodes from the sum to its root, and from the root to the scaled value

  const Node& node(size_t i) const { return graph_.nodes[i]; }
  int64_t elements(ValueId id) const { return graph_.values[size_t(id)].elements(); }
  bool is_input(ValueId id) const { return std::ranges::count(graph_.inputs, id, &Binding::value) > 0; }

  static bool is(const Node& node, Unary::Function function) {
    return node.op == Op::kUnary && get_integer(node, "function") == int(function);
  }
  static bool is(const Node& node, Binary::Function function) {
    return node.op == Op::kBinary && get_integer(node, "function") == int(function);
  }
  static bool moves(const Node& node) { return find_rule(node.op)->numerics == Numerics::kMove; }

  ValueId origin(ValueId id) const {
    for (int left = kMostSteps; left > 0; --left) {
      const int writer = writer_[size_t(id)];
      if (writer < 0 || !moves(node(size_t(writer)))) break;
      id = node(size_t(writer)).inputs[0];
    }
    return id;
  }

  bool is_number(ValueId id, float number) const {
    const Value& v = graph_.values[size_t(id)];
    return v.constant() && v.elements() == 1 && reals(v)[0] == number;
  }

  bool squares(const Node& n) const {
    if (is(n, Unary::kSquare) || is(n, Binary::kSquaredDifference)) return true;
    if (n.op == Op::kMul) return n.inputs[0] == n.inputs[1];
    return is(n, Binary::kPow) && is_number(n.inputs[1], 2);
  }

  static bool sums(const Node& n) {
    return n.op == Op::kMean || (n.op == Op::kReduce && get_integer(n, "function") == int(Reduce::kSum));
  }

  bool takes_root(const Node& n) const {
    if (is(n, Unary::kSqrt) || is(n, Unary::kRsqrt)) return true;
    return is(n, Binary::kPow) && (is_number(n.inputs[1], 0.5f) || is_number(n.inputs[1], -0.5f));
  }

  static bool pointwise(const Node& n) {
    return n.op == Op::kAdd || n.op == Op::kSub || n.op == Op::kMul || n.op == Op::kBinary || n.op == Op::kUnary ||
           n.op == Op::kClamp || n.op == Op::kCast || moves(n);
  }

  void follow_square(size_t square) {
    for (const size_t sum : readers_[size_t(node(square).outputs[0])]) {
      if (!sums(node(sum))) continue;
      std::vector<size_t> chain = {square, sum};
      const int64_t of_x = elements(node(square).outputs[0]);
      if (!follow_sum(chain, kMostSteps)) continue;
      for (const size_t i : chain) graph_.nodes[i].wide = true;
      widen_operands(square, of_x, 2);
      for (const size_t i : chain) widen_operands(i, elements(node(sum).outputs[0]), 2);
      widen_scaled(chain.back(), of_x, kMostSteps);
    }
  }

  // Extends the chain from its last value to a root. Returns false if no root follows within `left` steps.
  bool follow_sum(std::vector<size_t>& chain, int left) const {
    if (left == 0) return false;
    for (const size_t reader : readers_[size_t(node(chain.back()).outputs[0])]) {
      chain.push_back(reader);
      if (takes_root(node(reader)) || (pointwise(node(reader)) && follow_sum(chain, left - 1))) return true;
      chain.pop_back();
    }
    return false;
  }

  // Marks the nodes that made a node's operands: sums, means, squares, casts and differences from means.
  void widen_operands(size_t i, int64_t most, int left) {
    for (const ValueId id : node(i).inputs) {
      const int from = id == kNone ? -1 : writer_[size_t(id)];
      if (from < 0 || left == 0) continue;
      Node& made = graph_.nodes[size_t(from)];
      const bool difference = made.op == Op::kSub || is(made, Binary::kSquaredDifference);
      if (elements(id) > most || !(sums(made) || squares(made) || difference || made.op == Op::kCast)) continue;
      if (difference && !of_mean(made)) continue;
      made.wide = true;
      widen_operands(size_t(from), most, left - 1);
    }
  }

  bool of_mean(const Node& difference) const {
    return std::ranges::any_of(difference.inputs, [&](ValueId id) {
      const int from = id == kNone ? -1 : writer_[size_t(origin(id))];
      return from >= 0 && sums(node(size_t(from)));
    });
  }

  // Marks the pointwise nodes that read the root, directly or through marked nodes smaller than x.
  void widen_scaled(size_t i, int64_t of_x, int left) {
    if (left == 0) return;
    for (const size_t reader : readers_[size_t(node(i).outputs[0])]) {
      Node& scaled = graph_.nodes[reader];
      if (!pointwise(scaled)) continue;
      scaled.wide = true;
      if (elements(scaled.outputs[0]) < of_x || moves(scaled)) widen_scaled(reader, of_x, left - 1);
    }
  }

  Graph& graph_;
  std::vector<int> writer_;
  std::vector<std::vector<size_t>> readers_;
};

}  // namespace

void find_float32_norms(Graph& graph, SourceLanguage language) {
  Norms norms(graph);
  norms.find_operators(language);
  if (language == SourceLanguage::kKeras) norms.find_uncast_inputs();
  else norms.find_formulas();
}

}  // namespace nacre::tools
