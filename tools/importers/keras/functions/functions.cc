// Converts functions of keras.ops that a functional model calls on its tensors. Most give the result of numpy's
// function of that name, for fixed shapes. Operands broadcast by numpy's rules.
#include <algorithm>

#include "engine/ops/arg_max.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/functions/functions.h"

namespace nacre::tools::keras {

const Json* argument(const Call& call, size_t i, const char* name) {
  call.read.insert(name);
  if (call.kwargs.is_object() && call.kwargs.contains(name)) return &call.kwargs.at(name);
  return call.args.is_array() && i < call.args.size() ? &call.args.at(i) : nullptr;
}

// Returns the tensors of argument i, or of the argument of that name. call.inputs has those of earlier arguments first.
std::vector<ValueId> tensors_at(const Call& call, size_t i, const char* name) {
  call.read.insert(name);
  if (const auto named = call.keyword.find(name); named != call.keyword.end()) return named->second;
  size_t first = 0, count = 0;
  const auto count_in = [](const Json& json) {
    if (is_operand(json)) return size_t{1};
    return json.is_array() ? size_t(std::count_if(json.begin(), json.end(), is_operand)) : size_t{0};
  };
  for (size_t k = 0; k <= i && k < call.args.size(); ++k) first += count, count = count_in(call.args.at(k));
  if (i >= call.args.size() || first + count > call.inputs.size()) return {};
  return {call.inputs.begin() + std::ptrdiff_t(first), call.inputs.begin() + std::ptrdiff_t(first + count)};
}

ValueId operand(const Call& call, size_t i, const char* name) {
  const std::vector<ValueId> tensors = tensors_at(call, i, name);
  if (tensors.size() == 1) return tensors[0];
  const Json* given = argument(call, i, name);
  if (given == nullptr || !(given->is_number() || given->is_boolean())) call.unsupported("such operands");
  return call.number(given->is_number() ? given->get<float>() : float(given->get<bool>()));
}
std::vector<int> axes_or_all(const Call& call, int rank) {
  std::vector<int> axes;
  for (const int64_t a : call.list("axis")) axes.push_back(call.axis(a, rank));
  for (int i = 0; axes.empty() && i < rank && !call.given("axis"); ++i) axes.push_back(i);
  if (axes.empty()) call.unsupported("no axes");
  return axes;
}

namespace {

template <uint32_t kFunction>
void ops_unary(Call& call) {
  call.outputs = {call.unary(kFunction, call.cast(only(call)))};
}
template <uint32_t kFunction>
void ops_binary(Call& call) {
  call.outputs = {call.binary(kFunction, real(call, 0, "x1"), real(call, 1, "x2"))};
}
template <Op kOp>
void ops_sum(Call& call) {
  call.outputs = {call.emit(kOp, {real(call, 0, "x1"), real(call, 1, "x2")})};
}
template <uint32_t kFunction>
void ops_compare(Call& call) {
  call.outputs = {call.compare(kFunction, real(call, 0, "x1"), real(call, 1, "x2"))};
}
template <uint32_t kFunction>
void ops_reduce(Call& call) {
  const ValueId x = call.cast(only(call));
  if (call.given("initial")) call.unsupported("an initial value");
  call.outputs = {call.reduce(kFunction, x, axes_or_all(call, call.rank(x)), call.flag("keepdims", false))};
}

// Returns the argument as float32: 1 where it is not 0, else 0.
ValueId condition(const Call& call, size_t i, const char* name) {
  return call.cast(as_condition(call, operand(call, i, name)));
}
ValueId is_set(const Call& call, ValueId x) { return call.compare(Compare::kNotEqual, x, call.number(0)); }
template <uint32_t kFunction>  // the minimum of two conditions for "and", the maximum for "or"
void ops_logical(Call& call) {
  call.outputs = {is_set(call, call.binary(kFunction, condition(call, 0, "x1"), condition(call, 1, "x2")))};
}
void ops_logical_xor(Call& call) {
  call.outputs = {call.compare(Compare::kNotEqual, condition(call, 0, "x1"), condition(call, 1, "x2"))};
}
void ops_logical_not(Call& call) {
  call.outputs = {call.compare(Compare::kEqual, condition(call, 0, "x"), call.number(0))};
}
template <uint32_t kFunction>  // the minimum over axes for "all", the maximum for "any"
void ops_any(Call& call) {
  const ValueId x = condition(call, 0, "x");
  call.outputs = {
      is_set(call, call.reduce(kFunction, x, axes_or_all(call, call.rank(x)), call.flag("keepdims", false)))};
}

// Makes a tensor of x's shape filled with kNumber.
template <int kNumber>
void ops_filled_like(Call& call) {
  const ValueId x = call.cast(only(call)), number = call.number(kNumber);
  call.outputs = {call.select(call.compare(Compare::kEqual, x, x), number, number)};
}

void ops_mean(Call& call) {
  const ValueId x = call.cast(only(call));
  call.outputs = {call.mean(x, axes_or_all(call, call.rank(x)), call.flag("keepdims", false))};
}

// Converts Var, mean (x - mean x)^2, or Std, its square root.
template <bool kRoot>
void ops_variance(Call& call) {
  const ValueId x = call.cast(only(call));
  const std::vector<int> axes = axes_or_all(call, call.rank(x));
  const ValueId apart = call.emit(Op::kSub, {x, call.mean(x, axes, true)});
  const ValueId y = call.mean(call.unary(Unary::kSquare, apart), axes, call.flag("keepdims", false));
  call.outputs = {kRoot ? call.unary(Unary::kSqrt, y) : y};
}

// Converts Logsumexp: max x + ln sum e^(x - max x).
void ops_log_sum_exp(Call& call) {
  const ValueId x = call.cast(only(call));
  const std::vector<int> axes = axes_or_all(call, call.rank(x));
  const bool keep = call.flag("keepdims", false);
  const ValueId apart = call.emit(Op::kSub, {x, call.reduce(Reduce::kMax, x, axes, true)});
  const ValueId logs = call.unary(Unary::kLog, call.reduce(Reduce::kSum, call.unary(Unary::kExp, apart), axes, keep));
  call.outputs = {call.emit(Op::kAdd, {logs, call.reduce(Reduce::kMax, x, axes, keep)})};
}

template <bool kMinimum>
void ops_arg_max(Call& call) {
  const ValueId x = call.cast(only(call));
  if (!call.given("axis")) call.unsupported("no axis");
  Node node = call.step(Op::kArgMax, {x});
  set_integer(node, "axis", call.axis(call.integer("axis", -1), call.rank(x)));
  set_integer(node, "keep_dims", call.flag("keepdims", false) ? 1 : 0);
  set_integer(node, "minimum", kMinimum ? 1 : 0);
  call.outputs = {call.emit(std::move(node), ElementType::kInt32)};
}

void ops_matmul(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2");
  if (call.rank(a) < 2 || call.rank(b) < 2) call.unsupported("vectors");
  call.outputs = {call.emit(Op::kBatchedMatmul, {a, b})};
}

void ops_clip(Call& call) {
  call.outputs = {call.clamp(call.cast(only(call)), call.real("x_min", -kInfinity), call.real("x_max", kInfinity))};
}

void ops_where(Call& call) {
  const ValueId condition = as_condition(call, operand(call, 0, "condition"));
  call.outputs = {call.select(condition, real(call, 1, "x1"), real(call, 2, "x2"))};
}

void ops_cast(Call& call) {
  const std::string type = call.text("dtype", "float32");
  const ValueId x = only(call);
  if (type == "bool") call.outputs = {call.cast(x, ElementType::kBool)};
  else if (type == "int32" || type == "int64") call.outputs = {call.cast(x, ElementType::kInt32)};
  else if (type.find("float") != type.npos) call.outputs = {call.cast(x)};
  else call.unsupported("a cast to " + type);
}

void ops_same(Call& call) { call.outputs = {only(call)}; }

void ops_stop_gradient(Call& call) {
  if (call.importer->trains() && !call.importer->options().settled)
    call.refuse("StopGradient", "ends the gradient, which has no form here where it is to be trained");
  ops_same(call);
}

void ops_softmax(Call& call) {
  const ValueId x = call.cast(only(call));
  call.outputs = {call.softmax(x, call.axis(call.integer("axis", -1), call.rank(x)))};
}

void ops_one_hot(Call& call) {
  const ValueId x = call.cast(only(call));
  const int64_t classes = call.integer("num_classes", 0);
  if (classes < 1 || classes > 65536 || call.integer("axis", -1) != -1) call.unsupported("such classes");
  call.spend(classes);
  std::vector<float> numbers;
  for (int64_t i = 0; i < classes; ++i) numbers.push_back(float(i));
  std::vector<int64_t> dims = call.dims(x);
  dims.push_back(1);
  call.outputs = {
      call.cast(call.compare(Compare::kEqual, call.reshape(x, dims), call.constant("classes", {classes}, numbers)))};
}

// Applies an activation of keras.activations, by its name there.
void ops_activation(Call& call) {
  Call layer = call;
  layer.config = Json::object({{"activation", snake_case(call.class_name)}});
  if (call.class_name == "Gelu" && call.flag("approximate", true)) {
    Node node = call.step(Op::kGelu, {call.cast(only(call))});
    set_integer(node, "tanh", 1);
    call.outputs = {call.emit(std::move(node))};
    return;
  }
  for (const char* key : {"alpha", "negative_slope", "threshold", "axis"})
    if (call.given(key) && call.real(key, 0) != (key == std::string("axis")             ? -1
                                                 : key == std::string("negative_slope") ? 0.2f
                                                 : key == std::string("alpha")          ? 1
                                                                                        : 0.5f))
      call.unsupported(std::string(key) + " of its own");
  call.outputs = {activated(layer, call.cast(only(call)))};
}

constexpr Converter kFunctionRows[] = {
    {"Abs", &ops_unary<Unary::kAbs>},
    {"Absolute", &ops_unary<Unary::kAbs>},
    {"Ceil", &ops_unary<Unary::kCeil>},
    {"Cos", &ops_unary<Unary::kCos>},
    {"Erf", &ops_unary<Unary::kErf>},
    {"Exp", &ops_unary<Unary::kExp>},
    {"Floor", &ops_unary<Unary::kFloor>},
    {"Log", &ops_unary<Unary::kLog>},
    {"Negative", &ops_unary<Unary::kNeg>},
    {"Reciprocal", &ops_unary<Unary::kReciprocal>},
    {"Rsqrt", &ops_unary<Unary::kRsqrt>},
    {"Sign", &ops_unary<Unary::kSign>},
    {"Sin", &ops_unary<Unary::kSin>},
    {"Sqrt", &ops_unary<Unary::kSqrt>},
    {"Square", &ops_unary<Unary::kSquare>},
    {"Add", &ops_sum<Op::kAdd>},
    {"Subtract", &ops_sum<Op::kSub>},
    {"Multiply", &ops_sum<Op::kMul>},
    {"Divide", &ops_binary<Binary::kDiv>},
    {"TrueDivide", &ops_binary<Binary::kDiv>},
    {"FloorDivide", &ops_binary<Binary::kFloorDiv>},
    {"Power", &ops_binary<Binary::kPow>},
    {"Maximum", &ops_binary<Binary::kMaximum>},
    {"Minimum", &ops_binary<Binary::kMinimum>},
    {"Equal", &ops_compare<Compare::kEqual>},
    {"NotEqual", &ops_compare<Compare::kNotEqual>},
    {"Less", &ops_compare<Compare::kLess>},
    {"LessEqual", &ops_compare<Compare::kLessEqual>},
    {"Greater", &ops_compare<Compare::kGreater>},
    {"GreaterEqual", &ops_compare<Compare::kGreaterEqual>},
    {"LogicalAnd", &ops_logical<Binary::kMinimum>},
    {"LogicalOr", &ops_logical<Binary::kMaximum>},
    {"LogicalXor", &ops_logical_xor},
    {"LogicalNot", &ops_logical_not},
    {"All", &ops_any<Reduce::kMin>},
    {"Any", &ops_any<Reduce::kMax>},
    {"ZerosLike", &ops_filled_like<0>},
    {"OnesLike", &ops_filled_like<1>},
    {"Mean", &ops_mean},
    {"Sum", &ops_reduce<Reduce::kSum>},
    {"Prod", &ops_reduce<Reduce::kProd>},
    {"Max", &ops_reduce<Reduce::kMax>},
    {"Min", &ops_reduce<Reduce::kMin>},
    {"Amax", &ops_reduce<Reduce::kMax>},
    {"Amin", &ops_reduce<Reduce::kMin>},
    {"Var", &ops_variance<false>},
    {"Std", &ops_variance<true>},
    {"Logsumexp", &ops_log_sum_exp},
    {"Argmax", &ops_arg_max<false>},
    {"Argmin", &ops_arg_max<true>},
    {"Matmul", &ops_matmul},
    {"Clip", &ops_clip},
    {"Where", &ops_where},
    {"Cast", &ops_cast},
    {"Copy", &ops_same},
    {"ConvertToTensor", &ops_same},
    {"StopGradient", &ops_stop_gradient},
    {"Softmax", &ops_softmax},
    {"OneHot", &ops_one_hot},
    {"Relu", &ops_activation},
    {"Relu6", &ops_activation},
    {"Sigmoid", &ops_activation},
    {"Tanh", &ops_activation},
    {"Softplus", &ops_activation},
    {"Softsign", &ops_activation},
    {"Silu", &ops_activation},
    {"LeakyRelu", &ops_activation},
    {"HardSigmoid", &ops_activation},
    {"HardSilu", &ops_activation},
    {"HardTanh", &ops_activation},
    {"Elu", &ops_activation},
    {"Selu", &ops_activation},
    {"Celu", &ops_activation},
    {"Gelu", &ops_activation},
    {"Glu", &ops_activation},
    {"LogSigmoid", &ops_activation},
    {"LogSoftmax", &ops_activation},
    {"Squareplus", &ops_activation},
    {"TanhShrink", &ops_activation},
    {"HardShrink", &ops_activation},
    {"SoftShrink", &ops_activation},
    {"SparsePlus", &ops_activation},
};

}  // namespace

bool is_function(const std::string& module) { return module.starts_with("keras.src.ops") || module == "keras.ops"; }

// Tells a function from a layer of its name. A function has a setting that the layer never has, or lacks one that the
// layer always has.
bool is_function(const std::string& class_name, const Json& config) {
  const auto has = [&](const char* name, const char* key) {
    return class_name == name && config.is_object() && config.contains(key);
  };
  const bool no_layer = find_converter(class_name) == nullptr || has("Reshape", "newshape") || has("Average", "axis") ||
                        (class_name == "Dot" && !has("Dot", "axes"));
  return no_layer && find_function(class_name) != nullptr;
}

const Converter* find_function(const std::string& class_name) {
  for (const auto& rows : {std::span<const Converter>(kFunctionRows), formula_functions(), move_functions(),
                           place_functions(), sum_functions()})
    for (const Converter& row : rows)
      if (class_name == row.class_name) return &row;
  return nullptr;
}

}  // namespace nacre::tools::keras
