// Computes functions of real numbers over vectors V (vec.h), for float32. NaN gives NaN. But for the limits in the
// table, results beyond float32 are infinite, and results below its normal numbers lose digits gradually. Only erf
// keeps the sign of a 0.
//
// The table gives the largest difference from float64, in units of the last place of the exact result. It holds with
// and without a fused multiply-add (tests/claims/vector_functions.cc measures it over a part of all float32 numbers):
//
//   exp        1.1    e^x
//   expm1      1.2    e^x - 1, for x <= 25; above, the value at 25
//   log        0.9    ln x
//   log1p      1.8    ln(1 + x), for x in [0, 1]; also ln(1 + e^-x)
//   sigmoid    2.5    1 / (1 + e^-x); 0 if e^-x is infinite, which it is for x below -88.72
//   tanh       2.6
//   erf        1.7
//   sine       2.3    sin x and cos x, for |x| <= 8192
//
//   erfc_scaled       e^(x^2) (1 - erf x), for x in [0, 10.3]; finite above. erf and gelu use it. The relative error of
//                     gelu grows with x^2, as that of e^(-x^2 / 2) does
//
// The polynomials are minimax, made by Remez exchange in 40 digits and rounded to float32; those of sine are taken
// from Cephes. The bound on the error of each is in the comment of its function.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

template <class V>
struct VectorMath {
  using F = typename V::F;
  using I = typename V::I;
  using M = typename V::M;

  // Returns e^x, which is infinite from 89 on. Below -104 the result is set to 0 directly: many processors take 100
  // cycles for a result below the normal numbers, and the masked scores of an attention are that low.
  [[gnu::always_inline]] static F exp(F x) {
    const M none = V::less(x, V::set(-104.0f));
    const Split s = split(V::min(V::set(89.0f), V::select(none, V::set(0.0f), x)));
    return V::select(none, V::set(0.0f), V::scale(V::add(V::set(1.0f), s.power_less_one), s.n));
  }

  // Returns e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with n and r of split(). Near 0, n = 0 and no digits are lost.
  [[gnu::always_inline]] static F expm1(F x) {
    const Split s = split(V::min(V::set(25.0f), V::max(V::set(-25.0f), x)));
    const F two_to_n = V::scale(V::set(1.0f), s.n);
    return V::fma(two_to_n, s.power_less_one, V::sub(two_to_n, V::set(1.0f)));
  }

  // Returns ln x. x = 2^k m with m in [sqrt(1/2), sqrt(2)).
  [[gnu::always_inline]] static F log(F x) {
    constexpr int32_t kSqrtHalf = 0x3F3504F3;  // the bits of sqrt(1/2)
    const M subnormal = V::less(x, V::set(0x1p-126f));
    const I bits = V::as_integers(V::select(subnormal, V::mul(x, V::set(0x1p23f)), x));
    const I k = V::shift_right(V::sub(bits, V::set(kSqrtHalf)), 23);
    const F m = V::as_float(V::sub(bits, V::mul(k, V::set(int32_t{1} << 23))));
    const F exponent = V::add(V::to_float(k), V::select(subnormal, V::set(-23.0f), V::set(0.0f)));
    const F y = log_of(V::sub(m, V::set(1.0f)), exponent);
    const F infinity = V::set(kInfinity), nan = V::set(kNan), zero = V::set(0.0f);
    const F positive = V::select(V::less(zero, x), y, V::select(V::less(x, zero), nan, V::set(-kInfinity)));
    return V::select(V::less(x, infinity), positive, x);
  }

  // Returns ln(1 + x) for x in [0, 1]. If 1 + x is above sqrt(2), it is computed as 2 (1 + (x - 1) / 2).
  [[gnu::always_inline]] static F log1p(F x) {
    const M low = V::less(x, V::set(0.41421356f));  // sqrt(2) - 1
    const F half = V::fma(x, V::set(0.5f), V::set(-0.5f));
    return log_of(V::select(low, x, half), V::select(low, V::set(0.0f), V::set(1.0f)));
  }

  [[gnu::always_inline]] static F sigmoid(F x) {
    return V::div(V::set(1.0f), V::add(V::set(1.0f), exp(V::sub(V::set(0.0f), x))));
  }

