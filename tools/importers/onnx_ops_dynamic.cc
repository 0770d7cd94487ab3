// Layers whose activations are quantized at run time, as onnxruntime's quantize_dynamic writes them:
//
//   q, s_x, z_x = DynamicQuantizeLinear(x)                            one scale for the whole of x
//   y = Cast(MatMulInteger or ConvInteger(q, w, z_x, z_w)) (s_x s_w)  (+ bias: an Add after it)
//
// One dense or conv of x and the codes w, with the policy int8 dynamic. Between the first operator and the last product
// operands only name their part in it; nothing else may read them. MatMulIntegerToFloat and DynamicQuantizeMatMul are
// the same in fewer operators.
#include <algorithm>

#include "tools/importers/onnx.h"
#include "tools/importers/onnx_fold.h"
#include "tools/importers/onnx_tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Dynamic = Operand::Dynamic;

constexpr char kRemedy[] =
    "quantize with quantize_dynamic and leave the file as it is, or export with QuantizeLinear and DequantizeLinear";

OperandPtr part_of(Dynamic dynamic, ElementType type, std::vector<int64_t> dims) {
  auto operand = std::make_shared<Operand>();
  operand->type = type;
  operand->dims = std::move(dims);
  operand->dynamic = std::move(dynamic);
  return operand;
}

bool is_part(const OperandPtr& x, Dynamic::Part part) { return x && x->dynamic && x->dynamic->part == part; }

void dynamic_quantize_linear(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->constant) source.refuse("quantizes a constant at run time", kRemedy);
  import.give(0, part_of({.part = Dynamic::kCodes, .x = x}, ElementType::kUint8, x->dims));
  import.give(1, part_of({.part = Dynamic::kScale, .x = x}, ElementType::kFloat32, {}));
  import.give(2, part_of({.part = Dynamic::kZero, .x = x}, ElementType::kUint8, {}));
}

// Weights are symmetric in every kernel: zero point 0 as int8, 128 as uint8.
void check_weights(const Source& source, const OperandPtr& w, const OperandPtr& w_zero) {
  if (!w->constant || !is_code_type(w->type)) source.refuse("its weights are no stored int8 or uint8 codes", kRemedy);
  std::vector<int64_t> zeros = {0};
  if (w_zero) {
    if (!w_zero->constant || w_zero->type != w->type)
      source.refuse("its weights' zero point is no stored code", kRemedy);
    zeros = integers(*w_zero->constant);
  }
  const int64_t middle = w->type == ElementType::kUint8 ? 128 : 0;
  if (std::any_of(zeros.begin(), zeros.end(), [&](int64_t zero) { return zero != middle; }))
    source.refuse("its weights have a zero point: integer kernels take symmetric weights",
                  "quantize with weight_type=QInt8, or with extra_options={'WeightSymmetric': True}");
}

void integer_matmul(Import& import, const Source& source) {
  const OperandPtr &q = source.operand(0), &w = source.operand(1);
  const OperandPtr x_zero = source.given(2) ? source.operand(2) : nullptr;
  const OperandPtr w_zero = source.given(3) ? source.operand(3) : nullptr;
  if (!is_part(q, Dynamic::kCodes) || !is_part(x_zero, Dynamic::kZero) || x_zero->dynamic->x != q->dynamic->x)
    source.refuse("its first operand is not what DynamicQuantizeLinear gives", kRemedy);
  check_weights(source, w, w_zero);
  import.give(0,
              part_of({.part = Dynamic::kSums, .x = q->dynamic->x, .w = w, .w_zero = w_zero, .integers = &source.proto},
                      ElementType::kInt32, {}));
}

// The codes of a layer, whose product is `sums`, scaled by w_scale.
struct Layer {
  OperandPtr x, w, w_zero = nullptr, w_scale, bias = nullptr;
  const ::onnx::NodeProto* integers = nullptr;  // its attributes, if it is a convolution
};

bool is_convolution(const Layer& layer) {
  return layer.integers != nullptr && layer.integers->op_type() == "ConvInteger";
}

OperandPtr dims_operand(const std::string& name, const std::vector<int64_t>& dims) {
  return constant_operand(make_constant(name, ElementType::kInt64, {int64_t(dims.size())}, dims));
}

// The engine finds a scale for each index of axis 0, ONNX one for all of x. An axis 0 that is no batch goes behind one.
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

void set_policy(Import& import, size_t first_node) {
  std::vector<Node>& nodes = import.graph().nodes;
  for (size_t i = first_node; i < nodes.size(); ++i) {
    if (nodes[i].op != Op::kDense && nodes[i].op != Op::kConv2d && nodes[i].op != Op::kDepthwiseConv2d) continue;
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
  const std::string product = layer.bias ? body.fresh(y + "/product") : y;
  std::vector<std::string> codes = {body.take(layer.w), body.take(layer.w_scale)};
  if (layer.w_zero) {
    // One zero point stands for all channels; they are all the same.
    const auto count = size_t(layer.w_scale->constant->elements());
    const std::vector<int64_t> zeros(count, layer.w->type == ElementType::kUint8 ? 128 : 0);
    const std::vector<int64_t> dims = count == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{int64_t(count)};
    codes.push_back(body.take(constant_operand(make_constant(layer.w_zero->name, layer.w->type, dims, zeros))));
  }
  const int64_t axis = is_convolution(layer) ? 0 : std::max(0, layer.w->rank() - 1);
  set_attribute(body.node("DequantizeLinear", codes, w), "axis", axis);
  if (is_convolution(layer)) body.node_like(*layer.integers, "Conv", {body.take(layer.x), w}, product);
  else write_matmul(import, body, layer, w, product);
  if (layer.bias) body.node("Add", {product, body.take(layer.bias)}, y);
  body.give(y);
  const size_t first_node = import.graph().nodes.size();
  import.expand(source, body);
  set_policy(import, first_node);
}

// Scales of w as [channels] or one number: those of a convolution stand as [channels, 1, 1] in some files.
OperandPtr flat(const OperandPtr& scale) {
  if (scale->rank() < 2) return scale;
  return constant_operand(reshaped(*scale->constant, {scale->constant->elements()}));
}

bool is_stored_scale(const OperandPtr& x) { return x && x->constant && x->type == ElementType::kFloat32; }

// com.microsoft.DynamicQuantizeMatMul: A, B, b_scale, b_zero_point, bias
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

// com.microsoft.MatMulIntegerToFloat: A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias
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
};

constexpr OperatorImporter kMicrosoftDynamicImporters[] = {
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"MatMulIntegerToFloat", matmul_integer_to_float},
};

}  // namespace

void check_dynamic(const Source& source) {
  constexpr const char* kReaders[] = {"Cast", "Mul", "MatMulInteger", "ConvInteger", "MatMulIntegerToFloat"};
  const auto reads = [&](const char* op) { return source.proto.op_type() == op; };
  if (std::any_of(std::begin(kReaders), std::end(kReaders), reads)) return;
  for (const OperandPtr& x : source.inputs)
    if (x && x->dynamic) source.refuse("reads " + x->name + ", a part of a dynamically quantized layer", kRemedy);
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
               .integers = a->dynamic->integers});
  return true;
}

std::span<const OperatorImporter> dynamic_importers() { return kDynamicImporters; }
std::span<const OperatorImporter> microsoft_dynamic_importers() { return kMicrosoftDynamicImporters; }

}  // namespace nacre::tools::onnx_import
