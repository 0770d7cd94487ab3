// Imports layers whose activations are quantized at run time, as onnxruntime's quantize_dynamic writes them:
//
//   q, s_x, z_x = DynamicQuantizeLinear(x)                            one scale for the whole of x
//   y = Cast(MatMulInteger or ConvInteger(q, w, z_x, z_w)) (s_x s_w)  (+ bias: an Add after it)
//
// These operators become one dense or conv of x and the codes w, with the policy int8 dynamic. Between the first
// operator and the last product an operand only names its part in the layer. If another operator reads q, s_x or z_x,
// the operand is computed as a value of its own. Other operators may not read the results of MatMulInteger or s_x s_w.
// MatMulIntegerToFloat and DynamicQuantizeMatMul are such a layer in fewer operators.
#include <fmt/format.h>

#include <algorithm>

#include "tools/base/format.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Dynamic = Operand::Dynamic;

constexpr char kRemedy[] =
    "quantize with quantize_dynamic and leave the file as it is, or export with QuantizeLinear and DequantizeLinear";

OperandPtr part_of(Dynamic dynamic, ElementType type, std::vector<int64_t> dims) {
  return std::make_shared<Operand>(Operand{.type = type, .dims = std::move(dims), .dynamic = std::move(dynamic)});
}

bool is_part(const OperandPtr& x, Dynamic::Part part) { return x && x->dynamic && x->dynamic->part == part; }

void dynamic_quantize_linear(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->constant) source.refuse("quantizes a constant at run time", kRemedy);
  import.give(0, part_of({.part = Dynamic::kCodes, .x = x, .node = &source.proto}, ElementType::kUint8, x->dims));
  import.give(1, part_of({.part = Dynamic::kScale, .x = x, .node = &source.proto}, ElementType::kFloat32, {}));
  import.give(2, part_of({.part = Dynamic::kZero, .x = x, .node = &source.proto}, ElementType::kUint8, {}));
}

int64_t middle_of(ElementType codes) { return codes == ElementType::kUint8 ? 128 : 0; }

// Refuses weights, or zero points of weights, that are no stored int8 or uint8 codes. Zero points other than 0 (int8)
// and 128 (uint8) are allowed and get a correction (write_correction).
void check_weights(const Source& source, const OperandPtr& w, const OperandPtr& w_zero) {
  if (!w->constant || !is_code_type(w->type)) source.refuse("its weights are no stored int8 or uint8 codes", kRemedy);
  if (w_zero && (!w_zero->constant || w_zero->type != w->type))
    source.refuse("its weights' zero point is no stored code", kRemedy);
}

void integer_matmul(Import& import, const Source& source) {
  const OperandPtr &q = source.operand(0), &w = source.operand(1);
  const OperandPtr x_zero = source.given(2) ? source.operand(2) : nullptr;
  const OperandPtr w_zero = source.given(3) ? source.operand(3) : nullptr;
  if (!is_part(q, Dynamic::kCodes) || !is_part(x_zero, Dynamic::kZero) || x_zero->dynamic->x != q->dynamic->x)
    source.refuse("its first operand is not what DynamicQuantizeLinear gives", kRemedy);
  check_weights(source, w, w_zero);
  import.give(0, part_of({.part = Dynamic::kSums, .x = q->dynamic->x, .w = w, .w_zero = w_zero, .node = &source.proto},
                         ElementType::kInt32, {}));
}

// A layer: its input x, the codes, zero points and scales of its weights, and its bias.
struct Layer {
  OperandPtr x, w, w_zero = nullptr, w_scale, bias = nullptr;
  const ::onnx::NodeProto* integers = nullptr;  // the file's MatMulInteger or ConvInteger, if it has one
};

bool is_convolution(const Layer& layer) {
  return layer.integers != nullptr && layer.integers->op_type() == "ConvInteger";
}

OperandPtr dims_operand(const std::string& name, const std::vector<int64_t>& dims) {
  return constant_operand(make_constant(name, ElementType::kInt64, {int64_t(dims.size())}, dims));
}

// Returns whether an axis of size 1 must be added before axis 0 of x, because axis 0 is no batch. The engine finds a
// scale for each index of axis 0, but ONNX finds one for all of x.
bool hides_axis_0(Import& import, const Layer& layer) {
  return !is_convolution(layer) && import.graph().batch == 1 && layer.w->rank() == 2 && layer.x->rank() > 1 &&
         layer.x->rank() < kMaxRank && layer.x->dims[0] != 1;
}

