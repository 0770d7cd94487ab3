// Computes multiply() of numeric/fixed_point.h over vectors, with the roundings kDouble and kSingle (PairScale), and
// the same codes faster (CodeRuns).
//
// A code is round(v) + zero. Here v is the exact value, made of products with {multiplier, shift} pairs. v~ is v in
// float32; it differs from v by less than a margin. If no number halfway between two integers is within the margin of
// v~, round(v~) = round(v). A vector with a lane closer to such a half is computed exactly. So is every vector if the
// margin leaves no code certain (CodeBounds::limit is below 0). With evenly spread codes this is one vector in
// hundreds.
#pragma once

#include <cstdint>

#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/runs.h"
#include "engine/numeric/fixed_point.h"
#include "engine/numeric/power_of_two.h"

namespace nacre::inline NACRE_ISA {

template <class V>
struct PairScale {
  using I = typename V::I;
  int32_t multiplier, a, b;
  bool single;

  PairScale(Rounding rounding, const int32_t* pair) : multiplier(pair[0]), single(rounding == Rounding::kSingle) {
    const int32_t shift = pair[1];
    a = shift > 0 ? shift & 31 : 0;
    b = single ? int32_t((31u - uint32_t(shift)) & 63) : shift > 0 ? 0 : int32_t(0u - uint32_t(shift)) & 31;
  }
  I operator()(I x) const {
    if (single) return V::scaled(x, V::set(multiplier), V::set(b));
    return V::rounding_shift(V::doubling_high(V::shift_left(x, V::set(a)), V::set(multiplier)), V::set(b));
  }
};

// Returns a {multiplier, shift} pair as a number. If the multiplier is negative or the shift is not in [-31, 30 -
// bits], so that products with integers of `bits` bits might wrap, returns 0 and sets `exact`.
inline float real_scale(const int32_t* pair, int bits, bool& exact) {
  if (pair[0] >= 0 && pair[1] >= -31 && pair[1] <= 30 - bits) return float(pair[0]) * power_of_two(pair[1] - 31);
  exact = true;
  return 0;
}

// Returns how far a product is moved away from zero so that one rounding gives the result of kDouble. With a shift s
// below 0, kDouble rounds twice: to multiples of 2^s, then halves away from zero. The move is 2^(s - 1), else 0.
inline float moved_by(Rounding rounding, const int32_t* pair) {
  return rounding == Rounding::kDouble && pair[1] < 0 ? power_of_two(pair[1] - 1) : 0;
}
template <class V>
struct MovedAway {
  typename V::F by, minus;

  explicit MovedAway(float distance) : by(V::set(distance)), minus(V::set(-distance)) {}
  [[gnu::always_inline]] typename V::F operator()(typename V::F v) const {
    return V::add(v, V::select(V::less(v, V::set(0.0f)), minus, by));
  }
};

// The zero point and the bounds that make a code of v~, and the distance from an integer within which it is certain.
struct CodeBounds {
  int32_t zero, low, high;
  float limit;  // largest certain |v~ - round(v~)|; if below 0, no code is certain

  // `largest` bounds |v~| and its parts. `error` bounds the difference of v~ from v without the rounding of float32,
  // which takes at most 2^-20 of `largest`: the scale, its parts and five operations round by up to 2^-24 each.
  CodeBounds with_limit(float error, float largest, bool exact) const {
    CodeBounds bounds = *this;
    bounds.limit = exact || !(largest < 0x1p20f) ? -1.0f : 0.5f - (error + largest * 0x1p-20f);
    return bounds;
  }
};

// Computes y_i = clamp(zero + f(a_i - zero_a, b_i - zero_b)). Op has
//
//   real(za, zb)  returns a function of vectors of codes with these zero points; the function returns v~
//   exact(u, v)   f itself, of the differences, without the zero point
template <class V, class Op, class X, class Y>
struct CodeRuns {
  using F = typename V::F;
  using I = typename V::I;

