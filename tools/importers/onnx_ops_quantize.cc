// QuantizeLinear, DequantizeLinear and Cast.
//
// A value that goes through Q and DQ is, in the graph, a real value with a quantizer: apply_policy makes codes of it.
// uint8 codes c with zero point z become the int8 codes c - 128 with z - 128: the same real values. Stored codes that
// are dequantized stay what they are, with their quantizer. Where codes themselves are asked for, Q and DQ are steps.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tools/importers/onnx.h"
#include "tools/importers/onnx_fold.h"
#include "tools/importers/onnx_tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Scales (input 1) and zero points (input 2) of a tensor of `dims`.
Quantizer read_quantizer(const Source& source, const std::vector<int64_t>& dims, ElementType codes) {
  const Value& scale = source.constant(1, "its scale");
  if (is_integer(scale.stored) || scale.quantizer) source.refuse("its scale is no real number");
  Quantizer quantizer{.codes = codes, .scale = reals(scale), .zero = {}, .axis = 0};
  const size_t count = quantizer.scale.size();
  if (source.given(2))
    quantizer.zero = integers(source.constant(2, "its zero point"));
  else
    quantizer.zero.assign(count, 0);
  if (count == 0 || quantizer.zero.size() != count) source.malformed("its scales and zero points have several lengths");
  for (const float s : quantizer.scale)
    if (!(s > 0) || std::isinf(s)) source.malformed("a scale is not positive and finite");
  const int64_t low = codes == ElementType::kUint8 ? 0 : codes == ElementType::kInt8 ? -128 : INT32_MIN;
  const int64_t high = codes == ElementType::kUint8 ? 255 : codes == ElementType::kInt8 ? 127 : INT32_MAX;
  for (const int64_t zero : quantizer.zero)
    if (zero < low || zero > high) source.malformed("a zero point is outside the range of its codes");
  if (count == 1) return quantizer;
  if (source.integer("block_size", 0) != 0 || scale.dims.size() != 1) source.refuse("scales per block");
  quantizer.axis = source.axis(source.integer("axis", 1), int(dims.size()));
  if (int64_t(count) != dims[size_t(quantizer.axis)]) source.malformed("has neither one scale nor one per channel");
  return quantizer;
}

Quantizer as_int8(Quantizer quantizer) {
  if (quantizer.codes != ElementType::kUint8) return quantizer;
  quantizer.codes = ElementType::kInt8;
  for (int64_t& zero : quantizer.zero) zero -= 128;
  return quantizer;
}

bool same(const Quantizer& a, const Quantizer& b) {
  return a.codes == b.codes && a.scale == b.scale && a.zero == b.zero && (a.scale.size() == 1 || a.axis == b.axis);
}

bool is_code_type(ElementType type) { return type == ElementType::kInt8 || type == ElementType::kUint8; }

// ---- QuantizeLinear: y = saturate(round_half_even(x / scale) + zero)

Value quantized(const Value& x, const Quantizer& q) {
  const std::vector<float> numbers = reals(x);
  std::vector<int64_t> codes(numbers.size());
  size_t inner = 1;
  for (size_t i = size_t(q.axis) + 1; i < x.dims.size(); ++i) inner *= size_t(x.dims[i]);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t channel = q.scale.size() > 1 ? i / inner % q.scale.size() : 0;
    // std::nearbyint rounds half to even: nothing in the tools changes the rounding mode.
    const double code = std::nearbyint(double(numbers[i] / q.scale[channel]));
    codes[i] = std::isnan(code) ? q.zero[channel] : int64_t(std::clamp(code, -1e9, 1e9)) + q.zero[channel];
  }
  return make_constant(x.name, q.codes, x.dims, codes);
}

ElementType output_type(const Source& source) {
  if (source.given(2)) return source.operand(2)->type;
  const int64_t type = source.integer("output_dtype", 0);
  return type == 0 ? ElementType::kUint8 : element_type(int(std::clamp<int64_t>(type, 0, 1000)));
}

