// apply_policy: the integer forms of ops other than dense, conv and loops over time. Multipliers and words are computed
// as the Prepare functions of TensorFlow Lite Micro or LiteRT do. Comments name their source files.
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/resize.h"
#include "engine/ops/unary.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/lookup_tables.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

// Returns the left shift of codes that are added. 2^15 times a 16-bit code stays within int32.
int left_shift(Codes codes) { return codes.type == ElementType::kInt16 ? 15 : 20; }

// micro/kernels/add_common.cc: inputs are shifted left by n and scaled by s_i / (2 max(s_a, s_b)). The sum is scaled
// by 2 max / (2^n s_y). All in float64.
std::vector<double> add_multipliers(Codes a, Codes b, Codes y) {
  const double twice = 2 * double(std::max(a.scale, b.scale));
  return {double(a.scale) / twice, double(b.scale) / twice, twice / (double(1 << left_shift(y)) * double(y.scale))};
}

// micro/kernels/sub_common.cc: the formula of add_multipliers, in float32. For int16 kForms takes add_multipliers,
// because the golden outputs of TensorFlow Lite Micro's own tests are computed in float64.
std::vector<double> sub_multipliers(Codes a, Codes b, Codes y) {
  const float twice = 2 * std::max(a.scale, b.scale);
  return {double(a.scale / twice), double(b.scale / twice), double(twice / (float(1 << 20) * y.scale))};
}

// micro/kernels/mul_common.cc computes in float64, LiteRT's kernels/mul.cc in float32.
std::vector<double> mul_multipliers(Codes a, Codes b, Codes y) {
  return {double(a.scale) * double(b.scale) / double(y.scale)};
}
std::vector<double> float_mul_multipliers(Codes a, Codes b, Codes y) { return {double(a.scale * b.scale / y.scale)}; }

template <auto Multipliers, auto Litert = Multipliers>
bool write_binary(PolicyPass& pass, Node node, std::string& why) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  if (!pass.coded(x) || !pass.coded(w)) {
    why = "an operand is a constant without codes";
    return false;
  }
  const Codes a = pass.codes(x), b = pass.codes(w), y = pass.codes(node.outputs[0]);
  if (a.type != y.type || b.type != y.type) {
    why = "an operand is a constant with codes of another type";
    return false;
  }
  const auto make = pass.as_litert() ? Litert : Multipliers;
  node.inputs = {pass.as_codes(x), pass.as_codes(w), pass.requant(node, make(a, b, y))};
  set_integer(node, "a_zero", a.zero);
  set_integer(node, "b_zero", b.zero);
  set_integer(node, "y_zero", y.zero);
  if (node.op != Op::kMul) set_integer(node, "left_shift", left_shift(y));
  pass.set_clamp_codes(node, y);
  pass.emit(std::move(node));
  return true;
}

// Rescales x to y by M = s_x / s_y in float64, unless their codes are equal. Sources:
// micro/kernels/activations_common.cc (RELU), reduce_common.cc (MEAN).
void add_rescale(PolicyPass& pass, Node& node) {
  const Codes x = pass.codes(node.inputs[0]), y = pass.codes(node.outputs[0]);
  if (x == y) node.rounding = pass.rounding(node);
  else node.inputs = {node.inputs[0], pass.requant(node, {double(x.scale) / double(y.scale)})};
  set_integer(node, "x_zero", x.zero);
  set_integer(node, "y_zero", y.zero);
}

bool write_clamp(PolicyPass& pass, Node node, std::string&) {
  const Codes y = pass.codes(node.outputs[0]);
  add_rescale(pass, node);
  const int32_t low = bound_code(get_real(node, "low"), y), high = bound_code(get_real(node, "high"), y);
  set_integer(node, "clamp", 1);
  set_integer(node, "low", low);
  set_integer(node, "high", high);
  pass.emit(std::move(node));
  return true;
}

bool write_mean(PolicyPass& pass, Node node, std::string&) {
  add_rescale(pass, node);
  pass.emit(std::move(node));
  return true;
}

