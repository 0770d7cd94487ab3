// Converts functions of keras.ops that are a formula of a few others, or that are a layer.
#include <numbers>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/functions/functions.h"

namespace nacre::tools::keras {
namespace {

constexpr float kLn2 = std::numbers::ln2_v<float>, kLn10 = std::numbers::ln10_v<float>,
                kDegree = std::numbers::pi_v<float> / 180;

ValueId x_of(const Call& call) { return call.cast(only(call)); }
ValueId log(const Call& call, ValueId x) { return call.unary(Unary::kLog, x); }
ValueId exp(const Call& call, ValueId x) { return call.unary(Unary::kExp, x); }

void ops_log2(Call& call) { call.outputs = {call.scaled(log(call, x_of(call)), 1 / kLn2)}; }
void ops_log10(Call& call) { call.outputs = {call.scaled(log(call, x_of(call)), 1 / kLn10)}; }
void ops_log1p(Call& call) { call.outputs = {log(call, call.shifted(x_of(call), 1))}; }
void ops_exp2(Call& call) { call.outputs = {exp(call, call.scaled(x_of(call), kLn2))}; }
void ops_expm1(Call& call) { call.outputs = {call.shifted(exp(call, x_of(call)), -1)}; }
void ops_erfc(Call& call) {
  call.outputs = {call.emit(Op::kSub, {call.number(1), call.unary(Unary::kErf, x_of(call))})};
}
void ops_radians(Call& call) { call.outputs = {call.scaled(x_of(call), kDegree)}; }
void ops_degrees(Call& call) { call.outputs = {call.scaled(x_of(call), 1 / kDegree)}; }

template <Op kOp>  // gives (e^x + e^-x) / 2, or (e^x - e^-x) / 2 if kOp is kSub
void ops_hyperbolic(Call& call) {
  const ValueId x = x_of(call);
  call.outputs = {call.scaled(call.emit(kOp, {exp(call, x), exp(call, call.unary(Unary::kNeg, x))}), 0.5f)};
}

void ops_tan(Call& call) {
  const ValueId x = x_of(call);
  call.outputs = {call.binary(Binary::kDiv, call.unary(Unary::kSin, x), call.unary(Unary::kCos, x))};
}

void ops_round(Call& call) {
  if (call.integer("decimals", 0) != 0) call.unsupported("decimals");
  call.outputs = {call.unary(Unary::kRound, x_of(call))};
}

void ops_truncate(Call& call) {
  const ValueId x = x_of(call), whole = call.unary(Unary::kFloor, call.unary(Unary::kAbs, x));
  call.outputs = {call.emit(Op::kMul, {call.unary(Unary::kSign, x), whole})};
}

void ops_is_nan(Call& call) {
  const ValueId x = x_of(call);
  call.outputs = {call.compare(Compare::kNotEqual, x, x)};
}
template <uint32_t kFunction>  // compares |x| with infinity
void ops_beside_infinity(Call& call) {
  call.outputs = {call.compare(kFunction, call.unary(Unary::kAbs, x_of(call)), call.number(kInfinity))};
}

// Converts Mod: a - b floor(a / b).
void ops_modulo(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2");
  call.outputs = {call.emit(Op::kSub, {a, call.emit(Op::kMul, {b, call.binary(Binary::kFloorDiv, a, b)})})};
}

// Converts DivideNoNan: a / b, or 0 where b is 0.
void ops_divide_no_nan(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2"), zero = call.number(0);
  call.outputs = {call.select(call.compare(Compare::kEqual, b, zero), zero, call.binary(Binary::kDiv, a, b))};
}

void ops_hypotenuse(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2");
  const ValueId squares = call.emit(Op::kAdd, {call.unary(Unary::kSquare, a), call.unary(Unary::kSquare, b)});
  call.outputs = {call.unary(Unary::kSqrt, squares)};
}

// Converts Logaddexp: max(a, b) + ln(1 + e^-|a - b|).
void ops_log_add_exp(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2");
  const ValueId apart = call.unary(Unary::kNeg, call.unary(Unary::kAbs, call.emit(Op::kSub, {a, b})));
  call.outputs = {
      call.emit(Op::kAdd, {call.binary(Binary::kMaximum, a, b), log(call, call.shifted(exp(call, apart), 1))})};
}

// Converts Ptp: max x - min x over the axes.
void ops_span(Call& call) {
  const ValueId x = x_of(call);
  const std::vector<int> axes = axes_or_all(call, call.rank(x));
  const bool keep = call.flag("keepdims", false);
  call.outputs = {
      call.emit(Op::kSub, {call.reduce(Reduce::kMax, x, axes, keep), call.reduce(Reduce::kMin, x, axes, keep)})};
}

void ops_average(Call& call) {
  const ValueId x = x_of(call);
  if (argument(call, 1, "weights") != nullptr && !argument(call, 1, "weights")->is_null())
    call.unsupported("weights of an average");
  call.outputs = {call.mean(x, axes_or_all(call, call.rank(x)), false)};
}

void ops_full_like(Call& call) {
  const ValueId x = x_of(call), number = real(call, 1, "fill_value");
  call.outputs = {call.select(call.compare(Compare::kEqual, x, x), number, number)};
}

// Converts Threshold: x where it is above the threshold, else default_value.
void ops_threshold(Call& call) {
  const ValueId x = x_of(call), above = call.compare(Compare::kGreater, x, call.number(call.real("threshold", 0)));
  call.outputs = {call.select(above, x, call.number(call.real("default_value", 0)))};
}

// Converts RGBToGrayscale: 0.2989 red + 0.587 green + 0.114 blue.
void ops_grayscale(Call& call) {
  const ValueId x = x_of(call);
  if (call.text("data_format", "channels_last") == "channels_first") call.unsupported("channels_first");
  if (call.dims(x).back() != 3) call.bad("an input of shape " + dims_text(call.dims(x)));
  const ValueId parts = call.emit(Op::kMul, {x, call.constant("colours", {3}, {0.2989f, 0.587f, 0.114f})});
  call.outputs = {call.reduce(Reduce::kSum, parts, {call.rank(x) - 1}, true)};
}

// ---- Layers

void as_layer(Call& call, const std::string& class_name, const Json& config) {
  const Converter* layer = find_converter(class_name);
  if (layer == nullptr) call.unsupported("an input of shape " + dims_text(call.dims(only(call))));
  Call inner = call;
  inner.class_name = class_name;
  inner.inputs = {only(call)};
  inner.config = config;
  layer->convert(inner);
  call.outputs = inner.outputs;
  call.read.merge(inner.read);
}

void ops_pool(Call& call) {
  const std::string kind = call.class_name == "MaxPool" ? "MaxPooling" : "AveragePooling";
  as_layer(call, kind + std::to_string(call.rank(only(call)) - 2) + "D", call.config);
}

void ops_resize(Call& call) {
  const std::vector<int64_t> size = call.integers("size", 2, 1);
  Json config = call.config;
  config["height"] = size[0];
  config["width"] = size[1];
  as_layer(call, "Resizing", config);
}

constexpr Converter kFormulaFunctions[] = {
    {"Log2", &ops_log2},
    {"Log10", &ops_log10},
    {"Log1p", &ops_log1p},
    {"Exp2", &ops_exp2},
    {"Expm1", &ops_expm1},
    {"Erfc", &ops_erfc},
    {"Deg2rad", &ops_radians},
    {"Rad2deg", &ops_degrees},
    {"Sinh", &ops_hyperbolic<Op::kSub>},
    {"Cosh", &ops_hyperbolic<Op::kAdd>},
    {"Tan", &ops_tan},
    {"Round", &ops_round},
    {"Trunc", &ops_truncate},
    {"Isnan", &ops_is_nan},
    {"Isfinite", &ops_beside_infinity<Compare::kLess>},
    {"Isinf", &ops_beside_infinity<Compare::kEqual>},
    {"Mod", &ops_modulo},
    {"DivideNoNan", &ops_divide_no_nan},
    {"Hypot", &ops_hypotenuse},
    {"Logaddexp", &ops_log_add_exp},
    {"Ptp", &ops_span},
    {"Average", &ops_average},
    {"FullLike", &ops_full_like},
    {"Threshold", &ops_threshold},
    {"RGBToGrayscale", &ops_grayscale},
    {"MaxPool", &ops_pool},
    {"AveragePool", &ops_pool},
    {"Resize", &ops_resize},
};

}  // namespace

std::span<const Converter> formula_functions() { return kFormulaFunctions; }

}  // namespace nacre::tools::keras
