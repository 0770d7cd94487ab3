// Computes b^n by squaring, in float64 and without libm: the same number on every machine.
//
// Squaring doubles the relative error and adds one rounding of 2^-53. So the relative error is at most (n + log2 n)
// 2^-53. For 0 <= b < 1, the error of b^n relative to 1 is at most n b^n 2^-53 <= 2^-53 / (e log(1 / b)).
#pragma once

#include <cstdint>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

// Returns b^n; 1 for n = 0.
constexpr double integer_power(double b, uint32_t n) {
  double power = 1;
  for (; n != 0; n >>= 1, b *= b)
    if ((n & 1) != 0) power *= b;
  return power;
}

}  // namespace nacre::inline NACRE_ISA