void write_matmul(Import& import, Body& body, const Layer& layer, const std::string& w, const std::string& y) {
  const std::string x = body.take(layer.x);
  if (!hides_axis_0(import, layer)) {
    body.node("MatMul", {x, w}, y);
    return;
  }
  std::vector<int64_t> wide = layer.x->dims, dims = wide;
  wide.insert(wide.begin(), 1);
  dims.back() = layer.w->dims[1];
  const std::string before = body.fresh(layer.x->name + "/1"), after = body.fresh(y + "/1");
  body.node("Reshape", {x, body.take(dims_operand(before + "/dims", wide))}, before);
  body.node("MatMul", {before, w}, after);
  body.node("Reshape", {after, body.take(dims_operand(after + "/dims", dims))}, y);
}

// Returns scale times (middle code - zero point) per column or channel of w, or an empty list if all are 0.
std::vector<float> correction_factors(const Source& source, const Layer& layer) {
  const std::vector<int64_t> zeros = layer.w_zero ? integers(*layer.w_zero->constant) : std::vector<int64_t>{0};
  const std::vector<float> scales = reals(*layer.w_scale->constant);
  const size_t count = std::max(zeros.size(), scales.size());
  const auto fits = [&](size_t size) { return size == 1 || size == count; };
  if (!fits(zeros.size()) || !fits(scales.size())) source.malformed("its scales and zero points have several lengths");
  std::vector<float> factors(count);
  bool any = false;
  for (size_t j = 0; j < count; ++j) {
    const int64_t lower = middle_of(layer.w->type) - zeros[zeros.size() == 1 ? 0 : j];
    factors[j] = scales[scales.size() == 1 ? 0 : j] * float(lower);
    any = any || lower != 0;
  }
  return any ? factors : std::vector<float>();
}

// Corrects for zero points z of the weights. c are codes of the weights, s their scales, q the codes of x:
//
//   sum_k q_k s_j (c_kj - z_j) = sum_k q_k s_j (c_kj - middle) + s_j (middle - z_j) sum_k q_k
//
// The first sum is the layer `product`. The last sum is a layer whose weights are all 1. It has one output, or in
// groups one for each channel of w. Returns the last layer's result times the factors.
std::string write_correction(Import& import, Body& body, const Source& source, const Layer& layer,
                             const std::vector<float>& factors) {
  const bool convolution = is_convolution(layer);
  std::vector<int64_t> dims = layer.w->dims, shape = {int64_t(factors.size())};
  bool in_groups = false;
  for (int i = 0; convolution && i < layer.integers->attribute_size(); ++i)
    in_groups |= layer.integers->attribute(i).name() == "group" && layer.integers->attribute(i).i() != 1;
  if (convolution && factors.size() > 1) shape.resize(dims.size() - 1, 1);
  if (dims.size() < 2 || (!convolution && dims.size() != 2))
    source.refuse(fmt::format("its weights {} have a zero point, and are no matrix", dims_text(dims)),
                  "quantize with quantize_dynamic(..., weight_type=QuantType.QInt8), whose weights have no zero point");
  if (!in_groups) dims[convolution ? 0 : 1] = 1;
  import.spend(uint64_t(checked_elements(source.place, dims)));
  Layer sums = layer;
  const std::string name = body.fresh(layer.w->name + "/ones");
  const std::vector<int64_t> ones(size_t(checked_elements(source.place, dims)), 1);
  sums.w = constant_operand(make_constant(name, ElementType::kInt8, dims, ones));
  const std::string w = body.fresh(name + "/real"), one = body.fresh(name + "/scale");
  const OperandPtr scale = constant_operand(make_constant(one, ElementType::kFloat32, {}, std::vector<float>{1}));
  const OperandPtr factor =
      constant_operand(make_constant(body.fresh(name + "/factor"), ElementType::kFloat32, shape, factors));
  body.node("DequantizeLinear", {body.take(sums.w), body.take(scale)}, w);
  const std::string sum = body.fresh(name + "/sum"), part = body.fresh(name + "/correction");
  if (convolution) body.node_like(*layer.integers, "Conv", {body.take(layer.x), w}, sum, {"kernel_shape"});
  else write_matmul(import, body, sums, w, sum);
  body.node("Mul", {sum, body.take(factor)}, part);
  return part;
}

void set_policy(Import& import, size_t first_node) {
  std::vector<Node>& nodes = import.graph().nodes;
  for (size_t i = first_node; i < nodes.size(); ++i) {
    if (!is_matmul(nodes[i].op)) continue;
    Policy& policy = import.graph().layers[size_t(nodes[i].layer)].policy;
    policy.quantization = Quantization::kInt8Dynamic;
    policy.activation_zero = 1;
  }
}