// y = table[code of x + 128]. The table holds all 256 results in the arithmetic of TFLite's kernel. `Litert` makes
// LiteRT's table.
template <auto Table, auto Litert = Table>
bool write_lookup(PolicyPass& pass, Node node, std::string&) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const auto make = pass.as_litert() ? Litert : Table;
  const std::array<int8_t, 256> table = make(node, *pass.value(x).quantizer, *pass.value(y).quantizer);
  const ValueId data =
      pass.graph().constant(pass.value(y).name + "/table", {256}, std::vector<int8_t>(table.begin(), table.end()));
  pass.emit(make_step(Op::kLookup, node, node.name, {x, data}, {y}));
  return true;
}

// Tables are rounded half away from zero, as LiteRT's. A file whose codes are rounded half to even has no such table.
// Only calibration gives codes to silu: it is in no file with codes.
bool rounds_as_tables(PolicyPass& pass, const Node& node) {
  return pass.graph().quantize_rounding == Rounding::kHalfAway || node.op == Op::kSilu;
}

// Writes exp, log, elu, gelu, silu or sqrt as a lookup in a table, as TFLite's kernels do. Refuses codes of other
// formats.
bool write_function(PolicyPass& pass, Node node, std::string& why) {
  const auto function = table_function(node);
  const bool root = node.op == Op::kUnary && get_integer(node, "function") == Unary::kSqrt;
  if ((function == nullptr && !root) || !rounds_as_tables(pass, node)) {
    why = kNoIntegerForm;
    return false;
  }
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const Quantizer &from = *pass.value(x).quantizer, &to = *pass.value(y).quantizer;
  const std::array<int8_t, 256> table = root ? square_root_table(from, to) : function_table(function, from, to);
  const ValueId data =
      pass.graph().constant(pass.value(y).name + "/table", {256}, std::vector<int8_t>(table.begin(), table.end()));
  pass.emit(make_step(Op::kLookup, node, node.name, {x, data}, {y}));
  return true;
}

// Writes a function of int16 codes as LiteRT computes it: by linear interpolation between 513 points.
bool write_points(PolicyPass& pass, Node node, std::string& why) {
  const auto function = table_function(node);
  if (function == nullptr || pass.graph().quantize_rounding != Rounding::kHalfAway) {
    why = kNoIntegerForm;
    return false;
  }
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const ValueId data = pass.graph().constant(pass.value(y).name + "/table", {513},
                                             function_points(function, pass.codes(x).scale, pass.codes(y).scale));
  pass.emit(make_step(Op::kLookup, node, node.name, {x, data}, {y}));
  return true;
}

// kernels/batch_matmul.cc: M = s_a s_b / s_y, with s_a s_b in float32. Refuses codes of other formats than TFLite.
bool write_batched_matmul(PolicyPass& pass, Node node, std::string& why) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  const auto one_scale = [&](ValueId id) { return pass.coded(id) && pass.value(id).quantizer->scale.size() == 1; };
  if (pass.graph().quantize_rounding != Rounding::kHalfAway || !one_scale(x) || !one_scale(w)) {
    why = kNoIntegerForm;
    return false;
  }
  const Codes a = pass.codes(x), b = pass.codes(w), y = pass.codes(node.outputs[0]);
  if (b.type != a.type) {
    why = "an operand is a constant with codes of another type";
    return false;
  }
  node.inputs = {pass.as_codes(x), pass.as_codes(w), pass.requant(node, {double(a.scale * b.scale) / double(y.scale)})};
  set_integer(node, "a_zero", a.zero);
  set_integer(node, "b_zero", b.zero);
  set_integer(node, "y_zero", y.zero);
  pass.emit(std::move(node));
  return true;
}