  Op op;
  CodeBounds bounds;
  int32_t a_zero, b_zero;
  const X *a, *b;
  Y* y;

  static constexpr uint64_t kOfCode = 4;  // one code's time in multiply-accumulates (parallel.h), measured with AVX2

  void run(const Walk<2>& walk, const Args& args) const {
    constexpr RunFunctions kAlong = {&along<1, 1>, &along<0, 1>, &along<1, 0>};
    each_run(walk, kAlong, this, args, kOfCode);
  }

  // Computes y along a run of both operands; kA or kB is 0 if the operand repeats one code. Takes four vectors at a
  // time. They are computed exactly if a lane is not certain.
  template <int kA, int kB>
  static void along(const void* context, const RunAt& at) {
    const CodeRuns& self = *static_cast<const CodeRuns*>(context);
    const X *const a = self.a + at.a, *const b = self.b + at.b;
    Y* const y = self.y + at.y;
    const CodeBounds& bounds = self.bounds;
    const auto real = self.op.real(self.a_zero, self.b_zero);
    const float magic = 0x1.8p23f;  // adding it rounds to a whole number
    const F m = V::set(magic), limit = V::set(bounds.limit);
    const I zero = V::set(wrapping_sub(bounds.zero, std::bit_cast<int32_t>(magic))), low = V::set(bounds.low),
            high = V::set(bounds.high);
    const I first = V::set(int32_t{*a}), second = V::set(int32_t{*b});
    const bool clamps = !std::is_same_v<Y, int8_t> || bounds.low > -128 || bounds.high < 127;  // else V::store

    const auto block = [&](int i, auto vectors, auto n) {
      constexpr int kVectors = decltype(vectors)::value;
      I codes[kVectors];
      F worst = V::set(0.0f);
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        const int j = i + k * V::kLanes;
        const I u = kA == 0 ? first : load_codes<V>(a + j, n), v = kB == 0 ? second : load_codes<V>(b + j, n);
        const F value = real(u, v), sum = V::add(value, m);
        worst = V::max(worst, V::abs(V::sub(value, V::sub(sum, m))));
        codes[k] = V::add(V::as_integers(sum), zero);
      }
      if (V::any(V::less(limit, worst))) [[unlikely]] {
        const bool whole = std::is_same_v<decltype(n), Whole>;
        return self.exact(a + kA * i, kA, b + kB * i, kB, y + i, whole ? kVectors * V::kLanes : at.count - i);
      }
      if (clamps) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) codes[k] = V::max(low, V::min(high, codes[k]));
      }
      if constexpr (kVectors == 4 && std::is_same_v<Y, int8_t>) V::store(y + i, codes[0], codes[1], codes[2], codes[3]);
      else
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) store_codes<V>(y + i + k * V::kLanes, codes[k], n);
    };
    int i = 0;
    for (; i + 4 * V::kLanes <= at.count; i += 4 * V::kLanes) block(i, std::integral_constant<int, 4>(), Whole());
    each_vector<V>(at.count - i, [&](int j, auto n) { block(i + j, std::integral_constant<int, 1>(), n); });
  }

 private:
  [[gnu::noinline]] void exact(const X* u, int u_step, const X* v, int v_step, Y* to, int count) const {
    const I zero = V::set(bounds.zero), low = V::set(bounds.low), high = V::set(bounds.high);
    const auto difference = [](const X* p, int step, int i, int n, int32_t z) {
      return V::sub(step == 0 ? V::set(int32_t{*p}) : load_codes<V>(p + i, n), V::set(z));
    };
    for (int i = 0; i < count; i += V::kLanes) {
      const int n = V::most(count - i);
      const I sum = op.exact(difference(u, u_step, i, n, a_zero), difference(v, v_step, i, n, b_zero));
      store_codes<V>(to + i, V::max(low, V::min(high, V::add(sum, zero))), n);
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
