#include "tools/differentiate/float8_products.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/unary.h"
#include "tools/model/gpu.h"

namespace nacre::tools {
namespace {

class MultiplyCodes {
 public:
  explicit MultiplyCodes(Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (const Node& node : nodes) {
      if (node.op == Op::kFakeFloat8 && is_coded(node)) quantizers_.emplace(node.outputs[0], node);
      if (const auto found = quantizer_behind(node); found != kNone) sources_[node.outputs[0]] = found;
    }
    for (Node& node : nodes) {
      multiply(node);
      graph_.nodes.push_back(std::move(node));
    }
    turn_early();
    leave_out_unread();
  }

 private:
  enum Operand { kX, kW, kBias };

  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  static bool is_real(ElementType type) { return is_float_type(type) && type != ElementType::kFloat64; }

  // Returns whether the step's output has codes with one scale.
  bool is_coded(const Node& node) const {
    return node.inputs.size() == 3 && node.inputs[1] != kNone && node.inputs[2] != kNone &&
           get_integer(node, "form") != int(FakeFloat8::kEachRounded) && is_real(value(node.inputs[0]).type);
  }
  bool is_gradient(ValueId source) const {
    return get_integer(quantizers_.at(source), "format") == int(FakeFloat8::kE5M2);
  }

  // Returns the output of the fake_float8 step that made the step's output, maybe through casts. kNone if none did.
  ValueId quantizer_behind(const Node& node) const {
    if (node.op == Op::kFakeFloat8 && quantizers_.contains(node.outputs[0])) return node.outputs[0];
    if (node.op != Op::kCast || !is_real(value(node.outputs[0]).type)) return kNone;
    const auto found = sources_.find(node.inputs[0]);
    return found == sources_.end() ? kNone : found->second;
  }
  // Returns what quantizer_behind found for `id`, if its format is E5M2 for `gradient`, else E4M3. Otherwise kNone.
  ValueId source(ValueId id, bool gradient) const {
    const auto found = sources_.find(id);
    return found == sources_.end() || is_gradient(found->second) != gradient ? kNone : found->second;
  }

  void multiply(Node& node) {
    constexpr Op kProducts[] = {Op::kDense,  Op::kDenseGradientX,  Op::kDenseGradientW,
                                Op::kConv2d, Op::kConv2dGradientX, Op::kConv2dGradientW};
    if (std::ranges::find(kProducts, node.op) == std::end(kProducts)) return;
    const bool is_layer = node.op == Op::kDense || node.op == Op::kConv2d;
    const ValueId left = source(node.inputs[0], !is_layer), right = source(node.inputs[1], false);
    if (left == kNone || right == kNone) return;
    if (node.op == Op::kDenseGradientW || node.op == Op::kConv2dGradientW) {
      node.op = node.op == Op::kDenseGradientW ? Op::kDenseFloat8GradientW : Op::kConv2dFloat8GradientW;
      node.inputs = {codes(left), codes(right), step(left), step(right), node.inputs[2]};
      return;
    }
    const ElementType type = value(node.outputs[0]).type;
    const bool fits = !is_layer || (node.inputs.size() <= 3 && is_plain(node));
    if (!is_real(type) || type != value(node.inputs[0]).type || !fits) return;
    const ValueId bias = !is_layer || node.inputs.size() < 3 ? kNone : node.inputs[kBias];
    if (bias != kNone && value(bias).type != type) return;
    if (node.op == Op::kConv2dGradientX) {
      node.inputs = {codes(left), codes(right), step(right), step(left)};
      return;
    }
    if (node.op == Op::kDenseGradientX) node.op = Op::kDense;
    node.inputs = {codes(left), is_layer ? codes(right) : transposed(right), bias, step(right), step(left)};
  }

  // Returns whether nothing but bounds is fused into the product.
  static bool is_plain(const Node& node) {
    constexpr int kDense[] = {Dense::kXZero, Dense::kYZero, Dense::kForm, Dense::kBlock},
                  kConv[] = {Conv2d::kXZero, Conv2d::kYZero, Conv2d::kForm, Conv2d::kBlock};
    const bool dense = node.op == Op::kDense;
    const auto word = [&](int at) { return size_t(at) < node.words.size() ? node.words[size_t(at)] : 0; };
    return word(dense ? int(Dense::kClamp) : int(Conv2d::kClamp)) <= Clamp::kBounds &&
           std::ranges::all_of(dense ? kDense : kConv, [&](int at) { return word(at) == 0; });
  }

