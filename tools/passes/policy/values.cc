// apply_policy: gives values their stored types, and adds the steps that convert between types.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "engine/kernels/reference.h"
#include "engine/ops/parameters.h"
#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/graph/code_ends.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

std::shared_ptr<const std::vector<uint8_t>> flip_sign_bits(const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> flipped(codes);
  for (uint8_t& code : flipped) code ^= 0x80;
  return std::make_shared<const std::vector<uint8_t>>(std::move(flipped));
}

// A uint8 code c is the int8 code c - 128 with zero point zero - 128.
Quantizer shifted_to_int8(Quantizer quantizer) {
  quantizer.codes = ElementType::kInt8;
  for (int64_t& zero : quantizer.zero) zero -= 128;
  if (quantizer.zero.empty()) quantizer.zero.assign(quantizer.scale.size(), -128);
  return quantizer;
}

// Returns whether padding with a code pads exactly with the real value.
bool pads_with_a_code(const Node& node, Codes x) {
  const float value = get_real(node, "value");
  return get_integer(node, "mode") != 0 || value == x.scale * float(bound_code(value, x) - x.zero);
}

bool contains(const std::vector<Binding>& bindings, ValueId id) {
  return std::any_of(bindings.begin(), bindings.end(), [&](const Binding& b) { return b.value == id; });
}

// Returns the largest real of the codes of the node's output y, if y could have any sign without its codes, these stand
// for no negative number, and the node has no clamp. Otherwise returns nullopt.
std::optional<float> saturates_at(const Graph& graph, const Node& node) {
  if (!facts_of(node.op).any_sign) return std::nullopt;
  const std::optional<Quantizer>& q = graph.values[size_t(node.outputs[0])].quantizer;
  const bool clamped = has_clamp(node.op) && get_integer(node, "clamp") != 0;
  if (clamped || !q || q->scale.size() != 1) return std::nullopt;
  const int64_t zero = q->zero.empty() ? 0 : q->zero[0];
  const bool at_lowest = q->codes == ElementType::kInt8 ? zero == -128 : q->codes == ElementType::kUint8 && zero == 0;
  return at_lowest ? std::optional(q->scale[0] * 255) : std::nullopt;
}

}  // namespace

bool PolicyPass::coded(ValueId id) const {
  const Value& v = value(id);
  if (!v.quantizer || v.quantizer->scale.size() != 1) return false;
  const ElementType codes = v.quantizer->codes;
  if (v.constant()) return holds_codes(codes) && v.stored == codes;
  return holds_codes(codes) || codes == ElementType::kInt32;
}

Codes PolicyPass::codes(ValueId id) const {
  const Quantizer& q = *value(id).quantizer;
  return {q.scale[0], q.zero.empty() ? 0 : int32_t(q.zero[0]), q.codes};
}

// If a layer of a quantized file is asked for another policy, its outputs become real. Only codes at the graph's
// outputs stay.
void PolicyPass::drop_quantizers() {
  const auto drops = [&](const Node& node) {
    return asked(node) && policy(node).quantization != Quantization::kInt8Static &&
           !contains(graph_.outputs, node.outputs[0]);
  };
  keep_saturation(graph_, drops);
  for (const Node& node : graph_.nodes)
    for (const ValueId id : node.outputs)
      if (asked(node) && policy(node).quantization != Quantization::kInt8Static && !contains(graph_.outputs, id))
        value(id).quantizer.reset();
}

void PolicyPass::prepare_values() {
  drop_quantizers();
  for (Value& v : graph_.values) {
    if (!v.quantizer || v.region == Region::kStream) continue;  // loops.cc handles streams
    if (v.constant()) prepare_constant(v);
    else if (!collect([&] { prepare_activation(v); })) v.quantizer.reset();
  }
}

