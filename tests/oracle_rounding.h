// Rounds to a float format by its definition: a value is a multiple of a quantum that follows from its exponent. This
// file never reads codes, while engine/numeric/small_float.h works on codes only.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/tensor.h"

namespace nacre::test {

struct Format {
  int mantissa_bits, lowest_exponent;  // of a normal number
  double largest;
  bool infinite;  // whether numbers beyond the largest become infinity; else NaN
};

inline Format format_of(ElementType element) {
  switch (element) {
    case ElementType::kFloat16: return {10, -14, 65504, true};
    case ElementType::kBfloat16: return {7, -126, 0x1.FEp127, true};
    case ElementType::kFloat8E4M3: return {3, -6, 448, false};
    case ElementType::kFloat8E5M2: return {2, -14, 57344, true};
    case ElementType::kFloat64: return {52, -1022, std::numeric_limits<double>::max(), true};
    default: return {23, -126, std::numeric_limits<float>::max(), true};
  }
}

// Returns the distance between neighbouring values at v.
inline double quantum(ElementType element, long double v) {
  const Format format = format_of(element);
  int exponent = format.lowest_exponent;
  if (v != 0) exponent = std::max(exponent, std::ilogb(v));
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

// Rounds v to the nearest value of the format, half to even.
inline double round_to(ElementType element, long double v, bool saturate = false) {
  if (!std::isfinite(v))
    return !saturate || std::isnan(v) ? double(v) : std::copysign(format_of(element).largest, double(v));
  const Format format = format_of(element);
  const long double unit = quantum(element, v), rounded = std::nearbyint(v / unit) * unit;
  if (std::abs(rounded) <= format.largest) return double(rounded);
  if (saturate) return std::copysign(format.largest, double(v));
  return std::copysign(
      format.infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN(), double(v));
}

}  // namespace nacre::test
