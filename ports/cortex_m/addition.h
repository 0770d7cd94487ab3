// int8 add without broadcast, with the rounding kDouble, equal to the reference to the bit: NUMERICS.md eq. 6.
//
//   y = clamp(zero_y + requant_y(requant_a((a - zero_a) 2^L) + requant_b((b - zero_b) 2^L)))
//
// The shape rule ensures |(a - zero_a) 2^(L+1)| < 2^31, so SMMULR gives the inner rounding of a term. The outer
// rounding is half away from zero as in channel_codes.h, except that n may be 0 here.
#pragma once

#include "engine/kernels/adapter.h"
#include "engine/ops/elementwise.h"
#include "ports/cortex_m/channel_codes.h"

namespace nacre::cortex_m {

struct Addition {
  int count;
  Clamp clamp;
  int a_zero, b_zero, y_zero, left_shift;

  static constexpr Addition from(const Words& words, const Operands& operands) {
    return {.count = operands[operands.count - 1].elements(),
            .clamp = Clamp::from(words, Sum::kClamp),
            .a_zero = words.integer(Sum::kAZero),
            .b_zero = words.integer(Sum::kBZero),
            .y_zero = words.integer(Sum::kYZero),
            .left_shift = words.integer(Sum::kLeftShift)};
  }
  static bool accepts(const Words&, const Operands& operands) {
    const int y = operands[operands.count - 1].elements();
    return operands[Sum::kA].elements() == y && operands[Sum::kB].elements() == y;
  }
  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    return Sum::shapes(words, operands, y);
  }
  constexpr uint64_t work() const { return uint64_t(uint32_t(count)); }

  void run(const int8_t* a, const int8_t* b, const int32_t* requant, int8_t* y) const {
    const Term term_a = Term::of(requant, left_shift), term_b = Term::of(requant + 2, left_shift);
    const ChannelCodes codes = ChannelCodes::of(requant + 4, y_zero);
    if (!term_a.quick || !term_b.quick || !codes.quick() || !keeps_all(clamp)) return run_others(a, b, requant, y);
    const int zero_a = a_zero, zero_b = b_zero;
    for (const int8_t* const end = a + count; a != end;)
      *y++ = int8_t(saturated_code(codes(term_a(*a++ - zero_a) + term_b(*b++ - zero_b))));
  }

 private:
  struct Term {
    int32_t multiplier, half, away, left, right;  // away: -1, or 0 if right is 0
    bool quick;

    static Term of(const int32_t* pair, int left_shift) {
      const int32_t n = int32_t(0u - uint32_t(pair[1]));
      const bool quick = uint32_t(n) < 30;
      return {pair[0], n > 0 ? 1 << ((n - 1) & 31) : 0, n > 0 ? -1 : 0, left_shift + 1, n & 31, quick};
    }
    int32_t operator()(int difference) const {
      const int32_t u = high_product(int32_t(uint32_t(difference) << left), multiplier);
      return (u + (u >> 31 & away) + half) >> right;
    }
  };

  [[gnu::cold, gnu::noinline]] void run_others(const int8_t* a, const int8_t* b, const int32_t* requant,
                                               int8_t* y) const {
    const auto scaled = [&](int difference, const int32_t* pair) {
      return multiply<Rounding::kDouble>(wrapping_shift_left(difference, left_shift), {pair[0], pair[1]});
    };
    for (int i = 0; i < count; ++i) {
      const int32_t sum = wrapping_add(scaled(a[i] - a_zero, requant), scaled(b[i] - b_zero, requant + 2));
      y[i] = to_code<Rounding::kDouble, int8_t>(sum, requant + 4, y_zero, clamp);
    }
  }
};

}  // namespace nacre::cortex_m
