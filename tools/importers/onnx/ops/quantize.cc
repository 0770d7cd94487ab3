// Imports QuantizeLinear (Q) and DequantizeLinear (DQ).
//
// A value that goes through Q and DQ is a real value with a quantizer in the graph, and apply_policy makes codes of
// it. uint8 codes c with zero point z become the int8 codes c - 128 with z - 128, which stand for the same real
// values. Stored codes that are dequantized keep their quantizer, as int8, int32 or float8. 16-bit codes and codes
// with a scale per block are decoded. If a reader needs the codes themselves, Q and DQ are nodes of the graph. If the
// scale or zero point is computed at run time, they are formulas (scaled.cc).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "tools/base/option_id.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

bool has_16_bits(ElementType codes) { return codes == ElementType::kInt16 || codes == ElementType::kUint32; }
int64_t lowest_code(ElementType codes) { return codes == ElementType::kInt16 ? -32768 : 0; }

// ---- QuantizeLinear: y = saturate(round_half_even(x / scale) + zero)

Value quantized(const Value& x, const Quantizer& q) {
  const std::vector<float> numbers = reals(x);
  std::vector<int64_t> codes(numbers.size());
  size_t inner = 1;
  for (size_t i = size_t(q.axis) + 1; i < x.dims.size(); ++i) inner *= size_t(x.dims[i]);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t channel = q.scale.size() > 1 ? i / inner % q.scale.size() : 0;
    // std::nearbyint rounds half to even, because nothing in the tools changes the rounding mode.
    const double code = std::nearbyint(double(numbers[i] / q.scale[channel]));
    codes[i] = std::isnan(code) ? q.zero[channel] : int64_t(std::clamp(code, -1e9, 1e9)) + q.zero[channel];
    if (has_16_bits(q.codes)) codes[i] = std::clamp(codes[i], lowest_code(q.codes), lowest_code(q.codes) + 65535);
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
  if (is_float8(codes) && !x->constant)
    source.refuse("quantizes activations to float8", "export the float network, and convert it with " +
                                                         option("policy", "float8_from_float32") + " and " +
                                                         option("calibrate"));
  if (!is_code_type(codes) && !has_16_bits(codes))
    source.refuse("quantizes to another type than int8, uint8, int16 and uint16",
                  "quantize activations to 8 or 16 bits; weights may have 4");
  if (source.operand(1)->type != ElementType::kFloat32) source.refuse("its scale is not float32");
  if (has_scale_of_run_time(source)) return quantize_at_run_time(import, source, codes);
  const Quantizer quantizer = read_quantizer(source, x->dims, codes);
  if (x->constant) {
    spend_elements(import, *x->constant);
    return import.give_constant(0, quantized(*x->constant, quantizer));
  }
  auto y = std::make_shared<Operand>();
  y->type = codes;
  y->dims = x->dims;
  y->quantized = {.real = x, .quantizer = quantizer};
  import.give(0, y);
}

// ---- DequantizeLinear: y = (x - zero) scale

// Returns 4-bit codes as int8 or uint8 codes, and others unchanged.
Value widened(const Value& x) {
  if (x.stored == ElementType::kInt4) return make_constant(x.name, ElementType::kInt8, x.dims, integers(x));
  if (x.stored == ElementType::kUint4) return make_constant(x.name, ElementType::kUint8, x.dims, integers(x));
  return x;
}

void dequantize_constant(Import& import, const Source& source, const Value& stored) {
  Value codes = widened(stored);
  const int64_t block = source.integer("block_size", 0);
  if (block != 0) return dequantize_blocks(import, source, codes, block);
  Quantizer quantizer = read_quantizer(source, codes.dims, codes.stored);
  if (codes.stored == ElementType::kUint8) {
    std::vector<int64_t> shifted = integers(codes);
    for (int64_t& code : shifted) code -= 128;
    codes = make_constant(codes.name, ElementType::kInt8, codes.dims, shifted);
    quantizer = as_int8(quantizer);
  }
  codes.type = ElementType::kFloat32;
  codes.quantizer = std::move(quantizer);
  const bool kept =
      codes.stored == ElementType::kInt8 || codes.stored == ElementType::kInt32 || is_float8(codes.stored);
  import.give_constant(0, kept ? codes : decoded(codes));
}

// Gives `real` with the quantizer as the output. The value itself gets the quantizer if no other node reads it
// unrounded, else a copy gets it.
void give_quantized(Import& import, const OperandPtr& real, const Quantizer& quantizer) {
  const bool last = real->prefers_channels_last();
  ValueId id = last ? import.channels_last(real) : import.plain(real);
  Value& value = import.value(id);
  if (value.quantizer && same(*value.quantizer, quantizer)) {
    ++real->uses;  // give() subtracts this node's use, but this node read the codes
    return import.give(0, real);
  }
  if (!value.quantizer && !is_input(import.graph(), id) && real->uses == 1 &&
      (last ? real->plain : real->channels_last) == kNone) {
    value.quantizer = quantizer;
    return import.give(0, real);
  }
  Node node = import.step(Op::kCopy);
  node.inputs = {id};
  id = import.append(std::move(node), import.output_name());
  import.value(id).quantizer = quantizer;
  if (last) import.give_channels_last(0, id);
  else import.give_plain(0, id);
}

