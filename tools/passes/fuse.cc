// fuse: merges clamps, activations, sums, casts and float8 quantizers into the step before them.
//
// A step's fused clamp applies to its final value, so fusing a following clamp changes no bit. This holds in float32
// always, and in int8 if the clamp keeps the codes (no requantization). Before apply_policy, when ops are real-valued,
// a value with a quantizer is not fused away, because it will be rounded. Two clamps in a row become one:
//
//   clamp_{l2,h2}(clamp_{l1,h1}(v)) = clamp_{l,h}(v)     l = clamp_{l2,h2}(l1),  h = clamp_{l2,h2}(h1)
//
// In a 16-bit type T a fused clamp precedes the rounding to T. The result is equal, because rounding is monotone:
// T(clamp(v)) = T(clamp(T(v))) for every v and every bound, whether T can represent the bound or not.
//
// A matmul of floats can take as its epilogue (engine/ops/fused_epilogue.h) a sum, then an activation. The sum adds to
// the matmul's result s a value r that exists before the matmul runs. The fused step rounds s, s + r and the
// activation's result as the separate steps would store them. The bounds of a clamp may replace the activation. A
// clamp behind an activation stays a step.
//
// A cast, a quantize step to float8, an activation and a sum are fused only if the kernels have an entry for the fused
// step. The entry must be in a set that bind tries no later than the set that takes the step alone. Otherwise a port's
// fast kernel would give way to the reference's fused kernel. The entry of a fused cast rounds to the type of its
// operands, which the step alone would have stored, before it converts. If the step gives another type, the cast stays
// a step, because fusing would lose a rounding. A cast behind a fused step, or behind a step on codes, stays for this
// reason. An activation or a sum behind a fused cast stays a step, and so does a cast behind one of them.
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/numeric/small_float.h"
#include "engine/ops/parameters.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"
#include "tools/passes/memory/plan_memory.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

// Returns the index of the first of the words {kind, low, high}, or -1 if the op has no clamp. Some gradients have
// only the first word, with which they refuse the clamp of their step.
int clamp_word(Op op) {
  const std::span<const Attribute> attributes = find_rule(op)->attributes;
  int word = 0;
  for (size_t i = 0; i < attributes.size(); word += attributes[i++].count)
    if (std::string_view(attributes[i].name) == "clamp")
      return i + 2 < attributes.size() && std::string_view(attributes[i + 1].name) == "low" ? word : -1;
  return -1;
}

Clamp clamp_of(const Node& node) {
  return Clamp::from({node.words.data(), int(node.words.size())}, clamp_word(node.op));
}

void set_clamp(Node& node, const Clamp& clamp) {
  const auto first = size_t(clamp_word(node.op));
  if (node.words.size() < first + 3) node.words.resize(first + 3);
  node.words[first] = clamp.kind;
  node.words[first + 1] = clamp.low;
  node.words[first + 2] = clamp.high;
}

// Returns whether a clamp passes every value of `type` unchanged. A function never does.
bool passes_all(const Clamp& clamp, ElementType type) {
  if (clamp.kind != Clamp::kBounds) return clamp.kind == Clamp::kNone;
  if (type == ElementType::kInt8) return int32_t(clamp.low) <= -128 && int32_t(clamp.high) >= 127;
  if (type == ElementType::kInt16) return int32_t(clamp.low) <= INT16_MIN && int32_t(clamp.high) >= INT16_MAX;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return std::bit_cast<float>(clamp.low) == -kInfinity && std::bit_cast<float>(clamp.high) == kInfinity;
}

// Returns the clamp that computes second(first(v)). If one of them is absent, it is the other.
Clamp composed(Clamp first, const Clamp& second, ElementType type) {
  if (first.kind == Clamp::kNone) return second;
  if (second.kind == Clamp::kNone) return first;
  if (holds_codes(type)) {  // int8 codes have int8 bounds
    first.low = uint32_t(int32_t(second.code<int16_t>(int32_t(first.low))));
    first.high = uint32_t(int32_t(second.code<int16_t>(int32_t(first.high))));
  } else {
    first.low = std::bit_cast<uint32_t>(second.real(std::bit_cast<float>(first.low)));
    first.high = std::bit_cast<uint32_t>(second.real(std::bit_cast<float>(first.high)));
  }
  return first;
}

// Returns the elementwise function that a node computes, as the Clamp of a fused step; nullopt for other nodes.
std::optional<Clamp> function_of(const Node& node) {
  switch (node.op) {
    case Op::kLeakyRelu: return Clamp{Clamp::kLeakyRelu, std::bit_cast<uint32_t>(get_real(node, "alpha")), 0};
    case Op::kSigmoid: return Clamp{Clamp::kSigmoid, 0, 0};
    case Op::kTanh: return Clamp{Clamp::kTanh, 0, 0};
    case Op::kHardSwish: return Clamp{Clamp::kHardSwish, 0, 0};
    case Op::kSilu: return Clamp{Clamp::kSilu, 0, 0};
    case Op::kGelu: return Clamp{get_integer(node, "tanh") != 0 ? Clamp::kGeluTanh : Clamp::kGelu, 0, 0};
    default: return std::nullopt;
  }
}