  ValueId add(const std::string& name, ElementType type, std::vector<int64_t> dims, bool batched) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    v.batched = batched;
    return graph_.add(std::move(v));
  }

  ValueId codes(ValueId source) {
    if (const auto found = codes_.find(source); found != codes_.end()) return found->second;
    const Value& decoded = value(source);
    const ElementType type = is_gradient(source) ? ElementType::kFloat8E5M2 : ElementType::kFloat8E4M3;
    const ValueId id = add(decoded.name + "_codes", type, decoded.dims, decoded.batched);
    Node node = quantizers_.at(source);
    node.outputs = {id};
    graph_.nodes.push_back(std::move(node));
    return codes_[source] = id;
  }

  ValueId transposed(ValueId source) {
    if (const auto found = transposed_.find(source); found != transposed_.end()) return found->second;
    const ValueId from = codes(source);
    const ValueId id =
        add(value(from).name + "_transposed", value(from).type, {value(from).dims[1], value(from).dims[0]}, false);
    Node node = make_step(Op::kTranspose, quantizers_.at(source), value(id).name, {from}, {id});
    node.words = {1, 0};
    graph_.nodes.push_back(std::move(node));
    return transposed_[source] = id;
  }

  // Moves each transpose right behind the step that makes its codes. Then a device can write both at once
  // (ports/cuda/turned_codes.h).
  void turn_early() {
    const auto maker_of = [&](ValueId id) {
      return std::ranges::find_if(graph_.nodes,
                                  [&](const Node& node) { return !node.outputs.empty() && node.outputs[0] == id; });
    };
    for (const auto& [source, turned] : transposed_) {
      const auto codes = maker_of(codes_.at(source)), transpose = maker_of(turned);
      std::rotate(codes + 1, transpose, transpose + 1);
    }
  }

  ValueId step(ValueId source) {
    const Node& quantizer = quantizers_.at(source);
    const ValueId scale = quantizer.inputs[1];
    if (get_integer(quantizer, "form") != int(ScaleForm::kReciprocal)) return scale;
    if (const auto found = steps_.find(scale); found != steps_.end()) return found->second;
    const ValueId id = add(value(scale).name + "_step", ElementType::kFloat32, {1}, false);
    Node node = make_step(Op::kUnary, Node(), value(id).name, {scale}, {id});
    set_integer(node, "function", int(Unary::kReciprocal));
    graph_.nodes.push_back(std::move(node));
    return steps_[scale] = id;
  }

  // Removes float8 values that nothing reads, and fake_float8_gradient steps, which only differentiate() needed.
  void leave_out_unread() {
    std::map<ValueId, ValueId> copies;
    const auto is_output = [&](ValueId id) {
      return std::ranges::any_of(graph_.outputs, [&](const Binding& b) { return b.value == id; });
    };
    for (Node& node : graph_.nodes) {
      for (ValueId& id : node.inputs)
        if (const auto found = copies.find(id); found != copies.end()) id = found->second;
      if (node.op == Op::kFakeFloat8Gradient && !is_output(node.outputs[0])) copies[node.outputs[0]] = node.inputs[0];
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const bool made =
          !node.outputs.empty() && (sources_.contains(node.outputs[0]) || copies.contains(node.outputs[0]));
      const auto reads = [&](const Node& other) { return std::ranges::count(other.inputs, node.outputs[0]) > 0; };
      if (made && !is_output(node.outputs[0]) && std::ranges::none_of(graph_.nodes, reads))
        graph_.nodes.erase(graph_.nodes.begin() + ptrdiff_t(i));
    }
  }

  Graph& graph_;
  std::map<ValueId, Node> quantizers_;                     // by output
  std::map<ValueId, ValueId> sources_;                     // by such an output or a cast of it: that output
  std::map<ValueId, ValueId> codes_, transposed_, steps_;  // by quantizer; by scale
};

}  // namespace

bool multiplies_float8(std::string_view target) {
  constexpr int kFirst = 89;
  return architecture_of(target) >= kFirst;
}

void multiply_float8_codes(Graph& gradients) { MultiplyCodes(gradients).run(); }

}  // namespace nacre::tools