void quantize_linear(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const ElementType codes = output_type(source);
  if (!is_code_type(codes)) source.refuse("quantizes to another type than int8 and uint8");
  if (source.operand(1)->type != ElementType::kFloat32) source.refuse("its scale is not float32");
  const Quantizer quantizer = read_quantizer(source, x->dims, codes);
  if (x->constant) return import.give_constant(0, quantized(*x->constant, quantizer));
  auto y = std::make_shared<Operand>();
  y->type = codes;
  y->dims = x->dims;
  y->quantized = {.real = x, .quantizer = quantizer};
  import.give(0, y);
}

// ---- DequantizeLinear: y = (x - zero) scale

// 4-bit codes are int8 codes with room to spare.
Value widened(const Value& x) {
  if (x.stored == ElementType::kInt4) return make_constant(x.name, ElementType::kInt8, x.dims, integers(x));
  if (x.stored == ElementType::kUint4) return make_constant(x.name, ElementType::kUint8, x.dims, integers(x));
  return x;
}

void dequantize_constant(Import& import, const Source& source, const Value& stored) {
  Value codes = widened(stored);
  Quantizer quantizer = read_quantizer(source, codes.dims, codes.stored);
  if (codes.stored == ElementType::kUint8) {
    std::vector<int64_t> shifted = integers(codes);
    for (int64_t& code : shifted) code -= 128;
    codes = make_constant(codes.name, ElementType::kInt8, codes.dims, shifted);
    quantizer = as_int8(quantizer);
  }
  codes.type = ElementType::kFloat32;
  codes.quantizer = std::move(quantizer);
  const bool kept = codes.stored == ElementType::kInt8 || codes.stored == ElementType::kInt32;
  import.give_constant(0, kept ? codes : decoded(codes));
}

// The value of `real` with the quantizer: on itself if nobody else reads it, else on a copy.
void give_quantized(Import& import, const OperandPtr& real, const Quantizer& quantizer, int readers) {
  const bool last = import.prefers_channels_last(*real);
  ValueId id = last ? import.channels_last(real) : import.plain(real);
  Value& value = import.value(id);
  if (value.quantizer && same(*value.quantizer, quantizer)) return import.give(0, real);
  const auto is_it = [&](const Binding& b) { return b.value == id; };
  const bool input = std::any_of(import.graph().inputs.begin(), import.graph().inputs.end(), is_it);
  if (!value.quantizer && !input && real->uses == 1 && readers == 1 &&
      (last ? real->plain : real->channels_last) == kNone) {
    value.quantizer = quantizer;
    return import.give(0, real);
  }
  Node node = import.step(Op::kCopy);
  node.inputs = {id};
  id = import.append(std::move(node), import.output_name());
  import.value(id).quantizer = quantizer;
  if (last)
    import.give_channels_last(0, id);
  else
    import.give_plain(0, id);
}

// Codes computed or given at run time.
void dequantize_step(Import& import, const Source& source, const OperandPtr& x, const Quantizer& quantizer) {
  if (!is_code_type(x->type) && x->type != ElementType::kInt32)
    source.refuse("dequantizes another type than int8, uint8 and int32");
  Node node = import.step(Op::kDequantize);
  const std::vector<int32_t> zeros(quantizer.zero.begin(), quantizer.zero.end());
  const auto count = int64_t(zeros.size());
  node.inputs = {import.plain(x), import.reals(x->name + "/scale", {count}, quantizer.scale),
                 import.graph().constant(x->name + "/zero", {count}, zeros)};
  if (count > 1) set_integer(node, "axis", quantizer.axis);
  import.give_plain(0, import.append(std::move(node), import.output_name()));
}