class Fuser {
 public:
  Fuser(Graph& graph, KernelSets kernels)
      : graph_(graph), kernels_(kernels), writer_(graph.values.size(), -1), reads_(graph.values.size(), 0),
        updated_(graph.values.size(), false) {}

  void run(bool quantized_clamps_only) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::vector<ValueId>& inputs = graph_.nodes[i].inputs;
      for (size_t slot = 0; slot < inputs.size(); ++slot) {
        if (inputs[slot] == kNone) continue;
        ++reads_[size_t(inputs[slot])];
        if (is_updated(rule_of(graph_, graph_.nodes[i]), slot)) updated_[size_t(inputs[slot])] = true;
      }
      for (const ValueId id : graph_.nodes[i].outputs) writer_[size_t(id)] = int(i);
    }
    for (const Binding& output : graph_.outputs) reads_[size_t(output.value)] += 2;  // an output must keep existing
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (node.outputs.empty()) continue;  // such a node only updates its inputs
      drop_idle_clamp(node);
      if (is_plain_clamp(node) && (!quantized_clamps_only || is_rounded(node.outputs[0]))) melt(node, i);
      if (node.op == Op::kCast) melt_conversion(node, kNone);
      if (node.op == Op::kQuantize && type(node.outputs[0]) == ElementType::kFloat8E4M3)
        melt_conversion(node, node.inputs[1]);
      if (quantized_clamps_only) continue;
      if (const std::optional<Clamp> function = function_of(node)) melt_function(node, *function);
      if (node.op == Op::kAdd && !melt_sum(node, 0)) melt_sum(node, 1);
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op == Op::kNone; });
  }

 private:
  // Returns whether a node is a kClamp that keeps the codes of its input.
  static bool is_plain_clamp(const Node& node) {
    if (node.op != Op::kClamp || (node.inputs.size() > 1 && node.inputs[1] != kNone)) return false;
    return get_integer(node, "x_zero") == get_integer(node, "y_zero");
  }

  ElementType type(ValueId id) const { return graph_.values[size_t(id)].type; }

  // Returns whether the value is real and apply_policy will store it as codes.
  bool is_rounded(ValueId id) const { return graph_.values[size_t(id)].quantizer && type(id) == ElementType::kFloat32; }

  void drop_idle_clamp(Node& node) {
    if (clamp_word(node.op) < 0 || !passes_all(clamp_of(node), type(node.outputs[0]))) return;
    set_clamp(node, {Clamp::kNone, 0, 0});
    while (!node.words.empty() && node.words.back() == 0) node.words.pop_back();
  }

  // A matmul with a fused cast rounds to its operands' type after the clamp. So the bounds must be values of that
  // type.
  bool bounds_survive(const Node& source, const Clamp& bounds) const {
    const ElementType inner = type(source.inputs[0]);
    if (!is_matmul(source.op) || bounds.kind == Clamp::kNone || inner == type(source.outputs[0])) return true;
    const float low = std::bit_cast<float>(bounds.low), high = std::bit_cast<float>(bounds.high);
    if (inner == ElementType::kFloat16) return float(Float16(low)) == low && float(Float16(high)) == high;
    if (inner == ElementType::kBfloat16) return float(Bfloat16(low)) == low && float(Bfloat16(high)) == high;
    return true;
  }

  // Fuses the clamp into the step that writes its input. That step then writes the clamp's output.
  void melt(Node& clamp, size_t index) {
    const ValueId x = clamp.inputs[0], y = clamp.outputs[0];
    const Clamp bounds = clamp_of(clamp);
    const int writer = writer_[size_t(x)];
    if (writer < 0 || reads_[size_t(x)] != 1 || type(x) != type(y) || is_rounded(x)) {
      if (bounds.kind == Clamp::kNone) bypass(clamp, index);
      return;
    }
    Node& source = graph_.nodes[size_t(writer)];
    if (source.outputs.size() != 1 || (bounds.kind != Clamp::kNone && clamp_word(source.op) < 0)) return;
    if (bounds.kind != Clamp::kNone && clamp_of(source).kind > Clamp::kBounds) return;
    if (!bounds_survive(source, bounds)) return;
    graph_.log.push_back("fuse: " + clamp.name + " into " + source.name);
    if (bounds.kind != Clamp::kNone) set_clamp(source, composed(clamp_of(source), bounds, type(y)));
    source.outputs[0] = y;
    writer_[size_t(y)] = writer;
    clamp = {};
  }

  // Fuses a conversion into the matmul that makes its input x, if the kernels can. `scale` is the operand that the
  // conversion adds, or kNone.
  void melt_conversion(Node& step, ValueId scale) {
    const ValueId x = step.inputs[0];
    const int writer = writer_[size_t(x)];
    if (writer < 0 || reads_[size_t(x)] != 1) return;
    Node& source = graph_.nodes[size_t(writer)];
    if (!is_matmul(source.op) || (scale != kNone && get_integer(step, "form") != 0)) return;
    if (scale == kNone && type(source.inputs[0]) != type(x)) return;
    Node fused = source;
    if (scale != kNone) fused.inputs.push_back(scale);
    replace(source, std::move(fused), step);
  }

  // Returns the matmul that writes `x`, if only `step` reads `x` and the matmul's epilogue is free behind its sum: it
  // has no clamp, no function, and its operands' type. Returns null if there is none.
  Node* open_matmul(const Node& step, ValueId x) {
    const Value &from = graph_.values[size_t(x)], &to = graph_.values[size_t(step.outputs[0])];
    const int writer = writer_[size_t(x)];
    if (writer < 0 || reads_[size_t(x)] != 1 || from.type != to.type || from.quantizer || to.quantizer) return nullptr;
    if (from.alias_of != kNone || to.alias_of != kNone) return nullptr;  // x or the output is a part of another value
    Node& source = graph_.nodes[size_t(writer)];
    const bool open = is_matmul(source.op) && clamp_of(source).kind == Clamp::kNone && source.guard == step.guard &&
                      type(source.inputs[kX]) == from.type;
    return open ? &source : nullptr;
  }

  void melt_function(Node& step, const Clamp& function) {
    Node* const source = open_matmul(step, step.inputs[0]);
    if (source == nullptr) return;
    Node fused = *source;
    set_clamp(fused, function);
    replace(*source, std::move(fused), step);
  }

  // Fuses a sum into the matmul that writes input `slot` of the sum. The other input becomes the residual. The sum's
  // clamp becomes the fused step's.
  bool melt_sum(Node& sum, size_t slot) {
    const ValueId x = sum.inputs[slot], residual = sum.inputs[1 - slot];
    if (sum.inputs.size() > 2 && sum.inputs[2] != kNone) return false;  // a sum of codes
    Node* const source = open_matmul(sum, x);
    if (source == nullptr || (source->inputs.size() > kScale && source->inputs[kScale] != kNone)) return false;
    const Value &r = graph_.values[size_t(residual)], &y = graph_.values[size_t(sum.outputs[0])];
    if (r.type != y.type || r.quantizer || r.dims != y.dims || r.batched != y.batched) return false;
    if (!is_there_before(residual, writer_[size_t(x)])) return false;
    Node fused = *source;
    fused.inputs.resize(kScale, kNone);
    fused.inputs.push_back(residual);
    if (const Clamp bounds = clamp_of(sum); bounds.kind != Clamp::kNone) set_clamp(fused, bounds);
    return replace(*source, std::move(fused), sum);
  }

  // Returns whether node `index` may read the value: a constant, an input of the graph, or written whole by an earlier
  // node. A value that is updated, or that outlives a run, may change between two nodes.
  bool is_there_before(ValueId id, int index) const {
    const Value& v = graph_.values[size_t(id)];
    if (v.constant()) return true;
    if (v.persists() || v.alias_of != kNone || updated_[size_t(id)]) return false;
    if (writer_[size_t(id)] >= 0) return writer_[size_t(id)] < index;
    for (const Binding& input : graph_.inputs)
      if (input.value == id) return true;
    return false;
  }

  // Replaces `source` and `step` by `fused`, which does both and writes the output of `step`. Returns false and
  // changes nothing if the kernels have no such step, or have it in a later set than `source`.
  bool replace(Node& source, Node fused, Node& step) {
    const ValueId y = step.outputs[0];
    const int writer = writer_[size_t(source.outputs[0])];
    fused.outputs[0] = y;
    const size_t set = set_for(graph_, fused, kernels_);
    if (set == kernels_.size() || set > set_for(graph_, source, kernels_)) return false;
    graph_.log.push_back("fuse: " + step.name + " into " + source.name);
    writer_[size_t(y)] = writer;
    source = std::move(fused);
    step = {};
    return true;
  }

  // Removes a clamp that does nothing: its readers read its input instead. The clamp stays if it writes an output of
  // the graph, or if its input or output will be stored as codes.
  void bypass(Node& clamp, size_t index) {
    const ValueId x = clamp.inputs[0], y = clamp.outputs[0];
    if (type(x) != type(y) || is_rounded(x) || is_rounded(y)) return;
    for (const Binding& output : graph_.outputs)
      if (output.value == y) return;
    for (size_t i = index + 1; i < graph_.nodes.size(); ++i)
      for (ValueId& id : graph_.nodes[i].inputs)
        if (id == y) id = x, ++reads_[size_t(x)];
    --reads_[size_t(x)];
    graph_.log.push_back("fuse: " + clamp.name + " does nothing");
    clamp = {};
  }

  Graph& graph_;
  KernelSets kernels_;
  std::vector<int> writer_;  // node index; -1 for an input or a constant
  std::vector<int> reads_;
  std::vector<bool> updated_;
};

}  // namespace

void fuse(Graph& graph, const Target& target) {
  Fuser(graph, kernels_of(target)).run(false);
  remove_dead_values(graph, {});
}

void fuse_quantized_clamps(Graph& graph) {
  Fuser(graph, reference_sets()).run(true);
  remove_dead_values(graph, {});
}

}  // namespace nacre::tools