void PolicyPass::prepare_constant(Value& v) {
  if (v.stored != ElementType::kUint8 || v.quantizer->codes != ElementType::kUint8) return;
  v.data = flip_sign_bits(*v.data);
  v.stored = ElementType::kInt8;
  v.quantizer = shifted_to_int8(*v.quantizer);
}

void PolicyPass::prepare_activation(Value& v) {
  const Quantizer& q = *v.quantizer;
  if (!holds_codes(q.codes) && q.codes != ElementType::kUint8 && q.codes != ElementType::kInt32)
    throw Error(kUnsupported, graph_.source, v.name + ": activations quantized to " + name_of(q.codes),
                "quantize activations to int8, uint8 or int16");
  if (q.scale.size() != 1)
    throw Error(kUnsupported, graph_.source,
                v.name + ": an activation with " + std::to_string(q.scale.size()) + " scales",
                "quantize activations with one scale per tensor");
  v.type = q.codes;
}

// Returns whether `node` only changes how numbers are stored, by constant scales.
bool PolicyPass::only_converts(const Node& node) const {
  return (node.op == Op::kCast || node.op == Op::kQuantize || node.op == Op::kDequantize) &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) { return value(id).constant(); });
}

// Replaces an input by the value that its only reader makes of it, if that step only converts. Float8 codes stay
// inside, because callers have no such data.
bool PolicyPass::open_input(Binding& input) {
  Node* reader = nullptr;
  int readers = 0;
  for (Node& node : graph_.nodes)
    for (const ValueId id : node.inputs)
      if (id == input.value) reader = &node, ++readers;
  if (readers != 1 || !only_converts(*reader) || contains(graph_.outputs, input.value)) return false;
  if (value(reader->outputs[0]).type == ElementType::kFloat8E4M3) return false;
  value(input.value).type = ElementType::kFloat32;
  input.value = reader->outputs[0];
  *reader = {};
  return true;
}

// Replaces an output by the operand of the step that writes it, if that step only converts and no node reads the
// output.
bool PolicyPass::open_output(Binding& output) {
  for (const Node& node : graph_.nodes)
    if (std::ranges::count(node.inputs, output.value) > 0) return false;
  for (Node& node : graph_.nodes) {
    if (std::ranges::count(node.outputs, output.value) == 0) continue;
    const ValueId x = node.inputs[0];
    if (!only_converts(node) || contains(graph_.inputs, x) || value(x).constant()) return false;
    output.value = x;
    node = {};
    return true;
  }
  return false;
}

// Gives inputs and outputs the types of the steps beside them. Several conversions may follow each other, such as
// codes of the source to float32, and that to float16.
void PolicyPass::open_io_types() {
  for (Binding& input : graph_.inputs)
    while (open_input(input)) {
    }
  for (Binding& output : graph_.outputs)
    while (open_output(output)) {
    }
  std::erase_if(graph_.nodes, [](const Node& node) { return node.op == Op::kNone; });
}

// Keeps uint8 codes at inputs and outputs, with a requantize step to or from int8 codes. Inside they become int8.
void PolicyPass::add_uint8_borders() {
  std::map<ValueId, ValueId> inside;
  const size_t count = graph_.values.size();
  for (size_t i = 0; i < count; ++i) {
    const auto id = ValueId(i);
    if (value(id).constant() || !value(id).quantizer || value(id).type != ElementType::kUint8) continue;
    const Quantizer quantizer = shifted_to_int8(*value(id).quantizer);
    const bool input = contains(graph_.inputs, id), output = contains(graph_.outputs, id);
    const bool of_tflite = graph_.quantize_rounding == Rounding::kHalfAway;
    if (of_tflite) uint8_.insert(id);
    if (!input && !output) {
      value(id).type = ElementType::kInt8;
      value(id).quantizer = quantizer;
      continue;
    }
    const ValueId codes = like(id, "/int8", ElementType::kInt8);
    value(codes).quantizer = quantizer;
    inside.emplace(id, codes);
    if (of_tflite) uint8_.insert(codes);
    if (input) requantize(Node(), id, codes);
    else output_borders_.emplace_back(codes, id);
  }
  const auto replace = [&](ValueId& id) {
    if (const auto found = inside.find(id); found != inside.end()) id = found->second;
  };
  for (Node& node : graph_.nodes) {
    for (ValueId& id : node.inputs) replace(id);
    for (ValueId& id : node.outputs) replace(id);
  }
}

