// Reads quantizers (scales and zero points) of QuantizeLinear (Q) and DequantizeLinear (DQ), and copies them to values
// that integer kernels need.
//
// Codes between Q and DQ are a real value with a quantizer in the graph, and apply_policy makes the codes. An operator
// that moves codes becomes the same operator between DQ and Q.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "engine/model/model.h"
#include "tools/importers/onnx/file.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Reads the zero points. Zero points of float8 codes must be 0, because the operand only tells the type.
std::vector<int64_t> read_zeros(const Source& source, ElementType codes, size_t count) {
  if (!source.given(2)) return std::vector<int64_t>(count, 0);
  const Value& zero = source.constant(2, "its zero point");
  if (!is_float8(codes)) return integers(zero);
  for (const uint8_t bits : *zero.data)
    if ((bits & 0x7f) != 0) source.malformed("a zero point of float8 codes is not 0");
  return std::vector<int64_t>(size_t(zero.elements()), 0);
}

// Returns whether the operator gives out only elements of operand 0.
bool only_moves(const Source& source) {
  const std::string& op = source.proto.op_type();
  constexpr std::string_view kMoves[] = {"MaxPool", "Reshape",   "Flatten",  "Squeeze", "Unsqueeze",
                                         "Slice",   "Transpose", "Identity", "Split",   "Gather"};
  const bool resizes = (op == "Resize" || op == "Upsample") && source.text("mode", "nearest") == "nearest";
  const bool extrapolates = source.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  return (resizes && !extrapolates) || std::find(std::begin(kMoves), std::end(kMoves), op) != std::end(kMoves);
}

}  // namespace

bool is_float8(ElementType type) { return type == ElementType::kFloat8E4M3 || type == ElementType::kFloat8E5M2; }
bool is_code_type(ElementType type) { return type == ElementType::kInt8 || type == ElementType::kUint8; }

Quantizer as_int8(Quantizer quantizer) {
  if (quantizer.codes != ElementType::kUint8) return quantizer;
  quantizer.codes = ElementType::kInt8;
  for (int64_t& zero : quantizer.zero) zero -= 128;
  return quantizer;
}

bool same(const Quantizer& first, const Quantizer& second) {
  const Quantizer a = as_int8(first), b = as_int8(second);
  return a.codes == b.codes && a.scale == b.scale && a.zero == b.zero && (a.scale.size() == 1 || a.axis == b.axis);
}

Quantizer read_quantizer(const Source& source, const std::vector<int64_t>& dims, ElementType codes) {
  const Value& scale = source.constant(1, "its scale");
  if (is_integer(scale.stored) || scale.quantizer) source.refuse("its scale is no real number");
  Quantizer quantizer{.codes = codes, .scale = reals(scale), .zero = {}, .axis = 0};
  const size_t count = quantizer.scale.size();
  quantizer.zero = read_zeros(source, codes, count);
  if (count == 0 || quantizer.zero.size() != count) source.malformed("its scales and zero points have several lengths");
  for (const float s : quantizer.scale)
    if (!is_scale(std::bit_cast<uint32_t>(s))) source.malformed("a scale is not a positive, normal, finite number");
  for (const int64_t zero : quantizer.zero)
    if (codes == ElementType::kUint32 ? zero > 65535 : zero != int32_t(zero) || !is_zero_point(codes, int32_t(zero)))
      source.malformed("a zero point is outside the range of its codes");
  if (count == 1) return quantizer;
  if (scale.dims.size() != 1) source.refuse("scales per block");
  quantizer.axis = source.axis(source.integer("axis", 1), int(dims.size()));
  if (int64_t(count) != dims[size_t(quantizer.axis)]) source.malformed("has neither one scale nor one per channel");
  return quantizer;
}

// Copies the quantizer of y = f(x) to x, if only f reads x. f is monotone on each element, or moves or chooses
// elements, so rounding before f or after it gives the same codes. Files have Q after Relu, and the convolution before
// Relu must become an integer one.
void move_quantizers_back(Graph& graph) {
  std::vector<int> readers(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs)
      if (id != kNone) ++readers[size_t(id)];
  for (const auto* bindings : {&graph.inputs, &graph.outputs})
    for (const Binding& binding : *bindings) readers[size_t(binding.value)] += 2;
  constexpr Op kCommutes[] = {Op::kClamp, Op::kMaxPool, Op::kReshape, Op::kTranspose, Op::kSlice};
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::find(std::begin(kCommutes), std::end(kCommutes), node->op) == std::end(kCommutes)) continue;
    const Value& y = graph.values[size_t(node->outputs[0])];
    Value& x = graph.values[size_t(node->inputs[0])];
    if (!y.quantizer || y.quantizer->scale.size() != 1 || x.quantizer || x.constant()) continue;
    if (x.type == ElementType::kFloat32 && readers[size_t(node->inputs[0])] == 1) x.quantizer = y.quantizer;
  }
}