void write_layer(Import& import, const Source& source, const Layer& layer) {
  Body body(source);
  if (layer.integers != nullptr) {
    body.source_op = layer.integers->op_type();
    if (!layer.integers->name().empty()) body.name = layer.integers->name();
  }
  const std::string y = body.fresh(import.output_name()), w = body.fresh(layer.w->name);
  const std::vector<float> factors = correction_factors(source, layer);
  const bool sums = layer.bias || !factors.empty();
  const std::string product = sums ? body.fresh(y + "/product") : y;
  std::vector<std::string> codes = {body.take(layer.w), body.take(layer.w_scale)};
  if (layer.w_zero) {
    // Every zero point is the middle code here. The correction adds the distance of the real zero points from the
    // middle.
    const auto count = size_t(layer.w_scale->constant->elements());
    const std::vector<int64_t> zeros(count, middle_of(layer.w->type));
    const std::vector<int64_t> dims = count == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{int64_t(count)};
    codes.push_back(body.take(constant_operand(make_constant(layer.w_zero->name, layer.w->type, dims, zeros))));
  }
  const int64_t axis = is_convolution(layer) ? 0 : std::max(0, layer.w->rank() - 1);
  set_attribute(body.node("DequantizeLinear", codes, w), "axis", axis);
  if (is_convolution(layer)) body.node_like(*layer.integers, "Conv", {body.take(layer.x), w}, product);
  else write_matmul(import, body, layer, w, product);
  const std::string corrected = layer.bias && !factors.empty() ? body.fresh(y + "/corrected") : y;
  if (!factors.empty()) body.node("Add", {product, write_correction(import, body, source, layer, factors)}, corrected);
  if (layer.bias) body.node("Add", {factors.empty() ? product : corrected, body.take(layer.bias)}, y);
  body.give(y);
  const size_t first_node = import.graph().nodes.size();
  import.expand(source, body);
  set_policy(import, first_node);
}

// Returns the scales of w as [channels] or one number. In some files the scales of a convolution are [channels, 1,
// 1].
OperandPtr flat(const OperandPtr& scale) {
  if (scale->rank() < 2) return scale;
  return constant_operand(reshaped(*scale->constant, {scale->constant->elements()}));
}

bool is_stored_scale(const OperandPtr& x) { return x && x->constant && x->type == ElementType::kFloat32; }

// Imports com.microsoft.DynamicQuantizeMatMul: A, B, b_scale, b_zero_point, bias
void dynamic_quantize_matmul(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  Layer layer = {.x = x, .w = source.operand(1), .w_scale = source.operand(2)};
  if (source.given(3)) layer.w_zero = source.operand(3);
  if (source.given(4)) layer.bias = source.operand(4);
  if (x->constant) source.refuse("quantizes a constant at run time", kRemedy);
  if (!is_stored_scale(layer.w_scale)) source.refuse("the scale of its weights is computed at run time", kRemedy);
  check_weights(source, layer.w, layer.w_zero);
  layer.w_scale = flat(layer.w_scale);
  write_layer(import, source, layer);
}

// Imports com.microsoft.MatMulIntegerToFloat: A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias
void matmul_integer_to_float(Import& import, const Source& source) {
  const OperandPtr &q = source.operand(0), &x_scale = source.operand(2);
  const OperandPtr x_zero = source.given(4) ? source.operand(4) : nullptr;
  const bool dynamic = is_part(q, Dynamic::kCodes) && is_part(x_scale, Dynamic::kScale) &&
                       is_part(x_zero, Dynamic::kZero) && x_scale->dynamic->x == q->dynamic->x &&
                       x_zero->dynamic->x == q->dynamic->x;
  if (!dynamic) source.refuse("its first operand is not what DynamicQuantizeLinear gives", kRemedy);
  Layer layer = {.x = q->dynamic->x, .w = source.operand(1), .w_scale = source.operand(3)};
  if (source.given(5)) layer.w_zero = source.operand(5);
  if (source.given(6)) layer.bias = source.operand(6);
  if (!is_stored_scale(layer.w_scale)) source.refuse("the scale of its weights is computed at run time", kRemedy);
  check_weights(source, layer.w, layer.w_zero);
  layer.w_scale = flat(layer.w_scale);
  write_layer(import, source, layer);
}

constexpr OperatorImporter kDynamicImporters[] = {
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", integer_matmul},
    {"ConvInteger", integer_matmul},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul, kMicrosoft},
    {"MatMulIntegerToFloat", matmul_integer_to_float, kMicrosoft},
};

