// Converts arithmetic, comparisons, SELECT, functions, activations, softmaxes, reductions, QUANTIZE, DEQUANTIZE, CAST.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

Node unary(Op op, ValueId x) { return {.op = op, .name = "", .words = {}, .inputs = {x}, .outputs = {}}; }

void check_pair(Importer& importer, const Operation& op, ValueId a, ValueId b) {
  if (importer.value(a).type != importer.value(b).type) importer.bad(op, "its operands have several types");
}

template <Op kOp, class Options>
void convert_binary(Importer& importer, Operation& op) {
  const ValueId a = importer.whole_or_real_input(op, 0), b = importer.whole_or_real_input(op, 1);
  const auto* options = op.record->template builtin_options_as<Options>();
  const Activation activation = options != nullptr ? options->activation() : Activation::NONE;
  check_pair(importer, op, a, b);
  if (activation != Activation::NONE) importer.real_input(op, 0);
  Node node{.op = kOp, .name = "", .words = {}, .inputs = {a, b}, .outputs = {}};
  importer.emit_activated(op, std::move(node), activation);
}

// Adds a binary function. `activation` is DIV's, which alone has one.
void emit_function(Importer& importer, Operation& op, Binary::Function function, Activation activation) {
  const ValueId a = importer.whole_or_real_input(op, 0), b = importer.whole_or_real_input(op, 1);
  check_pair(importer, op, a, b);
  if (activation != Activation::NONE) importer.real_input(op, 0);
  Node node{.op = Op::kBinary, .name = "", .words = {}, .inputs = {a, b}, .outputs = {}};
  set_integer(node, "function", int(function));
  importer.emit_activated(op, std::move(node), activation);
}

void convert_div(Importer& importer, Operation& op) {
  const auto* options = op.record->builtin_options_as<DivOptions>();
  emit_function(importer, op, Binary::kDiv, options != nullptr ? options->activation() : Activation::NONE);
}

template <Binary::Function kFunction>
void convert_two(Importer& importer, Operation& op) {
  emit_function(importer, op, kFunction, Activation::NONE);
}

