// Handles float32 and float64 numbers by their bits, in integer arithmetic alone. A step that trains codes reads a
// learning rate and reports a mean loss. That must not bring a float instruction, or a soft-float call, into a
// firmware without FPU.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

// The number mantissa 2^(exponent - 31) with mantissa in [2^30, 2^31), or 0.
struct ScaledInteger {
  int32_t mantissa, exponent;
};

// Converts the float32 bits of a finite number that is not negative. Returns 0 for others, and for -0.
constexpr ScaledInteger scaled_of_float(uint32_t bits) {
  if (bits >= 0x7F800000u || bits == 0) return {0, 0};
  const int field = int(bits >> 23);
  const uint32_t m = (bits & 0x7FFFFFu) | (field == 0 ? 0 : 0x800000u);  // times 2^(e - 150), e the field, at least 1
  const int zeros = int(std::countl_zero(m));
  return {int32_t(m << zeros >> 1), (field == 0 ? 1 : field) - 118 - zeros};
}

// Converts an integer. It is exact for n below 2^31; a larger n loses its last bit.
constexpr ScaledInteger scaled_of_integer(uint32_t n) {
  if (n == 0) return {0, 0};
  const int zeros = int(std::countl_zero(n));
  return {int32_t(n << zeros >> 1), 32 - zeros};
}

// Returns a / n for n > 0, rounded down to 31 bits. It goes bit by bit, because a 64-bit division would be a library
// call.
constexpr ScaledInteger divided(ScaledInteger a, uint32_t n) {
  if (a.mantissa == 0 || n == 0) return {0, 0};
  const int zeros = int(std::countl_zero(n));
  const uint64_t divisor = uint64_t{n} << zeros;  // n 2^zeros, in [2^31, 2^32)
  uint64_t rest = uint64_t(a.mantissa) << 1;      // in [2^31, 2^32)
  uint32_t quotient = 0;                          // rest / divisor 2^31, in (2^30, 2^32)
  for (int bit = 0; bit < 32; ++bit) {
    quotient <<= 1;
    if (rest >= divisor) rest -= divisor, quotient |= 1;
    rest <<= 1;
  }
  const int carry = int(quotient >> 31);
  return {int32_t(quotient >> carry), a.exponent - 32 + zeros + carry};
}

// Returns the bits of the nearest float32, half to even. A number below the normal numbers gives 0. Exponents are at
// most 128.
constexpr uint32_t float_of_scaled(ScaledInteger v) {
  if (v.mantissa == 0 || v.exponent < -125) return 0;
  const auto m = uint32_t(v.mantissa), whole = m >> 7, rest = m & 127;
  const uint32_t rounded = whole + (rest > 64 || (rest == 64 && (whole & 1) != 0) ? 1 : 0);
  return (uint32_t(v.exponent + 126) << 23) + (rounded - 0x800000u);  // a carry increments the exponent
}

// Converts float64 bits to float32 bits as IEEE 754 does, half to even; NaN stays NaN.
constexpr uint32_t float_of_double(uint64_t bits) {
  const auto sign = uint32_t(bits >> 63) << 31;
  const auto field = int(bits >> 52 & 0x7FF), e = field - 1023 + 127;
  const uint64_t fraction = bits & 0xFFFFFFFFFFFFFu;
  if (field == 0x7FF) return sign | 0x7F800000u | (fraction == 0 ? 0 : 0x400000u | uint32_t(fraction >> 29));
  if (e >= 0xFF) return sign | 0x7F800000u;
  const uint64_t m = e > 0 ? fraction : fraction | uint64_t{1} << 52;
  const int shift = e > 0 ? 29 : 30 - e;
  if (field == 0 || shift > 54) return sign;
  const uint64_t rest = m & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
  const uint32_t code = (e > 0 ? uint32_t(e) << 23 : 0) + uint32_t(m >> shift);
  return sign | (code + (rest > half || (rest == half && (code & 1) != 0) ? 1 : 0));
}

}  // namespace nacre::inline NACRE_ISA
