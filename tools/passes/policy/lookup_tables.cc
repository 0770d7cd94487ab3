#include "tools/passes/policy/lookup_tables.h"

#include <algorithm>
#include <cmath>

#include "engine/numeric/fixed_point_functions.h"
#include "engine/ops/unary.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

int8_t saturate_int8(int64_t v) { return int8_t(std::clamp<int64_t>(v, -128, 127)); }
int16_t saturate_int16(int64_t v) { return int16_t(std::clamp<int64_t>(v, INT16_MIN, INT16_MAX)); }

// Returns the table of f(code - zero) for all 256 codes.
template <class F>
LookupTable table_of(int zero, F f) {
  LookupTable table;
  for (int code = -128; code <= 127; ++code) table[size_t(code + 128)] = f(code - zero);
  return table;
}

bool coded_as(const Quantizer& y, float scale, int zero) { return y.scale[0] == scale && y.zero[0] == zero; }

// micro/kernels/{logistic_common,tanh}.cc: x is in Q4.27. Beyond 15 the function is at its limit.
constexpr int kInputIntegerBits = 4;

template <class F>
LookupTable saturating_function(const Quantizer& x, F f) {
  int shift = 0;
  const double q = std::frexp(double(x.scale[0]) * double(1 << (31 - kInputIntegerBits)), &shift);
  const FixedPoint scale = {int32_t(std::round(q * double(int64_t{1} << 31))), shift};  // exact: a float32 has 24 bits
  const double radius =
      std::floor(std::ldexp(double((1 << kInputIntegerBits) - 1) * double(1 << (31 - kInputIntegerBits)), -shift));
  return table_of(int(x.zero[0]), [&](int difference) -> int8_t {
    if (double(difference) <= -radius) return -128;
    if (double(difference) >= radius) return 127;
    return saturate_int8(f(multiply<Rounding::kDouble>(difference, scale)));
  });
}

int16_t doubling_high_multiply_16(int16_t a, int16_t b) {  // round(a b / 2^15), like the 32-bit function
  if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
  const int32_t product = int32_t{a} * b;
  return int16_t((product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15));
}

int16_t truncated_high_multiply_16(int16_t a, int16_t b) {
  if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
  return int16_t(int32_t{a} * b / (1 << 15));
}

struct FixedPoint16 {
  int16_t multiplier;
  int shift;
};

FixedPoint16 quantize_multiplier_16(double real) {
  const FixedPoint pair = quantize_multiplier(real);
  constexpr int32_t kHalf = 1 << 15;
  return {pair.multiplier >= INT32_MAX - kHalf ? int16_t{INT16_MAX} : int16_t((pair.multiplier + kHalf) >> 16),
          int(pair.shift)};
}

// Returns x / 3, saturated to [-1, 1], in Q0.15. In kernels/internal/reference/hard_swish.h the last doubling
// saturates, which hides earlier overflows.
int16_t relu_ish(int16_t x, FixedPoint16 scale) {
  if (scale.shift > 0) x = saturate_int16(int64_t{x} << std::min(scale.shift - 1, 32));
  x = doubling_high_multiply_16(x, scale.multiplier);
  if (scale.shift > 0) return saturate_int16(int64_t{x} * 2);
  return int16_t(rounding_shift_right(x, std::min(-scale.shift, 31)));
}

float sigmoid_of(float v) { return 1 / (1 + std::exp(-v)); }
float tanh_of(float v) { return std::tanh(v); }
float exp_of(float v) { return std::exp(v); }
constexpr float kLowest = -1e30f;  // becomes the lowest code
float log_of(float v) { return v > 0 ? std::log(v) : kLowest; }
float elu_of(float v) { return v < 0 ? std::expm1(v) : v; }
float gelu_of(float v) { return 0.5f * v * std::erfc(v * -0.70710678118654752f); }  // 1 / sqrt(2)
float gelu_tanh_of(float v) {                                                       // sqrt(2 / pi)
  return 0.5f * v * (1 + std::tanh(0.79788456080286536f * (v + 0.044715f * v * v * v)));
}
float silu_of(float v) { return v * sigmoid_of(v); }
float hard_swish_of(float v) { return v * std::min(6.0f, std::max(0.0f, v + 3)) / 6; }

}  // namespace

LookupTable sigmoid(const Node&, const Quantizer& x, const Quantizer& y) {
  if (!coded_as(y, 1.0f / 256, -128)) return function_table(&sigmoid_of, x, y);
  return saturating_function(
      x, [](int32_t v) { return rounding_shift_right(logistic<kInputIntegerBits>(v), 31 - 8) - 128; });
}

LookupTable tanh(const Node&, const Quantizer& x, const Quantizer& y) {
  if (!coded_as(y, 1.0f / 128, 0)) return function_table(&tanh_of, x, y);
  return saturating_function(x,
                             [](int32_t v) { return rounding_shift_right(fixed_tanh<kInputIntegerBits>(v), 31 - 7); });
}

LookupTable float_sigmoid(const Node&, const Quantizer& x, const Quantizer& y) {
  return function_table(&sigmoid_of, x, y);
}
LookupTable float_tanh(const Node&, const Quantizer& x, const Quantizer& y) { return function_table(&tanh_of, x, y); }