// Turns an input of the network that holds codes of one scale into a float32 input with a quantizer, if no node reads
// it so far.
void open_input(Import& import, const OperandPtr& x, const Operand& scale, const Quantizer& quantizer) {
  if (quantizer.scale.size() != 1 || !is_code_type(x->type) || x->quantized) return;
  const ValueId id = x->plain != kNone ? x->plain : x->channels_last;
  const auto reads = [id](const Node& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
  };
  const std::vector<Node>& nodes = import.graph().nodes;
  if (id == kNone || !is_input(import.graph(), id) || std::any_of(nodes.begin(), nodes.end(), reads)) return;
  import.value(id).type = ElementType::kFloat32;
  import.value(id).quantizer = quantizer;
  auto real = std::make_shared<Operand>(*x);
  real->type = ElementType::kFloat32;
  real->kept = scale.kept;
  real->uses = 1;
  x->quantized = {.real = std::move(real), .quantizer = quantizer};
  x->plain = x->channels_last = kNone;
}

// Rounds x to the numbers that 16-bit codes stand for, in float32, because no kernel computes on 16-bit codes.
//
//   y = clamp(round_half_even(x / s), low - z, high - z) s
void round_to_codes(Import& import, const Source& source, const OperandPtr& x, const Quantizer& q) {
  Body body(source);
  body.opset = 13;
  std::vector<int64_t> dims;
  if (q.scale.size() > 1) {
    dims.assign(x->dims.size(), 1);
    dims[size_t(q.axis)] = int64_t(q.scale.size());
    if (std::adjacent_find(q.zero.begin(), q.zero.end(), std::not_equal_to<>()) != q.zero.end())
      source.refuse("16-bit codes with several zero points");
  }
  const auto constant = [&](const char* what, std::vector<int64_t> shape, const std::vector<float>& numbers) {
    const std::string name = body.fresh(x->name + what);
    return body.take(constant_operand(make_constant(name, ElementType::kFloat32, std::move(shape), numbers)));
  };
  const std::string scale = constant("/scale", dims, q.scale);
  const auto low = float(lowest_code(q.codes) - q.zero[0]);
  const std::string bounds[] = {constant("/low", {}, {low}), constant("/high", {}, {low + 65535})};
  std::string y = body.take(x);
  const auto then = [&](const char* op, const std::vector<std::string>& more) -> ::onnx::NodeProto& {
    std::vector<std::string> inputs = {y};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return body.node(op, inputs, y = body.fresh(import.output_name()));
  };
  const ElementType kept = source.operand(1)->kept;
  if (x->kept != ElementType::kNone) set_attribute(then("Cast", {}), "to", ::onnx::TensorProto::FLOAT);
  then("Div", {scale});
  then("Round", {});
  then("Clip", {bounds[0], bounds[1]});
  then("Mul", {scale});
  if (kept != ElementType::kNone) then("CastLike", {body.take(source.operand(1))});
  body.give(y);
  import.expand(source, body);
}

// Dequantizes codes that are computed or given at run time.
void dequantize_step(Import& import, const Source& source, const OperandPtr& x, const Quantizer& quantizer) {
  if (!is_code_type(x->type) && x->type != ElementType::kInt16 && x->type != ElementType::kInt32)
    source.refuse("dequantizes another type than int8, uint8, int16 and int32");
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
  const bool float8 = x->constant && is_float8(x->type);
  if (!float8 && (!is_integer(x->type) || x->type == ElementType::kBool))
    source.refuse("dequantizes codes of another type than integers, float8e4m3fn and float8e5m2");
  if (has_scale_of_run_time(source)) return dequantize_at_run_time(import, source);
  if (x->constant) return dequantize_constant(import, source, *x->constant);
  const Quantizer quantizer = read_quantizer(source, x->dims, x->type);
  open_input(import, x, *source.operand(1), quantizer);
  if ((x->codes() || (x->quantized && has_16_bits(x->type))) && same(x->quantized->quantizer, quantizer))
    return has_16_bits(x->type) ? round_to_codes(import, source, x->quantized->real, quantizer)
                                : give_quantized(import, x->quantized->real, as_int8(quantizer));
  dequantize_step(import, source, x, quantizer);
}

constexpr OperatorImporter kQuantizeImporters[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"QuantizeLinear", quantize_linear, kMicrosoft},
    {"DequantizeLinear", dequantize_linear, kMicrosoft},
};

}  // namespace

std::span<const OperatorImporter> quantize_importers() { return kQuantizeImporters; }

}  // namespace nacre::tools::onnx_import