// Quantizes x at run time. With low = min(0, min x) and high = max(0, max x):
//
//   s = (high - low) / 255, or 1 if that is 0;   z = round(saturate(-low / s));   q = saturate(round(x / s) + z)
void quantize_dynamically(Import& import, const OperandPtr& x, const ::onnx::NodeProto& proto) {
  Source source(proto, Formula::kOpset, &import.current().scope->attributes);
  source.inputs = {x};
  Formula f(import, source);
  const auto end = [&](const char* reduce, const char* with_zero) {
    return f(with_zero, {f(reduce, {f.input(0)}, {{"keepdims", int64_t{0}}}), f.number(0)});
  };
  const auto code = [&](const Term& q) { return f("Clip", {q, f.number(0), f.number(255)}); };
  const auto stored = [&](const Term& q) { return f("Cast", {q}, {{"to", int64_t(::onnx::TensorProto::UINT8)}}); };
  const Term low = end("ReduceMin", "Min"), range = f("Sub", {end("ReduceMax", "Max"), low});
  // 255 is made at run time. A division by a constant would become a product with its reciprocal, whose last bit may
  // differ.
  const Term steps = f("Mul", {f.to_real(f("Equal", {range, range})), f.number(255)}), step = f("Div", {range, steps});
  const Term scale = f("Where", {f("Equal", {step, f.number(0)}), f.number(1), step});
  const Term zero = f("Round", {code(f("Neg", {f("Div", {low, scale})}))});
  f.give(stored(code(f("Add", {f("Round", {f("Div", {f.input(0), scale})}), zero}))));
  f.give(scale);
  f.give(stored(zero));
  f.run();
}

}  // namespace

OperandPtr value_of_part(Import& import, const OperandPtr& part) {
  CurrentNode& current = import.current();
  const Dynamic& dynamic = *part->dynamic;
  if (dynamic.part != Dynamic::kCodes && dynamic.part != Dynamic::kScale && dynamic.part != Dynamic::kZero)
    current.source->refuse("reads " + part->name + ", a part of a dynamically quantized layer", kRemedy);
  ::onnx::NodeProto proto = *dynamic.node;
  if (proto.output_size() != 3) current.source->malformed("reads what has not the outputs of DynamicQuantizeLinear");
  for (std::string& name : *proto.mutable_output()) name += "/value";
  const std::string name = proto.output(int(dynamic.part));
  if (!import.find(name)) {
    const CurrentNode reader = current;
    for (const std::string& output : proto.output()) current.scope->uses[output] = 1;
    quantize_dynamically(import, dynamic.x, proto);
    current = reader;
  }
  return import.find(name);
}

void read_dynamic(Import& import, Source& source) {
  constexpr const char* kProducts[] = {"MatMulInteger", "ConvInteger", "MatMulIntegerToFloat"};
  const std::string& op = source.proto.op_type();
  const auto is_sums = [](const OperandPtr& x) { return is_part(x, Dynamic::kSums) || is_part(x, Dynamic::kScales); };
  const bool sums = std::ranges::any_of(source.inputs, is_sums);
  const bool scales = op == "Mul" && std::ranges::any_of(source.inputs, is_stored_scale) &&
                      std::ranges::any_of(source.inputs, [](const auto& x) { return is_part(x, Dynamic::kScale); });
  if (std::ranges::count(kProducts, op) > 0 || scales || (sums && (op == "Cast" || op == "Mul"))) return;
  for (OperandPtr& x : source.inputs)
    if (x && x->dynamic) x = value_of_part(import, x);
}

bool cast_dynamic(Import& import, const Source& source, ElementType type) {
  const OperandPtr& x = source.operand(0);
  if (!x->dynamic) return false;
  if (!is_part(x, Dynamic::kSums) || type != ElementType::kFloat32)
    source.refuse("casts a part of a dynamically quantized layer", kRemedy);
  import.give(0, part_of(*x->dynamic, ElementType::kFloat32, {}));
  return true;
}

bool multiply_dynamic(Import& import, const Source& source) {
  OperandPtr a = source.operand(0), b = source.operand(1);
  if (!a->dynamic && !b->dynamic) return false;
  if (is_part(b, Dynamic::kScale) || is_part(b, Dynamic::kSums)) std::swap(a, b);
  if (is_part(a, Dynamic::kScale) && is_stored_scale(b)) {
    const Dynamic scales = {.part = Dynamic::kScales, .x = a->dynamic->x, .w_scale = flat(b)};
    import.give(0, part_of(scales, ElementType::kFloat32, {}));
    return true;
  }
  const bool layer = is_part(a, Dynamic::kSums) && a->type == ElementType::kFloat32 && is_part(b, Dynamic::kScales) &&
                     a->dynamic->x == b->dynamic->x;
  if (!layer) source.refuse("multiplies other parts of dynamically quantized layers than sums and scales", kRemedy);
  write_layer(import, source,
              {.x = a->dynamic->x,
               .w = a->dynamic->w,
               .w_zero = a->dynamic->w_zero,
               .w_scale = b->dynamic->w_scale,
               .integers = a->dynamic->node});
  return true;
}

std::span<const OperatorImporter> dynamic_importers() { return kDynamicImporters; }

}  // namespace nacre::tools::onnx_import