  // Returns sin(x + quarter pi / 2) for a whole number quarter and |x| <= kMostRadians. x = n pi / 2 + r with |r| <=
  // pi / 4. pi / 2 is split into four parts. The first three have at most 11 bits, so n times each is exact.
  static constexpr float kMostRadians = 8192;
  [[gnu::always_inline]] static F sine(F x, float quarter) {
    const F n = V::nearest(V::mul(x, V::set(0.63661977f)));  // 2 / pi
    F r = V::fma(n, V::set(-0x1.92p+0f), x);
    r = V::fma(n, V::set(-0x1.fb4p-12f), r);
    r = V::fma(n, V::set(-0x1.444p-24f), r);
    r = V::fma(n, V::set(-0x1.68c234p-39f), r);
    const F turn = V::add(n, V::set(quarter));
    const F q = V::fma(V::set(-4.0f), V::floor(V::mul(turn, V::set(0.25f))), turn);  // 0, 1, 2 or 3
    const F z = V::mul(r, r), one = V::set(1.0f);
    // The coefficients are those of Cephes, sinf.c: the error is within 2^-27 on |r| <= pi / 4.
    const F odd = V::fma(V::mul(r, z), polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f), r);
    const F even =
        V::fma(V::mul(z, z), polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f),
               V::fma(V::set(-0.5f), z, one));
    const F off = V::abs(V::sub(V::abs(V::sub(q, V::set(2.0f))), one));  // 0 if q is 1 or 3
    const F value = V::select(V::less(off, V::set(0.5f)), even, odd);
    return V::select(V::less(V::set(1.5f), q), V::sub(V::set(0.0f), value), value);
  }

  // Returns t / (t + 2) with t = e^(2x) - 1. 2x is limited to 20, where the result is already 1.
  [[gnu::always_inline]] static F tanh(F x) {
    const F t = expm1(V::min(V::set(20.0f), V::add(x, x)));
    return V::div(t, V::add(t, V::set(2.0f)));
  }

  // Returns e^(x^2) erfc x = q P(1 - 6 q), q = 1 / (x + 3), where P is exact within 2^-25 for x in [0, 10.3].
  [[gnu::always_inline]] static F erfc_scaled(F x) {
    const F q = V::div(V::set(1.0f), V::add(x, V::set(3.0f)));
    const F u = V::fma(V::set(-6.0f), q, V::set(1.0f));
    return V::mul(q, polynomial(u, -0x1.547e48p-12f, -0x1.f968b8p-12f, 0x1.93c704p-9f, -0x1.41a9a2p-10f, -0x1.b7bf6p-6f,
                                0x1.e9976cp-4f, -0x1.3deacap-2f, 0x1.2e3268p-1f, -0x1.c44c48p-1f, 0x1.12f21ep+0f));
  }

  // Returns x + x P(x^2) for |x| < 1, with P within 2^-25.9; else 1 - erfc |x| with the sign of x.
  [[gnu::always_inline]] static F erf(F x) {
    const F square = V::mul(x, x), size = V::abs(x);
    const F small = V::fma(x,
                           polynomial(square, 0x1.4ae4e8p-14f, -0x1.a485f2p-11f, 0x1.5419f6p-8f, -0x1.b7fbb4p-6f,
                                      0x1.ce2d2p-4f, -0x1.81273ep-2f, 0x1.06eba8p-3f),
                           x);
    const F minus_square = V::sub(V::set(0.0f), square);
    const F large = V::sub(V::set(1.0f), V::mul(erfc_scaled(size), exp(minus_square)));
    const F signed_large = V::select(V::less(x, V::set(0.0f)), V::sub(V::set(0.0f), large), large);
    return V::select(V::less(size, V::set(1.0f)), small, signed_large);
  }

 private:
  static constexpr float kInfinity = __builtin_inff(), kNan = __builtin_nanf("");
  static constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;  // sum: ln 2; 2^9 kLog2High is whole

  // Evaluates a polynomial. The coefficient of the highest power comes first.
  template <class... Rest>
  [[gnu::always_inline]] static F polynomial(F x, float first, Rest... rest) {
    F sum = V::set(first);
    ((sum = V::fma(sum, x, V::set(rest))), ...);
    return sum;
  }

  // Holds n and e^r - 1 of x = n ln 2 + r, n whole, |r| <= ln(2) / 2. e^r - 1 = r + r^2 P(r), P within 2^-25.9 / |r|.
  struct Split {
    F n, power_less_one;
  };
  [[gnu::always_inline]] static Split split(F x) {
    const F magic = V::set(0x1.8p23f);  // so large that adding it rounds to a whole number
    const F n = V::sub(V::fma(x, V::set(1.44269504f), magic), magic);  // 1 / ln 2
    const F r = V::fma(n, V::set(-kLog2Low), V::fma(n, V::set(-kLog2High), x));
    const F p = polynomial(r, 0x1.6d99b2p-10f, 0x1.12287ep-7f, 0x1.555486p-5f, 0x1.5554aep-3f, 0.5f);
    return {n, V::fma(V::mul(r, r), p, r)};
  }

  // Returns ln(1 + f) + k ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1): f - f^2 / 2 + f^3 P(f), P within 2^-27.2 / f^2.
  [[gnu::always_inline]] static F log_of(F f, F k) {
    const F square = V::mul(f, f);
    const F p = polynomial(f, -0x1.41ef14p-4f, 0x1.07d10ap-3f, -0x1.0ce05p-3f, 0x1.226e42p-3f, -0x1.54788ep-3f,
                           0x1.99a596p-3f, -0x1.00022p-2f, 0x1.55554ap-2f);
    const F tail = V::fma(V::set(-0.5f), square, V::fma(k, V::set(kLog2Low), V::mul(V::mul(f, square), p)));
    return V::fma(k, V::set(kLog2High), V::add(f, tail));
  }
};

}  // namespace nacre::inline NACRE_ISA
