// Arithmetic, activations, SOFTMAX, MEAN, and what only changes how real values are coded.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tools/importers/tflite.h"

namespace nacre::tools::tflite {
namespace {

Node unary(Op op, ValueId x) { return {.op = op, .name = "", .words = {}, .inputs = {x}, .outputs = {}}; }

template <Op kOp, class Options>
void convert_binary(Importer& importer, Operation& op) {
  const ValueId a = importer.real_input(op, 0), b = importer.real_input(op, 1);
  const auto* options = op.record->template builtin_options_as<Options>();
  Node node{.op = kOp, .name = "", .words = {}, .inputs = {a, b}, .outputs = {}};
  importer.emit_activated(op, std::move(node), options != nullptr ? options->activation() : Activation::NONE);
}

template <Activation kActivation>
void convert_relu(Importer& importer, Operation& op) {
  importer.emit_activated(op, unary(Op::kClamp, importer.real_input(op, 0)), kActivation);
}

// Node of a clamp to [low, high].
Node clamp(ValueId x, float low, float high) {
  Node node = unary(Op::kClamp, x);
  set_integer(node, "clamp", 1);
  set_real(node, "low", low);
  set_real(node, "high", high);
  return node;
}

void convert_relu_0_to_1(Importer& importer, Operation& op) {
  importer.emit_activated(op, clamp(importer.real_input(op, 0), 0, 1), Activation::NONE);
}

template <Op kOp>
void convert_unary(Importer& importer, Operation& op) {
  importer.emit_activated(op, unary(kOp, importer.real_input(op, 0)), Activation::NONE);
}

void convert_gelu(Importer& importer, Operation& op) {
  Node node = unary(Op::kGelu, importer.real_input(op, 0));
  set_integer(node, "tanh", importer.options<GeluOptions>(op).approximate() ? 1 : 0);
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

void convert_leaky_relu(Importer& importer, Operation& op) {
  Node node = unary(Op::kLeakyRelu, importer.real_input(op, 0));
  set_real(node, "alpha", importer.options<LeakyReluOptions>(op).alpha());
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

// y = clamp(x, 0, inf) + a clamp(x, -inf, 0), exact in float32; one slope for all is leaky_relu. On codes TFLite rounds
// a x once, which no step does.
void convert_prelu(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0), slope = importer.real_input(op, 1);
  if (importer.value(x).quantizer) importer.unsupported(op, "slopes per channel on codes");
  if (const Value& a = importer.value(slope); a.constant()) {
    const std::vector<float> slopes = reals(a);
    if (!slopes.empty() && std::all_of(slopes.begin(), slopes.end(), [&](float s) { return s == slopes[0]; })) {
      Node node = unary(Op::kLeakyRelu, x);
      set_real(node, "alpha", slopes[0]);
      return importer.emit_activated(op, std::move(node), Activation::NONE);
    }
  }
  const ValueId y = importer.output(op);
  const ValueId positive = importer.between(y, "/positive"), negative = importer.between(y, "/negative"),
                scaled = importer.between(y, "/scaled");
  const auto emit = [&](Node node, ValueId out) {
    node.outputs = {out};
    importer.emit(op, std::move(node));
  };
  emit(clamp(x, 0, kInfinity), positive);
  emit(clamp(x, -kInfinity, 0), negative);
  emit({.op = Op::kMul, .name = "", .words = {}, .inputs = {negative, slope}, .outputs = {}}, scaled);
  emit({.op = Op::kAdd, .name = "", .words = {}, .inputs = {positive, scaled}, .outputs = {}}, y);
}

// With one stored number: a clamp.
template <BuiltinOperator kCode>
void convert_extremum(Importer& importer, Operation& op) {
  ValueId x = importer.real_input(op, 0), bound = importer.real_input(op, 1);
  if (importer.value(x).constant()) std::swap(x, bound);
  const Value& b = importer.value(bound);
  if (!b.constant() || importer.value(x).constant() || b.elements() != 1)
    importer.unsupported(op, "another operand than one stored number");
  const float number = reals(b)[0];
  if (std::isnan(number)) importer.bad(op, "a bound that is not a number");
  const bool maximum = kCode == BuiltinOperator::MAXIMUM;
  importer.emit_activated(op, clamp(x, maximum ? number : -kInfinity, maximum ? kInfinity : number), Activation::NONE);
}

void convert_softmax(Importer& importer, Operation& op) {
  Node node = unary(Op::kSoftmax, importer.real_input(op, 0));
  const size_t rank = importer.value(node.inputs[0]).dims.size();
  if (rank == 0) importer.bad(op, "its input has no axis");
  set_integer(node, "axis", int(rank) - 1);
  set_real(node, "beta", importer.options<SoftmaxOptions>(op).beta());
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

void convert_mean(Importer& importer, Operation& op) {
  Node node = unary(Op::kMean, importer.real_input(op, 0));
  const size_t rank = importer.value(node.inputs[0]).dims.size();
  int axes = 0;  // bit i: axis i
  for (const int64_t axis : importer.integers(op, 1)) axes |= 1 << importer.axis(op, axis, rank);
  set_integer(node, "axes", axes);
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  set_integer(node, "keep_dims", options != nullptr && options->keep_dims() ? 1 : 0);
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

// QUANTIZE, and DEQUANTIZE of an activation: the real values stay, the quantizers of x and y say the rest.
void convert_copy(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0), y = importer.output(op);
  if (importer.value(y).type != ElementType::kFloat32)
    importer.unsupported(op, "an output that is neither float32 nor quantized");
  importer.emit_activated(op, unary(Op::kCopy, x), Activation::NONE);
}

// Of a constant (float16 weights, mostly): float32 numbers, once.
void convert_dequantize(Importer& importer, Operation& op) {
  const ValueId id = importer.input(op, 0);
  if (!importer.value(id).constant()) return convert_copy(importer, op);
  const Value& x = importer.value(id);
  if (x.type != ElementType::kFloat16 && !x.quantizer) importer.bad(op, "dequantizes a constant that has no quantizer");
  const std::vector<float> data = reals(x);
  Value y;
  y.type = y.stored = ElementType::kFloat32;
  y.dims = x.dims;
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  y.data = std::make_shared<const std::vector<uint8_t>>(bytes, bytes + data.size() * sizeof(float));
  importer.define(op, std::move(y));
}

void convert_cast(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0), y = importer.output(op);
  if (importer.value(x).quantizer || importer.value(y).quantizer) importer.unsupported(op, "a cast of codes");
  if (importer.value(x).type == ElementType::kFloat16) importer.unsupported(op, "a cast of float16");
  const bool same = importer.value(x).type == importer.value(y).type;
  importer.emit_activated(op, unary(same ? Op::kCopy : Op::kCast, x), Activation::NONE);
}

}  // namespace

std::span<const Converter> pointwise_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::ADD, &convert_binary<Op::kAdd, AddOptions>},
      {BuiltinOperator::SUB, &convert_binary<Op::kSub, SubOptions>},
      {BuiltinOperator::MUL, &convert_binary<Op::kMul, MulOptions>},
      {BuiltinOperator::RELU, &convert_relu<Activation::RELU>},
      {BuiltinOperator::RELU6, &convert_relu<Activation::RELU6>},
      {BuiltinOperator::RELU_N1_TO_1, &convert_relu<Activation::RELU_N1_TO_1>},
      {BuiltinOperator::RELU_0_TO_1, &convert_relu_0_to_1},
      {BuiltinOperator::LEAKY_RELU, &convert_leaky_relu},
      {BuiltinOperator::PRELU, &convert_prelu},
      {BuiltinOperator::MAXIMUM, &convert_extremum<BuiltinOperator::MAXIMUM>},
      {BuiltinOperator::MINIMUM, &convert_extremum<BuiltinOperator::MINIMUM>},
      {BuiltinOperator::LOGISTIC, &convert_unary<Op::kSigmoid>},
      {BuiltinOperator::TANH, &convert_unary<Op::kTanh>},
      {BuiltinOperator::HARD_SWISH, &convert_unary<Op::kHardSwish>},
      {BuiltinOperator::GELU, &convert_gelu},
      {BuiltinOperator::SOFTMAX, &convert_softmax},
      {BuiltinOperator::MEAN, &convert_mean},
      {BuiltinOperator::QUANTIZE, &convert_copy},
      {BuiltinOperator::DEQUANTIZE, &convert_dequantize},
      {BuiltinOperator::CAST, &convert_cast},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
