// Computes exp, logistic and tanh in 16-bit fixed point, equal to gemmlowp's (fixedpoint/fixedpoint.h with int16_t)
// to the bit. LiteRT's integer LSTM uses those. NUMERICS.md section 3.
//
// Qn has n integer bits, 15 - n fractional bits and a sign: real = raw 2^(n - 15). Every raw is an int32_t that holds
// an int16. Sums wrap to int16 in the same places as gemmlowp's.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"

namespace nacre::inline NACRE_ISA::fixed16 {

constexpr int32_t wrapped(int32_t v) { return int16_t(uint16_t(uint32_t(v))); }
constexpr int32_t saturated(int32_t v) { return v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : v; }

// Returns round(a b / 2^15), ties towards +infinity, saturating: Qa times Qb gives Q(a+b).
constexpr int32_t times(int32_t a, int32_t b) {
  if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
  const int32_t product = a * b;
  return (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

// Returns raw * 2^exponent, saturating.
constexpr int32_t shift_left(int32_t raw, int exponent) {
  const int32_t limit = (1 << (15 - exponent)) - 1;
  return raw > limit ? INT16_MAX : raw < -limit ? INT16_MIN : raw * (1 << exponent);
}

// Rounds a constant, which gemmlowp gives with 31 bits, to 15 bits.
constexpr int32_t constant(int32_t raw_of_32_bits) { return rounding_shift_right(raw_of_32_bits, 16); }

// Returns exp(x) in Q0 for x in [-1/4, 0), Q0. Taylor about -1/8, with t = x + 1/8: e^(-1/8) (1 + t + t^2/2 + t^3/6 +
// t^4/24).
constexpr int32_t exp_of_minus_quarter_to_zero(int32_t x) {
  constexpr int32_t kExpMinusEighth = constant(1895147668), kThird = constant(715827883);
  const int32_t t = wrapped(x + (1 << 12));
  const int32_t t2 = times(t, t), t3 = times(t2, t), t4 = times(t2, t2);
  const int32_t cubic = times(wrapped(rounding_shift_right(t4, 2) + t3), kThird);
  const int32_t tail = rounding_shift_right(wrapped(cubic + t2), 1);  // t^2/2 + t^3/6 + t^4/24
  return saturated(kExpMinusEighth + times(kExpMinusEighth, wrapped(t + tail)));
}

// Returns exp(x) in Q0 for x <= 0 in Qn, n = integer_bits in [1, 7]; 0 below -32. x = r - k/4 with r in [-1/4, 0).
// Each bit of k gives a factor exp(-2^e).
constexpr int32_t exp_of_negative(int32_t x, int integer_bits) {
  constexpr int32_t kFactors[] = {constant(1672461947), constant(1302514674), constant(790015084), constant(290630308),
                                  constant(39332535),   constant(720401),     constant(242)};
  if (x == 0) return INT16_MAX;
  if (integer_bits > 5 && x < -(1 << (20 - integer_bits))) return 0;
  const int fraction_bits = 15 - integer_bits;
  const int32_t quarter = 1 << (fraction_bits - 2), r = (x & (quarter - 1)) - quarter;
  int32_t result = exp_of_minus_quarter_to_zero(shift_left(r, integer_bits));
  const int32_t k = wrapped(r - x);
  for (int e = -2; e < integer_bits && e <= 4; ++e)
    if ((k >> (fraction_bits + e) & 1) != 0) result = times(result, kFactors[e + 2]);
  return result;
}

// Returns 2 / (1 + x) in Q2 for x in [0, 1), Q0, by Newton-Raphson as in fixed_point_functions.h.
constexpr int32_t twice_reciprocal_of_one_plus(int32_t x) {
  constexpr int32_t k48Over17 = constant(1515870810), kMinus32Over17 = constant(-1010580540), kOne = 1 << 13;
  const int32_t d = (x + INT16_MAX + 1) / 2;
  int32_t z = wrapped(k48Over17 + times(d, kMinus32Over17));
  for (int i = 0; i < 3; ++i) {
    const int32_t error = wrapped(kOne - times(d, z));
    z = wrapped(z + shift_left(times(z, error), 2));
  }
  return z;
}

// Returns 1 / (1 + exp(-x)) in Q0 for x in Q3.
constexpr int32_t logistic(int32_t x) {
  if (x == 0) return 1 << 14;
  const int32_t e = exp_of_negative(x > 0 ? -x : x, 3);
  const int32_t positive = shift_left(twice_reciprocal_of_one_plus(e), 1);
  return x > 0 ? positive : INT16_MAX - positive;
}

// Returns tanh(x) in Q0 for x in Qn, n = integer_bits in [0, 6]: (1 - e) / (1 + e) with e = exp(-2 |x|). To double x,
// it reads x as Q(n+1).
constexpr int32_t tanh(int32_t x, int integer_bits) {
  if (x == 0) return 0;
  const int32_t e = exp_of_negative(x > 0 ? -x : x, integer_bits + 1);
  const int32_t t = shift_left(wrapped(twice_reciprocal_of_one_plus(e) - (1 << 13)), 2);
  return x > 0 ? t : wrapped(-t);
}

}  // namespace nacre::inline NACRE_ISA::fixed16
