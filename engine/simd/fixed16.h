// Computes numeric/fixed_point_functions_16.h over vectors, equal to the bit. Each lane holds an int16 as an int32_t.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point_functions_16.h"

namespace nacre::inline NACRE_ISA {

template <class V>
struct VectorFixed16 {
  using I = typename V::I;
  using M = typename V::M;

  static I saturated(I v) { return V::max(V::set(int32_t{INT16_MIN}), V::min(V::set(int32_t{INT16_MAX}), v)); }
  static I wrapped(I v) { return V::shift_right(V::shift_left(v, V::set(int32_t{16})), 16); }

  // (p + 2^14) >> 15 rounds ties towards +infinity, as fixed16::times does. Only -1 times -1 exceeds an int16.
  static I times(I a, I b) {
    return V::min(V::set(int32_t{INT16_MAX}), V::shift_right(V::add(V::mul(a, b), V::set(int32_t{1 << 14})), 15));
  }
  static I times(I a, int32_t b) { return times(a, V::set(b)); }

  // Returns raw 2^exponent, saturated. Bounds that are one too large keep the shift within an int32_t.
  static I shift_left(I raw, int exponent) {
    const int32_t limit = 1 << (15 - exponent);
    return saturated(V::shift_left(V::max(V::set(-limit), V::min(V::set(limit), raw)), V::set(int32_t{exponent})));
  }

  // Returns exp(x) for x < 0. For x = 0 the result is another than fixed16's.
  static I exp_of_negative(I x, int integer_bits) {
    constexpr int32_t kFactors[] = {fixed16::constant(1672461947), fixed16::constant(1302514674),
                                    fixed16::constant(790015084),  fixed16::constant(290630308),
                                    fixed16::constant(39332535),   fixed16::constant(720401),
                                    fixed16::constant(242)};
    const int quarter_bits = 13 - integer_bits;  // x is in Qn; 2^quarter_bits is 1/4
    // The low bits of x, less 1/4: r in [-1/4, 0).
    const I low = V::sub(x, V::shift_left(V::shift_right(x, quarter_bits), V::set(int32_t{quarter_bits})));
    const I r = V::sub(low, V::set(int32_t{1 << quarter_bits}));
    I result = exp_of_minus_quarter_to_zero(shift_left(r, integer_bits));
    const I k = wrapped(V::sub(r, x));
    for (int e = -2; e < integer_bits && e <= 4; ++e)
      result = select(bit(k, quarter_bits + 2 + e), times(result, kFactors[e + 2]), result);
    if (integer_bits > 5) result = select(less(x, -(1 << (20 - integer_bits))), V::set(int32_t{0}), result);
    return result;
  }

  static I exp_of_minus_quarter_to_zero(I x) {
    constexpr int32_t kExpMinusEighth = fixed16::constant(1895147668), kThird = fixed16::constant(715827883);
    const I t = V::add(x, V::set(int32_t{1 << 12}));  // within [-1/8, 1/8)
    const I t2 = times(t, t), t3 = times(t2, t), t4 = times(t2, t2);
    const I cubic = times(V::add(halved(t4, 2), t3), kThird), tail = halved(V::add(cubic, t2), 1);
    return saturated(V::add(V::set(kExpMinusEighth), times(V::add(t, tail), kExpMinusEighth)));
  }

  static I twice_reciprocal_of_one_plus(I x) {
    constexpr int32_t k48Over17 = fixed16::constant(1515870810), kMinus32Over17 = fixed16::constant(-1010580540);
    const I d = V::shift_right(V::add(x, V::set(int32_t{INT16_MAX + 1})), 1);
    I z = wrapped(V::add(V::set(k48Over17), times(d, kMinus32Over17)));
    for (int i = 0; i < 3; ++i) {
      const I error = wrapped(V::sub(V::set(int32_t{1 << 13}), times(d, z)));
      z = wrapped(V::add(z, shift_left(times(z, error), 2)));
    }
    return z;
  }

  // Returns 1 / (1 + exp(-x)) in Q0 for x in Q3.
  static I logistic(I x) {
    const I positive = shift_left(twice_reciprocal_of_one_plus(exp_of_negative(minus_magnitude(x), 3)), 1);
    const I result = select(less(x, 0), V::sub(V::set(int32_t{INT16_MAX}), positive), positive);
    return select(zero(x), V::set(int32_t{1 << 14}), result);
  }

  // Returns tanh(x) in Q0 for x in Qn, n = integer_bits in [0, 6].
  static I tanh(I x, int integer_bits) {
    const I twice = twice_reciprocal_of_one_plus(exp_of_negative(minus_magnitude(x), integer_bits + 1));
    const I t = shift_left(wrapped(V::sub(twice, V::set(int32_t{1 << 13}))), 2);
    const I result = select(less(x, 0), wrapped(V::sub(V::set(int32_t{0}), t)), t);
    return select(zero(x), V::set(int32_t{0}), result);
  }

  // Comparisons are those of float32, which is exact for integers below 2^24.
  static M less(I a, int32_t b) { return V::less(V::to_float(a), V::set(float(b))); }
  static I select(M m, I yes, I no) { return V::as_integers(V::select(m, V::as_float(yes), V::as_float(no))); }

 private:
  // Returns rounding_shift_right(v, by) for small v, ties away from zero.
  static I halved(I v, int by) { return V::rounding_shift(v, V::set(int32_t{by})); }
  static I minus_magnitude(I x) { return V::min(x, V::sub(V::set(int32_t{0}), x)); }

  static M zero(I a) { return V::less(V::abs(V::to_float(a)), V::set(1.0f)); }
  static M bit(I a, int index) { return less(V::shift_left(a, V::set(int32_t{31 - index})), 0); }
};

}  // namespace nacre::inline NACRE_ISA
