// Requantization multiplies an int32 accumulator by a real multiplier and rounds to an integer. NUMERICS.md section
// 1.
//
// A real multiplier M is stored as {multiplier m, shift s}, M = m * 2^(s - 31), m in [2^30, 2^31) or 0. The converter
// makes the pair (tools/passes), so no double arithmetic is needed here. Pairs come from weights, which are not
// trusted. So every function is defined for every argument, and shifts are masked.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/rounding.h"

// At -Os a function that many kernels call is not inlined. Inlined into each, it would add some 100 bytes to a
// Cortex-M4 image.
#ifdef __OPTIMIZE_SIZE__
#define NACRE_ONE_COPY [[gnu::noinline]]
#else
#define NACRE_ONE_COPY
#endif

namespace nacre::inline NACRE_ISA {

struct FixedPoint {  // one row of a requantization tensor, int32 [channels, 2]
  int32_t multiplier, shift;
};

// Returns round(a * b / 2^31), ties towards +infinity, saturating: SaturatingRoundingDoublingHighMul (gemmlowp
// fixedpoint.h).
NACRE_ONE_COPY constexpr int32_t doubling_high_multiply(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  const int64_t product = int64_t{a} * b;
  return int32_t((product + (product >= 0 ? (int64_t{1} << 30) : 1 - (int64_t{1} << 30))) / (int64_t{1} << 31));
}

// Returns round(x / 2^exponent), ties away from zero, exponent in [0, 31]: RoundingDivideByPOT (gemmlowp
// fixedpoint.h).
NACRE_ONE_COPY constexpr int32_t rounding_shift_right(int32_t x, int exponent) {
  const auto mask = int32_t((uint32_t{1} << (exponent & 31)) - 1);
  const int32_t remainder = x & mask;
  return (x >> (exponent & 31)) + (remainder > (mask >> 1) + (x < 0 ? 1 : 0) ? 1 : 0);
}

constexpr int32_t wrapping_add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
constexpr int32_t wrapping_sub(int32_t a, int32_t b) { return int32_t(uint32_t(a) - uint32_t(b)); }
constexpr int32_t wrapping_shift_left(int32_t a, int shift) { return int32_t(uint32_t(a) << (shift & 31)); }

// Returns x * M, rounded to an integer. NUMERICS.md eq. 2 (kDouble), eq. 3 (kSingle).
template <Rounding kRounding>
NACRE_ONE_COPY constexpr int32_t multiply(int32_t x, FixedPoint scale) {
  if constexpr (kRounding == Rounding::kDouble) {
    const int left = scale.shift > 0 ? int(scale.shift) : 0;
    const int right = scale.shift > 0 ? 0 : int(0u - uint32_t(scale.shift));  // -INT32_MIN would overflow
    return rounding_shift_right(doubling_high_multiply(wrapping_shift_left(x, left), scale.multiplier), right);
  } else {
    static_assert(kRounding == Rounding::kSingle);
    const int total = int((31u - uint32_t(scale.shift)) & 63);  // 1 .. 62 for a shift in [-31, 30]
    const uint64_t half = total > 0 ? uint64_t{1} << (total - 1) : 0;
    return int32_t(int64_t(uint64_t(int64_t{x} * scale.multiplier) + half) >> total);
  }
}

// Returns x * M for a wide accumulator (16x8: int16 activations, int8 weights), |x| < 2^47. NUMERICS.md eq. 23. The
// multiplier is cut to 16 bits first, so this is not `single` on a longer x. Beyond int32 the result wraps.
constexpr int32_t multiply_wide(int64_t x, FixedPoint scale) {
  const int64_t m = scale.multiplier < 0x7FFF0000 ? (int64_t{scale.multiplier} + 0x8000) >> 16 : 0x7FFF;
  const int total = int((15u - uint32_t(scale.shift)) & 63);  // 8 .. 46 for a shift in [-31, 7]
  const uint64_t half = total > 0 ? uint64_t{1} << (total - 1) : 0;
  return int32_t(int64_t(uint64_t(x) * uint64_t(m) + half) >> total);
}

// Does `single` for a wide accumulator, |x| < 2^47, and a shift in [-31, 15]. With x = 2^16 h + l every product fits
// 64 bits.
constexpr int32_t multiply_wide_single(int64_t x, FixedPoint scale) {
  const int total = int((15u - uint32_t(scale.shift)) & 63);
  const uint64_t half = uint64_t{1} << ((total + 15) & 63);
  const uint64_t low = uint64_t(x & 0xFFFF) * uint64_t(int64_t{scale.multiplier}) + half;
  return int32_t(int64_t(uint64_t(x >> 16) * uint64_t(int64_t{scale.multiplier}) + (low >> 16)) >> total);
}

// Returns x rounded to the nearest integer, half to even, saturating to int32. NaN gives 0. It needs no libm and
// works in any rounding mode: the cast truncates exactly, and the rest is exact because x and its whole part are
// neighbours.
template <class T>  // float or double
constexpr int32_t round_half_even(T x) {
  if (!(x > T(-2147483648.0))) return x == x ? INT32_MIN : 0;
  if (x >= T(2147483647.5)) return INT32_MAX;  // the float nearest to 2147483647.5 is 2^31
  const int32_t whole = int32_t(x);            // towards zero
  const T rest = x - T(whole);
  if (rest > T(0.5) || (rest == T(0.5) && (whole & 1) != 0)) return whole + 1;
  if (rest < T(-0.5) || (rest == T(-0.5) && (whole & 1) != 0)) return whole - 1;
  return whole;
}

// Returns x rounded to the nearest integer, half away from zero (std::round), saturating to int32. NaN gives 0.
template <class T>  // float or double
constexpr int32_t round_half_away(T x) {
  if (!(x > T(-2147483648.0))) return x == x ? INT32_MIN : 0;
  if (x >= T(2147483647.5)) return INT32_MAX;  // the float nearest to 2147483647.5 is 2^31
  const int32_t whole = int32_t(x);
  const T rest = x - T(whole);
  return whole + (rest >= T(0.5) ? 1 : 0) - (rest <= T(-0.5) ? 1 : 0);
}

template <Rounding kRounding>
constexpr int32_t round_to_integer(float x) {
  if constexpr (kRounding == Rounding::kHalfAway) return round_half_away(x);
  else return round_half_even(x);
}

// The scale of an epilogue for each rounding: {multiplier, shift} pairs for kDouble and kSingle, float32 for
// kFloatEven.
template <Rounding kRounding>
struct Requant {
  using Stored = int32_t;  // [channels, 2]
  static constexpr int32_t apply(int32_t sum, const int32_t* scale, int channel) {
    return multiply<kRounding>(sum, {scale[2 * channel], scale[2 * channel + 1]});
  }
};
template <>
struct Requant<Rounding::kFloatEven> {
  using Stored = float;  // [channels]
  // Saturates at 2^30, which is beyond all codes; a zero point can still be added.
  static constexpr int32_t apply(int32_t sum, const float* scale, int channel) {
    const float scaled = float(sum) * scale[channel];
    return scaled > 0x1p30f ? 1 << 30 : scaled < -0x1p30f ? -(1 << 30) : round_half_even(scaled);
  }
};

}  // namespace nacre::inline NACRE_ISA