// kernels/squared_difference.cc, with t = 2 max(s_a, s_b): d = 2^7 (a - zero_a) M_a - 2^7 (b - zero_b) M_b, M = s / t.
// d fits into int16. y = d d (t 2^-7)^2 / s_y. Each step keeps its whole result.
bool write_squared_difference(PolicyPass& pass, Node node, std::string& why) {
  constexpr int kShift = 7;
  const ValueId x = node.inputs[0], w = node.inputs[1], y = node.outputs[0];
  const bool squares = get_integer(node, "function") == Binary::kSquaredDifference && pass.coded(x) && pass.coded(w);
  if (pass.graph().quantize_rounding != Rounding::kHalfAway || !squares) {
    why = kNoIntegerForm;
    return false;
  }
  const float a = pass.codes(pass.as_codes(x)).scale, b = pass.codes(pass.as_codes(w)).scale, s = pass.codes(y).scale;
  const double twice = 2 * double(std::max(a, b)), unit = std::ldexp(twice, -kShift);
  const auto wide = [](float scale) { return Quantizer{ElementType::kInt16, {scale}, {0}, 0}; };
  const auto made = [&](const char* name, float scale) {
    const ValueId id = pass.like(y, name, ElementType::kInt16);
    pass.value(id).quantizer = wide(scale);
    return id;
  };
  const ValueId difference = made("/difference", float(unit)), square = made("/square", s);
  Node sub = make_step(Op::kSub, node, node.name + "/sub",
                       {pass.with_codes(node, x, wide(a)), pass.with_codes(node, w, wide(b))}, {difference});
  sub.inputs.push_back(pass.requant(sub, {double(a) / twice, double(b) / twice, 1}));
  set_integer(sub, "left_shift", kShift);
  pass.emit(std::move(sub));
  Node mul = make_step(Op::kMul, node, node.name, {difference, difference}, {square});
  mul.inputs.push_back(pass.requant(mul, {unit * unit / double(s)}));
  pass.emit(std::move(mul));
  pass.requantize(node, square, y);
  return true;
}

// micro/kernels/leaky_relu_common.cc: products and quotients of scales are in float32, as in lookup_tables.cc.
bool write_leaky_relu(PolicyPass& pass, Node node, std::string& why) {
  const float x = pass.codes(node.inputs[0]).scale, y = pass.codes(node.outputs[0]).scale;
  const double slope = double(x * get_real(node, "alpha") / y);
  if (!(slope >= 0)) {  // no multiplier in a model file is negative
    why = "its alpha is negative";
    return false;
  }
  node.inputs = {node.inputs[0], pass.requant(node, {double(x / y), slope})};
  pass.emit(std::move(node));
  return true;
}

// micro/kernels/softmax_common.cc and PreprocessSoftmaxScaling, CalculateInputRadius (quantization_util.cc):
// differences of codes are scaled to 5 integer bits. With single rounding the bound 2^31 - 1 is 2^30 - 1.
//
//   M = min(beta s_x 2^26, 2^31 - 1)     diff_min = -floor(31 * 2^26 / 2^shift)
constexpr int kSoftmaxIntegerBits = 5;

// Returns whether y is coded as softmax must be. The scale of int16 codes must be within 0.1% of 1/65536, as TFLite
// asks.
bool is_coded_as_softmax(Codes y) {
  if (y.type == ElementType::kInt16) return y.zero == -32768 && std::abs(y.scale * 65536 - 1) <= 0.001f;
  return y == Codes{1.0f / 256, -128};
}

std::string refusal_of_softmax(PolicyPass& pass, const Node& node, double multiplier) {
  if (!is_coded_as_softmax(pass.codes(node.outputs[0])))
    return "its output is not coded as TFLite's softmax codes it (scale 1/256, zero -128)";
  const std::string why = integer_refusal(pass.graph(), node);
  return !why.empty() || multiplier > 1 ? why : "its scale is too small for fixed point";
}