template <Compare::Function kFunction>
void convert_comparison(Importer& importer, Operation& op) {
  const ValueId a = importer.whole_or_real_input(op, 0), b = importer.whole_or_real_input(op, 1);
  check_pair(importer, op, a, b);
  Node node{.op = Op::kCompare, .name = "", .words = {}, .inputs = {a, b}, .outputs = {}};
  set_integer(node, "function", int(kFunction));
  if (importer.value(importer.output(op)).type != ElementType::kBool) importer.bad(op, "its output has no bools");
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

// Converts SELECT. If its conditions have fewer axes than the operands, it takes rows. Codes are taken unchanged.
void convert_select(Importer& importer, Operation& op) {
  ValueId c = importer.input(op, 0);
  ValueId a = importer.whole_or_real_input(op, 1), b = importer.whole_or_real_input(op, 2);
  check_pair(importer, op, a, b);
  a = with_output_codes(importer, op, a);
  b = with_output_codes(importer, op, b);
  if (importer.value(c).type != ElementType::kBool) importer.bad(op, "a condition that has no bools");
  if (const std::vector<int64_t>& dims = importer.value(c).dims;
      op.code == BuiltinOperator::SELECT && dims.size() < importer.value(a).dims.size()) {
    std::vector<int64_t> rows = dims;
    rows.resize(importer.value(a).dims.size(), 1);
    const ValueId wide = importer.between(c, "/rows");
    importer.emit_reshape(op, c, rows, wide);
    c = wide;
  }
  importer.emit_activated(op, {.op = Op::kSelect, .name = "", .words = {}, .inputs = {a, b, c}, .outputs = {}},
                          Activation::NONE);
}

template <Activation kActivation>
void convert_relu(Importer& importer, Operation& op) {
  importer.emit_activated(op, unary(Op::kClamp, importer.real_input(op, 0)), kActivation);
}

// Returns the node of a clamp to [low, high].
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

template <Unary::Function kFunction>
void convert_function(Importer& importer, Operation& op) {
  Node node = unary(Op::kUnary, importer.real_input(op, 0));
  set_integer(node, "function", int(kFunction));
  if (kFunction == Unary::kElu) set_real(node, "alpha", 1);
  importer.emit_activated(op, std::move(node), Activation::NONE);
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

// Converts PRELU: y = clamp(x, 0, inf) + a clamp(x, -inf, 0), exact in float32. Equal stored slopes make a leaky_relu.
// For codes, each part is rounded as TFLite rounds it, and one of the two is 0.
void convert_prelu(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0), slope = importer.real_input(op, 1);
  if (const Value& a = importer.value(slope); a.constant()) {
    const std::vector<float> slopes = reals(a);
    if (!slopes.empty() && std::all_of(slopes.begin(), slopes.end(), [&](float s) { return s == slopes[0]; })) {
      Node node = unary(Op::kLeakyRelu, x);
      set_real(node, "alpha", slopes[0]);
      return importer.emit_activated(op, std::move(node), Activation::NONE);
    }
  }
  const ValueId y = importer.output(op);
  const ValueId positive = importer.between(y, "/positive"), negative = importer.between(x, "/negative"),
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

// Converts MAXIMUM or MINIMUM. With one stored number that changes no shape, this is a clamp.
template <BuiltinOperator kCode>
void convert_extremum(Importer& importer, Operation& op) {
  ValueId x = importer.whole_or_real_input(op, 0), bound = importer.whole_or_real_input(op, 1);
  if (importer.value(x).constant()) std::swap(x, bound);
  const Value& b = importer.value(bound);
  const bool maximum = kCode == BuiltinOperator::MAXIMUM, real = importer.value(x).type == ElementType::kFloat32;
  if (!real || !b.constant() || importer.value(x).constant() || b.elements() != 1 ||
      b.dims.size() > importer.value(x).dims.size())
    return emit_function(importer, op, maximum ? Binary::kMaximum : Binary::kMinimum, Activation::NONE);
  const float number = reals(b)[0];
  if (std::isnan(number)) importer.bad(op, "a bound that is not a number");
  importer.emit_activated(op, clamp(x, maximum ? number : -kInfinity, maximum ? kInfinity : number), Activation::NONE);
}

template <Op kOp>
void convert_softmax(Importer& importer, Operation& op) {
  Node node = unary(kOp, importer.real_input(op, 0));
  const size_t rank = importer.value(node.inputs[0]).dims.size();
  if (rank == 0) importer.bad(op, "its input has no axis");
  set_integer(node, "axis", int(rank) - 1);
  if (kOp == Op::kSoftmax) set_real(node, "beta", importer.options<SoftmaxOptions>(op).beta());
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

void emit_reduction(Importer& importer, Operation& op, Node node) {
  const size_t rank = importer.value(node.inputs[0]).dims.size();
  int axes = 0;  // bit i: axis i
  for (const int64_t axis : importer.integers(op, 1)) axes |= 1 << importer.axis(op, axis, rank);
  set_integer(node, "axes", axes);
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  set_integer(node, "keep_dims", options != nullptr && options->keep_dims() ? 1 : 0);
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

void convert_mean(Importer& importer, Operation& op) {
  emit_reduction(importer, op, unary(Op::kMean, importer.real_input(op, 0)));
}

template <Reduce::Function kFunction>
void convert_reduction(Importer& importer, Operation& op) {
  reduce_over_axes(importer, op, kFunction);
}

// Converts ARG_MAX or ARG_MIN: the index, int32 or int64 as the output, of the first of equal elements.
template <bool kMinimum>
void convert_arg_max(Importer& importer, Operation& op) {
  Node node = unary(Op::kArgMax, importer.real_input(op, 0));
  const std::vector<int64_t> axis = importer.integers(op, 1);
  if (axis.size() != 1) importer.bad(op, "has another number of axes than one");
  set_integer(node, "axis", importer.axis(op, axis[0], importer.value(node.inputs[0]).dims.size()));
  set_integer(node, "minimum", kMinimum ? 1 : 0);
  const ElementType type = importer.value(importer.output(op)).type;
  if (type != ElementType::kInt32 && type != ElementType::kInt64) importer.bad(op, "its output has no integers");
  importer.emit_activated(op, std::move(node), Activation::NONE);
}

// Converts QUANTIZE, and DEQUANTIZE of an activation, to a copy: real values stay, and the quantizers of x and y
// differ.
void convert_copy(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0), y = importer.output(op);
  if (importer.value(y).type != ElementType::kFloat32)
    importer.unsupported(op, "an output that is neither float32 nor quantized");
  const std::optional<Quantizer>& to = importer.value(y).quantizer;
  if (to && to->codes == ElementType::kInt32 && !importer.value(x).quantizer)
    importer.unsupported(op, "float32 quantized to int32");
  importer.emit_activated(op, unary(Op::kCopy, x), Activation::NONE);
}

// Converts DEQUANTIZE. Decodes a constant (mostly float16 weights) to float32 numbers while reading.
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
  y.source_type = x.stored;
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

void reduce_over_axes(Importer& importer, Operation& op, uint32_t function) {
  Node node = unary(Op::kReduce, importer.real_input(op, 0));
  set_integer(node, "function", int(function));
  emit_reduction(importer, op, std::move(node));
}

std::span<const Converter> pointwise_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::ADD, &convert_binary<Op::kAdd, AddOptions>},
      {BuiltinOperator::SUB, &convert_binary<Op::kSub, SubOptions>},
      {BuiltinOperator::MUL, &convert_binary<Op::kMul, MulOptions>},
      {BuiltinOperator::DIV, &convert_div},
      {BuiltinOperator::POW, &convert_two<Binary::kPow>},
      {BuiltinOperator::SQUARED_DIFFERENCE, &convert_two<Binary::kSquaredDifference>},
      {BuiltinOperator::FLOOR_DIV, &convert_two<Binary::kFloorDiv>},
      {BuiltinOperator::EQUAL, &convert_comparison<Compare::kEqual>},
      {BuiltinOperator::NOT_EQUAL, &convert_comparison<Compare::kNotEqual>},
      {BuiltinOperator::LESS, &convert_comparison<Compare::kLess>},
      {BuiltinOperator::LESS_EQUAL, &convert_comparison<Compare::kLessEqual>},
      {BuiltinOperator::GREATER, &convert_comparison<Compare::kGreater>},
      {BuiltinOperator::GREATER_EQUAL, &convert_comparison<Compare::kGreaterEqual>},
      {BuiltinOperator::SELECT, &convert_select},
      {BuiltinOperator::SELECT_V2, &convert_select},
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
      {BuiltinOperator::EXP, &convert_function<Unary::kExp>},
      {BuiltinOperator::LOG, &convert_function<Unary::kLog>},
      {BuiltinOperator::SQRT, &convert_function<Unary::kSqrt>},
      {BuiltinOperator::RSQRT, &convert_function<Unary::kRsqrt>},
      {BuiltinOperator::ABS, &convert_function<Unary::kAbs>},
      {BuiltinOperator::NEG, &convert_function<Unary::kNeg>},
      {BuiltinOperator::FLOOR, &convert_function<Unary::kFloor>},
      {BuiltinOperator::CEIL, &convert_function<Unary::kCeil>},
      {BuiltinOperator::ROUND, &convert_function<Unary::kRound>},
      {BuiltinOperator::SIGN, &convert_function<Unary::kSign>},
      {BuiltinOperator::SQUARE, &convert_function<Unary::kSquare>},
      {BuiltinOperator::ELU, &convert_function<Unary::kElu>},
      {BuiltinOperator::SIN, &convert_function<Unary::kSin>},
      {BuiltinOperator::COS, &convert_function<Unary::kCos>},
      {BuiltinOperator::SOFTMAX, &convert_softmax<Op::kSoftmax>},
      {BuiltinOperator::LOG_SOFTMAX, &convert_softmax<Op::kLogSoftmax>},
      {BuiltinOperator::SUM, &convert_reduction<Reduce::kSum>},
      {BuiltinOperator::REDUCE_MIN, &convert_reduction<Reduce::kMin>},
      {BuiltinOperator::REDUCE_PROD, &convert_reduction<Reduce::kProd>},
      {BuiltinOperator::ARG_MAX, &convert_arg_max<false>},
      {BuiltinOperator::ARG_MIN, &convert_arg_max<true>},
      {BuiltinOperator::MEAN, &convert_mean},
      {BuiltinOperator::QUANTIZE, &convert_copy},
      {BuiltinOperator::DEQUANTIZE, &convert_dequantize},
      {BuiltinOperator::CAST, &convert_cast},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