namespace {

// Replaces the node by the same node on reals, after a DequantizeLinear and before QuantizeLinears of the same scale.
void expand_on_reals(Import& import, const Source& source, const OperandPtr& scale_of, const OperandPtr& zero_of) {
  Body body(source);
  const std::string scale = body.take(scale_of), zero = body.take(zero_of);
  std::vector<std::string> inputs = {body.fresh(source.operand(0)->name)};
  body.node("DequantizeLinear", {body.take(source.operand(0)), scale, zero}, inputs[0]);
  for (int i = 1; i < int(source.inputs.size()); ++i)
    inputs.push_back(source.given(i) ? body.take(source.operand(i)) : "");
  std::vector<std::string> reals, codes;
  for (int i = 0; i < source.proto.output_size(); ++i) {
    reals.push_back(source.wants(i) ? body.fresh(source.proto.output(i)) : "");
    codes.push_back(source.wants(i) ? body.fresh(source.proto.output(i)) : "");
  }
  ::onnx::NodeProto& node = body.node_like(source.proto, source.proto.op_type().c_str(), inputs, reals[0]);
  for (size_t i = 1; i < reals.size(); ++i) node.add_output(reals[i]);
  for (size_t i = 0; i < reals.size(); ++i) {
    if (!reals[i].empty()) body.node("QuantizeLinear", {reals[i], scale, zero}, codes[i]);
    body.give(codes[i]);
  }
  import.expand(source, body);
}

OperandPtr zero_point(const std::string& name, ElementType codes, const std::vector<int64_t>& zero) {
  return constant_operand(make_constant(name + "/zero", codes, {}, zero));
}

// Returns the scale and zero point with which a later node of the file's graph reads codes of that name. The zero
// point is null if it is omitted. DequantizeLinear and QLinear operators read codes, their scale and their zero
// point.
std::pair<OperandPtr, OperandPtr> scale_of_codes(Import& import, const std::string& name) {
  for (const ::onnx::NodeProto* node : import.walk().live()) {
    if (node->op_type() != "DequantizeLinear" && !node->op_type().starts_with("QLinear")) continue;
    for (int i = 0; i + 1 < node->input_size(); ++i) {
      if (node->input(i) != name) continue;
      const bool has_zero = i + 2 < node->input_size() && !node->input(i + 2).empty();
      return {import.find(node->input(i + 1)), has_zero ? import.find(node->input(i + 2)) : nullptr};
    }
  }
  return {};
}

}  // namespace

bool import_on_codes(Import& import, const Source& source) {
  if (!only_moves(source) || !source.given(0)) return false;
  const OperandPtr& x = source.operand(0);
  const bool integers = source.proto.op_type() == "MaxPool" && is_code_type(x->type) && !x->constant && !x->quantized;
  if (!x->codes() && !integers) return false;
  // Integers without a known scale are read with scale 1 and zero point 0.
  const Quantizer q = integers ? Quantizer{.codes = x->type, .scale = {1}, .zero = {0}} : x->quantized->quantizer;
  const OperandPtr scale = constant_operand(make_constant(x->name + "/scale", ElementType::kFloat32, {}, q.scale));
  expand_on_reals(import, source, scale, zero_point(x->name, q.codes, {q.zero.begin(), q.zero.end()}));
  return true;
}

// onnxruntime's quantizers write Gather(codes) and a DequantizeLinear after it. All codes have one scale, so gathered
// codes stand for the same numbers.
bool gather_codes(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (!x->constant || !is_code_type(x->type)) return false;
  auto [scale, zero] = scale_of_codes(import, import.output_name());
  if (!scale || !scale->constant || scale->constant->elements() != 1) return false;
  expand_on_reals(import, source, scale, zero ? zero : zero_point(x->name, x->type, {0}));
  return true;
}

ValueId codes_value(Import& import, const OperandPtr& codes) {
  if (!codes->codes() || codes->quantized->real->constant) return kNone;
  const OperandPtr& real = codes->quantized->real;
  const ValueId id = import.plain(real);
  if (is_input(import.graph(), id)) return kNone;
  if (!import.value(id).quantizer && real->uses == 1) {
    import.value(id).quantizer = codes->quantized->quantizer;
    import.graph().rename(id, codes->name);
    return id;
  }
  Node node = import.step(Op::kCopy);
  node.inputs = {id};
  const ValueId copy = import.append(std::move(node), codes->name);
  import.value(copy).quantizer = codes->quantized->quantizer;
  return copy;
}

}  // namespace nacre::tools::onnx_import