void dequantize_linear(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (source.operand(1)->type != ElementType::kFloat32) source.refuse("its scale is not float32");
  if (!is_integer(x->type) || x->type == ElementType::kBool) source.refuse("dequantizes codes that are no integers");
  if (x->constant) return dequantize_constant(import, source, *x->constant);
  const Quantizer quantizer = read_quantizer(source, x->dims, x->type);
  const bool pair =
      x->quantized && x->plain == kNone && same(x->quantized->quantizer, quantizer) && quantizer.scale.size() == 1;
  if (pair) return give_quantized(import, x->quantized->real, as_int8(quantizer), x->uses);
  dequantize_step(import, source, x, quantizer);
}

// ---- Cast

bool can_cast(ElementType from, ElementType to) {  // the reference kernels: float32 <-> these
  const auto other = [](ElementType t) {
    return t == ElementType::kInt8 || t == ElementType::kUint8 || t == ElementType::kInt32 ||
           t == ElementType::kInt64 || t == ElementType::kBool;
  };
  return (from == ElementType::kFloat32 && other(to)) || (other(from) && to == ElementType::kFloat32);
}

void cast_to(Import& import, const Source& source, ElementType type) {
  const OperandPtr& x = source.operand(0);
  if (x->type == type) return import.give(0, x);
  if (type == ElementType::kNone) source.refuse("casts to a type that is not supported");
  if (x->constant) return import.give_constant(0, cast(*x->constant, type));
  if (!can_cast(x->type, type))
    source.refuse("casts at run time between types of which neither is float32, or to a type that is not supported");
  Node node = import.step(Op::kCast);
  const bool last = import.prefers_channels_last(*x);
  node.inputs = {last ? import.channels_last(x) : import.plain(x)};
  const ValueId y = import.append(std::move(node), import.output_name(), type);
  if (last)
    import.give_channels_last(0, y);
  else
    import.give_plain(0, y);
}

void cast_operator(Import& import, const Source& source) {
  cast_to(import, source, element_type(int(std::clamp<int64_t>(source.integer("to", 0), 0, 1000))));
}

// Integer forms: one layer of the source in several operators' clothes.
void refuse_integer_form(Import&, const Source& source) {
  source.refuse("operators on codes are not supported",
                "export with QuantizeLinear and DequantizeLinear (QDQ) instead");
}

constexpr OperatorImporter kImporters[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"Cast", cast_operator},
    {"QLinearConv", refuse_integer_form},
    {"QLinearMatMul", refuse_integer_form},
    {"ConvInteger", refuse_integer_form},
    {"MatMulInteger", refuse_integer_form},
    {"DynamicQuantizeLinear", refuse_integer_form},
};

}  // namespace

// y = f(x) with f monotone and applied to each element, or moving or choosing elements: rounding to y's codes before f
// or after it gives the same codes, so x, which nobody else reads, can have them. Q stands after Relu in the files; the
// convolution before it is to be an integer one.
void move_quantizers_back(Graph& graph) {
  std::vector<int> readers(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs)
      if (id != kNone) ++readers[size_t(id)];
  for (const auto* bindings : {&graph.inputs, &graph.outputs})
    for (const Binding& binding : *bindings) readers[size_t(binding.value)] += 2;
  constexpr Op kCommutes[] = {Op::kClamp, Op::kMaxPool, Op::kReshape, Op::kTranspose};
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::find(std::begin(kCommutes), std::end(kCommutes), node->op) == std::end(kCommutes)) continue;
    const Value& y = graph.values[size_t(node->outputs[0])];
    Value& x = graph.values[size_t(node->inputs[0])];
    if (!y.quantizer || y.quantizer->scale.size() != 1 || x.quantizer || x.constant()) continue;
    if (x.type == ElementType::kFloat32 && readers[size_t(node->inputs[0])] == 1) x.quantizer = y.quantizer;
  }
}

std::span<const OperatorImporter> quantize_importers() { return kImporters; }

}  // namespace nacre::tools::onnx_import