bool write_softmax(PolicyPass& pass, Node node, std::string& why) {
  constexpr int kFractionBits = 31 - kSoftmaxIntegerBits;
  const double real =
      double(get_real(node, "beta")) * double(pass.codes(node.inputs[0]).scale) * double(1 << kFractionBits);
  why = refusal_of_softmax(pass, node, real);
  if (why.empty() && pass.as_litert()) why = "LiteRT's softmax of int8 works in float32";
  if (!why.empty()) return false;
  node.rounding = pass.rounding(node);
  const double most = double(node.rounding == Rounding::kSingle ? INT32_MAX / 2 : INT32_MAX);
  const FixedPoint m = quantize_multiplier(std::min(real, most));
  const double radius = double((1 << kSoftmaxIntegerBits) - 1) * double(1 << kFractionBits) / std::ldexp(1.0, m.shift);
  set_integer(node, "multiplier", m.multiplier);
  set_integer(node, "shift", m.shift);
  set_integer(node, "diff_min", -int(std::floor(radius)));
  pass.emit(std::move(node));
  return true;
}

// Returns whether the output has int16 codes in units of 2^-15.
bool is_coded_as_fraction(const PolicyPass& pass, const Node& node, std::string& why) {
  if (pass.codes(node.outputs[0]) == Codes{1.0f / 32768, 0, ElementType::kInt16}) return true;
  why = "its output is not coded as TFLite codes it in 16 bits (scale 1/32768, zero 0)";
  return false;
}

// kernels/activations.cc: x is in units of 1 / 12288, by a multiplier of 15 bits that is truncated, not rounded.
bool write_curve(PolicyPass& pass, Node node, std::string& why) {
  if (!is_coded_as_fraction(pass, node, why)) return false;
  double real = double(pass.codes(node.inputs[0]).scale) * 12288;
  int shift = 0;
  for (; real <= 32767.0 / 2 && shift <= 30; ++shift) real *= 2;
  if (real > 32767) {
    why = "its scale is too large for fixed point";
    return false;
  }
  node.rounding = Rounding::kDouble;
  set_integer(node, "multiplier", int(real));
  set_integer(node, "shift", shift);
  node.inputs.push_back(pass.graph().constant(pass.value(node.outputs[0]).name + "/table", {256}, sigmoid_points()));
  pass.emit(std::move(node));
  return true;
}

// kernels/activations.cc, SoftmaxPrepare: differences are in units of 10 / 65535.
bool write_softmax_int16(PolicyPass& pass, Node node, std::string& why) {
  const std::vector<int64_t>& dims = pass.value(node.inputs[0]).dims;
  const double real = double(pass.codes(node.inputs[0]).scale * get_real(node, "beta")) / (10.0 / 65535.0);
  if (!is_coded_as_fraction(pass, node, why)) return false;
  if (get_integer(node, "axis") != int(dims.size()) - 1 || dims.back() > 65535) {
    why = "its axis is not the last, or it has more than 65535 classes";
    return false;
  }
  const FixedPoint scale = quantize_multiplier(real);
  node.rounding = Rounding::kDouble;
  set_integer(node, "multiplier", scale.multiplier);
  set_integer(node, "shift", scale.shift);
  const std::string name = pass.value(node.outputs[0]).name + "/tables";
  node.inputs.push_back(pass.graph().constant(name, {2, 513}, softmax_points()));
  pass.emit(std::move(node));
  return true;
}

// Emits a reshape, transpose or slice, which moves the codes of x unchanged.
bool write_same(PolicyPass& pass, Node node, std::string&) {
  pass.emit(std::move(node));
  return true;
}

bool write_pool(PolicyPass& pass, Node node, std::string& why) {
  why = integer_refusal(pass.graph(), node);
  if (!why.empty()) return false;
  if (node.op == Op::kAveragePool && pass.of_uint8(node.inputs[0])) {
    write_uint8_average(pass, std::move(node));
    return true;
  }
  pass.set_clamp_codes(node, pass.codes(node.outputs[0]));
  pass.emit(std::move(node));
  return true;
}

