// Keras' abs-max quantization makes int8 and int4 codes with a scale that multiplies. NUMERICS.md section 7.
//
//   scale = high / (amax + epsilon),   q = clip(round_half_even(x * scale), low, high),   x ~ q / scale
//
// All operations are in T (float, double, Float16 or Bfloat16), each rounded to T. The caller loops over rows and
// channels.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"
#include "engine/numeric/rounded.h"

namespace nacre::inline NACRE_ISA {

// The least and the greatest code.
struct CodeRange {
  int low, high;
};
inline constexpr CodeRange kInt8Range = {-127, 127};  // -128 never occurs
inline constexpr CodeRange kInt4Range = {-8, 7};      // nor does -8, because the scale is 7 / amax

inline constexpr double kAbsMaxEpsilon = 1e-7;  // keras.config.epsilon()

// Returns max_i |x_i|; NaN if any x is NaN.
template <class T>
constexpr T absmax(std::span<const T> x) {
  using Wide = typename Rounded<T>::Wide;
  Wide amax = 0;
  for (const T& v : x) {
    const Wide size = Wide(v) < 0 ? -Wide(v) : Wide(v);
    if (!(size <= amax)) amax = amax != amax ? amax : size;
  }
  return T(amax);
}

// Returns the scale, which multiplies: high / (amax + 1e-7).
template <class T>
constexpr T absmax_scale(T amax, CodeRange range) {
  using R = Rounded<T>;
  return (R::of(range.high) / (R(amax) + R::of(kAbsMaxEpsilon))).value;
}

// Returns the code of x. NaN gives 0.
template <class T>
constexpr int8_t absmax_code(T x, T scale, CodeRange range) {
  const int32_t code = round_half_even((Rounded<T>(x) * Rounded<T>(scale)).wide());
  return int8_t(code < range.low ? range.low : code > range.high ? range.high : code);
}

// Writes q of x with one scale for all, and returns the scale. q has at least x.size() codes.
template <class T>
constexpr T absmax_quantize(std::span<const T> x, std::span<int8_t> q, CodeRange range) {
  const T scale = absmax_scale<T>(absmax<T>(x), range);
  for (size_t i = 0; i < x.size(); ++i) q[i] = absmax_code<T>(x[i], scale, range);
  return scale;
}

// Returns the number that a code means: q / scale.
template <class T>
constexpr T absmax_value(int8_t q, T scale) {
  return (Rounded<T>::of(q) / Rounded<T>(scale)).value;
}

}  // namespace nacre::inline NACRE_ISA