// micro/kernels/hard_swish_common.cc: x times 2^7 in 16 bits. Before its shift y is this x times min(max(x / 6 + 1/2,
// 0), 1).
LookupTable hard_swish(const Node&, const Quantizer& x, const Quantizer& y) {
  const float fine = (1.0f / 128.0f) * x.scale[0];
  const FixedPoint16 output = quantize_multiplier_16(double(fine / y.scale[0]));
  const FixedPoint16 third = quantize_multiplier_16(double(fine / (3.0f / 32768.0f)));
  if (output.shift > 0) return function_table(&hard_swish_of, x, y);
  return table_of(int(x.zero[0]), [&](int difference) {
    const auto fine_x = int16_t(difference * (1 << 7));
    const int16_t preshift = doubling_high_multiply_16(fine_x, output.multiplier);
    const auto gate = int16_t((relu_ish(fine_x, third) + (1 << 15)) >> 1);
    const int32_t code = rounding_shift_right(truncated_high_multiply_16(gate, preshift), std::min(-output.shift, 31));
    return saturate_int8(code + y.zero[0]);
  });
}

// micro/kernels/leaky_relu_common.cc: products and quotients of scales are in float32.
LookupTable leaky_relu(const Node& node, const Quantizer& x, const Quantizer& y) {
  const FixedPoint identity = quantize_multiplier(double(x.scale[0] / y.scale[0]));
  const FixedPoint slope = quantize_multiplier(double(x.scale[0] * get_real(node, "alpha") / y.scale[0]));
  return table_of(int(x.zero[0]), [&](int difference) {
    return saturate_int8(multiply<Rounding::kDouble>(difference, difference >= 0 ? identity : slope) + y.zero[0]);
  });
}

namespace {

// kernels/internal/common.h, LUTPopulate<int16_t>, computed in F: point i is f there, minus half the amount by which
// the middle of the line to the next point lies above the curve. Every step is rounded, half away from zero. `low` and
// `high` are the ends of x.
template <class F, class T, class Function>
void add_points(std::vector<T>& points, F low, F high, F y_scale, Function f) {
  constexpr int kSteps = 512;
  const F step = (high - low) / kSteps, inverse = 65536 / (y_scale * INT16_MAX - y_scale * INT16_MIN);
  const auto code = [](F v) { return T(std::clamp(v, F(INT16_MIN), F(INT16_MAX))); };
  for (int i = 0; i < kSteps; ++i) {
    const F x = low + F(i) * step;
    const F at = f(x), next = f(low + F(i + 1) * step), middle = f(x + step / 2);
    const F here = std::round(at * inverse), line = std::round((next * inverse + here) / 2);
    points.push_back(code(here - std::round((line - std::round(middle * inverse)) / 2)));
  }
  points.push_back(code(std::round(f(high) * inverse)));
}

}  // namespace

std::vector<int32_t> softmax_points() {
  constexpr double kExp = 10.0 / 65535, kQuotient = 1.0 / 65535, kY = 2.0 / 65535;
  std::vector<int32_t> points;
  add_points(points, kExp * (INT16_MIN - INT16_MAX), 0.0, kY, [](double x) { return std::exp(x); });
  add_points(points, 0.0, kQuotient * (INT16_MAX - INT16_MIN), kY, [](double x) { return 1 / (1 + x); });
  return points;
}

float (*table_function(const Node& node))(float) {
  if (node.op == Op::kGelu) return get_integer(node, "tanh") != 0 ? &gelu_tanh_of : &gelu_of;
  if (node.op == Op::kSilu) return &silu_of;
  switch (get_integer(node, "function")) {
    case Unary::kExp: return &exp_of;
    case Unary::kLog: return &log_of;
    case Unary::kElu: return get_real(node, "alpha") == 1 ? &elu_of : nullptr;
    default: return nullptr;
  }
}

// PopulateLookupTable (kernels/internal/common.h) of TFLite's optimised kernels. It multiplies by 1 / scale_y.
LookupTable function_table(float (*f)(float), const Quantizer& x, const Quantizer& y) {
  const float inverse = 1 / y.scale[0];
  return table_of(int(x.zero[0]), [&](int difference) {
    return saturate_int8(int64_t{round_half_away(f(x.scale[0] * float(difference)) * inverse)} + y.zero[0]);
  });
}

// kernels/elementwise.cc, SqrtEvalQuantized: truncates, does not round.
LookupTable square_root_table(const Quantizer& x, const Quantizer& y) {
  return table_of(int(x.zero[0]), [&](int difference) {
    const float root = difference > 0 ? std::sqrt(x.scale[0] * float(difference)) / y.scale[0] : 0.0f;
    return saturate_int8(int64_t(root) + y.zero[0]);
  });
}

std::vector<int16_t> function_points(float (*f)(float), float x_scale, float y_scale) {
  const float lowest = y_scale * INT16_MIN;
  std::vector<int16_t> points;
  add_points(points, x_scale * INT16_MIN, x_scale * INT16_MAX, y_scale, [&](float x) {
    const float y = f(x);
    return y == kLowest ? lowest : y;
  });
  return points;
}

}  // namespace nacre::tools