// A step that moves bytes moves codes: its output without a quantizer gets the quantizer of its source. The result is
// bitwise that of moving real values, because dequantize is elementwise.
void PolicyPass::let_quantizers_travel() {
  for (const Node& node : graph_.nodes) {
    const OpRule* rule = find_rule(node.op);
    if (rule == nullptr || rule->numerics != Numerics::kMove || node.op == Op::kCopy ||
        facts_of(node.op).forms == IntegerOutput::kMissing)
      continue;
    Value& y = value(node.outputs[0]);
    if (y.quantizer || y.type != ElementType::kFloat32 || contains(graph_.outputs, node.outputs[0])) continue;
    const ValueId x = node.inputs[0];
    if (!coded(x) || !holds_codes(codes(x).type)) continue;
    if (node.op == Op::kPad && !pads_with_a_code(node, codes(x))) continue;
    const auto same = [&](ValueId id) { return coded(id) && codes(id) == codes(x); };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), same)) continue;
    y.quantizer = value(x).quantizer;
    y.type = value(x).type;
  }
}

ValueId PolicyPass::like(ValueId id, const std::string& suffix, ElementType type) {
  Value copy;
  copy.name = value(id).name + suffix;
  copy.type = type;
  copy.dims = value(id).dims;
  copy.batched = value(id).batched;
  return graph_.add(std::move(copy));
}

ValueId PolicyPass::as_codes(ValueId id) {
  if (value(id).constant()) value(id).type = value(id).stored;
  return id;
}

// Returns {x, scale, zero}, the operands of a quantize or dequantize step.
std::vector<ValueId> PolicyPass::with_scale(ValueId x, Codes codes, const std::string& name) {
  const ValueId scale = graph_.constant(name + "/scale", {1}, std::vector<float>{codes.scale});
  const ValueId zero = graph_.constant(name + "/zero", {1}, std::vector<int32_t>{codes.zero});
  return {x, scale, zero};
}

void PolicyPass::quantize(const Node& near, ValueId x, ValueId y) {
  const std::string name = value(y).name + "/quantize";
  Node step = make_step(Op::kQuantize, near, name, with_scale(as_real(near, x), codes(y), name), {y});
  step.rounding = graph_.quantize_rounding;
  emit(std::move(step));
}

void PolicyPass::dequantize(const Node& near, ValueId x, ValueId y) {
  const std::string name = value(y).name + "/dequantize";
  emit(make_step(Op::kDequantize, near, name, with_scale(x, codes(x), name), {y}));
  reals_.emplace(x, y);
}

// TFLite's QUANTIZE on codes: M = s_x / s_y in float64 (tflite-micro quantize_common.cc). uint8 codes keep their zero
// point.
void PolicyPass::requantize(const Node& near, ValueId x, ValueId y) {
  const Codes from = codes(x), to = codes(y);
  Node step = make_step(Op::kRequantize, near, value(y).name + "/requantize", {x}, {y});
  step.inputs.push_back(requant(step, {double(from.scale) / double(to.scale)}));
  set_integer(step, "x_zero", from.zero);
  set_integer(step, "y_zero", to.zero);
  emit(std::move(step));
}

ValueId PolicyPass::with_codes(const Node& reader, ValueId x, const Quantizer& quantizer) {
  const ValueId y = like(x, "/requantized", quantizer.codes);
  value(y).quantizer = quantizer;
  requantize(reader, x, y);
  return y;
}

