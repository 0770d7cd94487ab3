// Computes exp, 1 / (1 + x), logistic and tanh in fixed point, equal to gemmlowp's (fixedpoint/fixedpoint.h) to the
// bit. TFLite's int8 softmax, logistic and tanh use those. NUMERICS.md section 3.
//
// Qn.m has n integer bits, m = 31 - n fractional bits and a sign: real = raw 2^-m. Products are
// doubling_high_multiply: Qa times Qb gives Q(a+b). Sums of untrusted numbers may wrap; for valid arguments they do
// not.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"

namespace nacre::inline NACRE_ISA {

// Returns raw * 2^exponent, saturating.
template <int kExponent>
constexpr int32_t saturating_shift_left(int32_t raw) {
  constexpr int32_t kLimit = (int32_t{1} << (31 - kExponent)) - 1;
  return raw > kLimit ? INT32_MAX : raw < -kLimit ? INT32_MIN : wrapping_shift_left(raw, kExponent);
}

// Returns exp(x) in Q0 for x in [-1/4, 0), Q0. Taylor about -1/8, with t = x + 1/8: e^(-1/8) (1 + t + t^2/2 + t^3/6 +
// t^4/24).
constexpr int32_t exp_of_minus_quarter_to_zero(int32_t x) {
  constexpr int32_t kExpMinusEighth = 1895147668;  // exp(-1/8) 2^31
  constexpr int32_t kThird = 715827883;            // 2^31 / 3
  const int32_t t = wrapping_add(x, 1 << 28);
  const int32_t t2 = doubling_high_multiply(t, t);
  const int32_t t3 = doubling_high_multiply(t2, t);
  const int32_t t4 = doubling_high_multiply(t2, t2);
  const int32_t cubic = doubling_high_multiply(wrapping_add(rounding_shift_right(t4, 2), t3), kThird);
  const int32_t tail = rounding_shift_right(wrapping_add(cubic, t2), 1);  // t^2/2 + t^3/6 + t^4/24
  return wrapping_add(kExpMinusEighth, doubling_high_multiply(kExpMinusEighth, wrapping_add(t, tail)));
}

// Returns exp(x) in Q0 for x <= 0 in Qn, n <= 5. x = r - k/4 with r in [-1/4, 0). Each bit of k gives a factor
// exp(-2^e).
template <int kIntegerBits>
constexpr int32_t exp_of_negative(int32_t x) {
  static_assert(kIntegerBits >= 1 && kIntegerBits <= 5);
  constexpr int kFractionBits = 31 - kIntegerBits;
  constexpr int32_t kFactors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  constexpr int32_t kQuarter = int32_t{1} << (kFractionBits - 2);
  if (x == 0) return INT32_MAX;
  const int32_t r = (x & (kQuarter - 1)) - kQuarter;
  int32_t result = exp_of_minus_quarter_to_zero(saturating_shift_left<kIntegerBits>(r));
  const int32_t k = wrapping_sub(r, x);
  for (int e = -2; e < kIntegerBits; ++e)  // exp(-2^e) 2^31
    if ((k >> (kFractionBits + e) & 1) != 0) result = doubling_high_multiply(result, kFactors[e + 2]);
  return result;
}

// Returns 2 / (1 + x) in Q2 for x in [0, 1), Q0. It makes the reciprocal of d = (1 + x) / 2 by Newton-Raphson: z =
// 48/17 - 32/17 d, then three times z = z + z (1 - d z).
constexpr int32_t twice_reciprocal_of_one_plus(int32_t x) {
  constexpr int32_t k48Over17 = 1515870810, kMinus32Over17 = -1010580540;  // Q2
  constexpr int32_t kOne = 1 << 29;                                        // Q2
  const auto d = int32_t((uint32_t(x) + (uint32_t{1} << 31)) >> 1);
  int32_t z = wrapping_add(k48Over17, doubling_high_multiply(d, kMinus32Over17));
  for (int i = 0; i < 3; ++i) {
    const int32_t error = wrapping_sub(kOne, doubling_high_multiply(d, z));
    z = wrapping_add(z, saturating_shift_left<2>(doubling_high_multiply(z, error)));
  }
  return z;
}

// Return 1 / (1 + x) and (1 - x) / (1 + x) in Q0 for x in [0, 1), Q0.
constexpr int32_t reciprocal_of_one_plus(int32_t x) {
  return saturating_shift_left<1>(twice_reciprocal_of_one_plus(x));
}
constexpr int32_t one_minus_over_one_plus(int32_t x) {
  return saturating_shift_left<2>(wrapping_sub(twice_reciprocal_of_one_plus(x), 1 << 29));
}

// Returns 1 / (1 + exp(-x)) in Q0 for x in Qn.
template <int kIntegerBits>
constexpr int32_t logistic(int32_t x) {
  if (x == 0) return 1 << 30;
  const int32_t positive = reciprocal_of_one_plus(exp_of_negative<kIntegerBits>(x > 0 ? wrapping_sub(0, x) : x));
  return x > 0 ? positive : INT32_MAX - positive;
}

// Returns tanh(x) in Q0 for x in Qn: (1 - e) / (1 + e) with e = exp(-2 |x|). To double x, it reads x as Q(n+1).
template <int kIntegerBits>
constexpr int32_t fixed_tanh(int32_t x) {
  if (x == 0) return 0;
  const int32_t t = one_minus_over_one_plus(exp_of_negative<kIntegerBits + 1>(x > 0 ? wrapping_sub(0, x) : x));
  return x > 0 ? t : wrapping_sub(0, t);
}

}  // namespace nacre::inline NACRE_ISA