// Writes a resize, whose weights become integers in units of 2^-10 (resize.h). The magnitudes of the weights of one
// output must sum to less than 2, or the sum of int8 products could wrap.
bool write_resize(PolicyPass& pass, Node node, std::string& why) {
  if (node.inputs.size() > Resize::kRowWeights && pass.of_uint8(node.inputs[0])) {
    write_uint8_resize(pass, std::move(node));
    return true;
  }
  for (size_t slot = Resize::kRowWeights; slot < node.inputs.size(); ++slot) {
    ValueId& id = node.inputs[slot];
    if (id == kNone) continue;
    const auto taps = size_t(pass.value(id).dims.back());
    std::vector<int32_t> units;
    float sum = 0;
    for (const float w : reals(pass.value(id))) {
      sum = units.size() % taps == 0 ? std::abs(w) : sum + std::abs(w);
      if (!(sum < 2)) {
        why = "the weights of an output sum to 2 or more";
        return false;
      }
      units.push_back(int32_t(std::lround(std::ldexp(w, Resize::kFraction))));
    }
    id = pass.graph().constant(pass.value(id).name + "/units", pass.value(id).dims, units);
  }
  pass.emit(std::move(node));
  return true;
}

// Writes a pad. First converts x to the codes of y, because the padding value may have no code in the codes of x.
bool write_pad(PolicyPass& pass, Node node, std::string&) {
  const ValueId y = node.outputs[0];
  if (pass.codes(node.inputs[0]) != pass.codes(y)) {
    const Quantizer to = *pass.value(y).quantizer;
    node.inputs[0] = pass.with_codes(node, node.inputs[0], to);
  }
  set_integer(node, "value", bound_code(get_real(node, "value"), pass.codes(y)));
  pass.emit(std::move(node));
  return true;
}

// Writes a concat. First converts inputs that have other codes to the codes of y.
bool write_concat(PolicyPass& pass, Node node, std::string& why) {
  const Value& y = pass.value(node.outputs[0]);
  for (const ValueId id : node.inputs)
    if (!pass.coded(id) || pass.codes(id).type != y.type) {
      why = "an input is a constant without codes of its type";
      return false;
    }
  const Quantizer to = *y.quantizer;
  for (ValueId& id : node.inputs) {
    pass.as_codes(id);
    if (pass.codes(id) == pass.codes(node.outputs[0])) continue;
    id = pass.of_uint8(id) ? uint8_with_codes(pass, node, id, to) : pass.with_codes(node, id, to);
  }
  pass.emit(std::move(node));
  return true;
}

constexpr IntegerForm kForms[] = {
    {Op::kAveragePool, &write_pool},
    {Op::kMaxPool, &write_pool},
    {Op::kResize, &write_resize},
    {Op::kAdd, &write_binary<&add_multipliers>},
    {Op::kSub, &write_binary<&sub_multipliers>, &write_binary<&add_multipliers>},
    {Op::kMul, &write_binary<&mul_multipliers, &float_mul_multipliers>},
    {Op::kClamp, &write_clamp},
    {Op::kLeakyRelu, &write_lookup<&leaky_relu>, &write_leaky_relu},
    {Op::kSigmoid, &write_lookup<&sigmoid, &float_sigmoid>, &write_curve},
    {Op::kTanh, &write_lookup<&tanh, &float_tanh>, &write_curve},
    {Op::kHardSwish, &write_lookup<&hard_swish>, nullptr},
    {Op::kUnary, &write_function, &write_points},
    {Op::kGelu, &write_function, &write_points},
    {Op::kSilu, &write_function, nullptr},
    {Op::kBatchedMatmul, &write_batched_matmul},
    {Op::kBinary, &write_squared_difference, nullptr},
    {Op::kSoftmax, &write_softmax, &write_softmax_int16},
    {Op::kMean, &write_mean},
    {Op::kReshape, &write_same},
    {Op::kTranspose, &write_same},
    {Op::kConcat, &write_concat},
    {Op::kPad, &write_pad},
    {Op::kSlice, &write_same},
};

}  // namespace

const IntegerForm* find_integer_form(Op op) {
  const auto* found =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const IntegerForm& form) { return form.op == op; });
  return found == std::end(kForms) ? nullptr : found;
}

}  // namespace nacre::tools