// Returns the rounding that the policy names, or else the conversion's. If the reference kernels have no int8 form of
// the op with that rounding, it is TFLite's. Wider codes have TFLite's too, except in dense layers that round once.
Rounding PolicyPass::rounding(const Node& node) {
  const bool own = asked(node) && policy(node).rounding != uint8_t(Rounding::kNone);
  const bool once = node.op == Op::kDense && !of_uint8(node.inputs[0]);
  const Rounding litert = once ? Rounding::kSingle : Rounding::kDouble;
  const Rounding asked_for = as_litert() ? litert : options_.rounding;
  const Rounding wanted = own ? Rounding(policy(node).rounding) : asked_for;
  const auto rounds = [&](const KernelEntry* entry) { return entry->op == node.op && entry->rounding == wanted; };
  const auto is_wide = [&](ValueId id) { return id != kNone && coded(id) && codes(id).type != ElementType::kInt8; };
  const bool wide = std::ranges::any_of(node.inputs, is_wide) || std::ranges::any_of(node.outputs, is_wide);
  const bool wide_dense =
      node.op == Op::kDense && coded(node.inputs[0]) && codes(node.inputs[0]).type == ElementType::kInt16;
  if (wide_dense && wanted == Rounding::kSingle) return wanted;
  const auto entries = reference::kernels().entries;
  if (wanted == Rounding::kDouble || (!wide && std::any_of(entries.begin(), entries.end(), rounds))) return wanted;
  log(node, std::string(find_rule(node.op)->name) + " has no kernel with the rounding asked for: rounds as TFLite");
  return Rounding::kDouble;
}

ValueId PolicyPass::requant(Node& node, const std::vector<double>& multipliers) {
  node.rounding = rounding(node);
  if (!std::all_of(multipliers.begin(), multipliers.end(), [](double m) { return std::isfinite(m); }))
    throw Error(kUnsupported, graph_.source, node.name + ": the scales of its operands are too far apart");
  const std::string name = value(node.outputs[0]).name + "/requant";
  const auto rows = int64_t(multipliers.size());
  if (node.rounding == Rounding::kFloatEven) {
    const std::vector<float> scales(multipliers.begin(), multipliers.end());
    return graph_.constant(name, {rows}, scales);
  }
  std::vector<int32_t> pairs;
  for (const double multiplier : multipliers) {
    const FixedPoint pair = quantize_multiplier(multiplier);
    pairs.insert(pairs.end(), {pair.multiplier, pair.shift});
  }
  return graph_.constant(name, {rows, 2}, pairs);
}

void PolicyPass::set_clamp_codes(Node& node, Codes y) {
  const CodeEnds range = code_ends(y.type);
  const bool bounds = get_integer(node, "clamp") != 0;
  const int32_t low = bounds ? bound_code(get_real(node, "low"), y) : range.low;
  const int32_t high = bounds ? bound_code(get_real(node, "high"), y) : range.high;
  const bool clamps = low > range.low || high < range.high;
  set_integer(node, "clamp", clamps ? 1 : 0);
  set_integer(node, "low", clamps ? low : 0);
  set_integer(node, "high", clamps ? high : 0);
}

void keep_saturation(Graph& graph, const std::function<bool(const Node&)>& where) {
  const std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (const Node& node : nodes) {
    graph.nodes.push_back(node);
    const std::optional<float> high = saturates_at(graph, node);
    if (!high || !where(node)) continue;
    const ValueId y = node.outputs[0];
    Value before = graph.values[size_t(y)];
    before.name += "/unsaturated";
    before.quantizer.reset();
    graph.nodes.back().outputs[0] = graph.add(std::move(before));
    Node clamp = make_step(Op::kClamp, node, node.name + "/saturate", {graph.nodes.back().outputs[0]}, {y});
    set_integer(clamp, "clamp", 1);
    set_real(clamp, "low", 0);
    set_real(clamp, "high", *high);
    graph.nodes.push_back(std::move(clamp));
  }
}

}  // namespace nacre::tools
