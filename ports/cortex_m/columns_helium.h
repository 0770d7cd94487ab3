// columns.h by Helium (Cortex-M55): codes as they are, 16 products to an instruction (VMLADAVA).
//
//   s_pk = b_k - zero_x sum_i w_ki + sum_i x_pi w_ki
//
// A column is int8 [terms / 4, rounded up, 4], one behind the other; padding is the zero point. The sum of a channel's
// weights is made beside its products, once for four rows.
#pragma once

#include <arm_mve.h>

#include "ports/cortex_m/columns.h"

namespace nacre::cortex_m {

// 16 codes, and `at` behind them: g++ 12 knows no such load and adds 16 by itself.
inline int8x16_t next_codes(const int8_t*& at) {
  int8x16_t codes;
  asm("vldrb.8 %q0, [%1], #16" : "=w"(codes), "+r"(at) : "m"(*reinterpret_cast<const int8_t(*)[16]>(at)));
  return codes;
}

class ColumnWriter {
 public:
  ColumnWriter(Quad* columns, int p, int, int terms, int zero)
      : to_(reinterpret_cast<int8_t*>(columns) + p * 4 * quads_of(terms)), zero_(zero) {}

  void add(const int8_t* x, int count) {
    int8_t* to = to_;
    for (; count >= 16; count -= 16, x += 16, to += 16) vstrbq_s8(to, vldrbq_s8(x));
    if (count > 0) {
      const mve_pred16_t some = vctp8q(uint32_t(count));
      vstrbq_p_s8(to, vldrbq_z_s8(x, some), some);
    }
    to_ = to + count;
  }
  void add_padding(int count) {
    if (count == 0) return;
    int8_t* to = to_;
    for (; count > 0; count -= 16, to += 16) vstrbq_p_s8(to, vdupq_n_s8(int8_t(zero_)), vctp8q(uint32_t(count)));
    to_ = to + count;
  }

 private:
  int8_t* to_;
  int zero_;
};

// Sums, 16 terms a turn: of w alone, and of its products with four rows.
struct FourDots {
  int32_t weights = 0, s0 = 0, s1 = 0, s2 = 0, s3 = 0;

  // Rows `step` from each other; w: one channel. Returns what follows its weights.
  [[gnu::always_inline]] const int8_t* add(const int8_t* w, const int8_t* x0, int step, int turns, int rest) {
    const int8_t *x1 = x0 + step, *x2 = x1 + step, *x3 = x2 + step;
    for (; turns > 0; --turns) {
      const int8x16_t v = next_codes(w);
      weights = vaddvaq_s8(weights, v);
      s0 = vmladavaq_s8(s0, next_codes(x0), v), s1 = vmladavaq_s8(s1, next_codes(x1), v);
      s2 = vmladavaq_s8(s2, next_codes(x2), v), s3 = vmladavaq_s8(s3, next_codes(x3), v);
    }
    if (rest == 0) return w;
    const mve_pred16_t some = vctp8q(uint32_t(rest));
    const int8x16_t v = vldrbq_z_s8(w, some);
    weights = vaddvaq_s8(weights, v);
    s0 = vmladavaq_s8(s0, vldrbq_z_s8(x0, some), v), s1 = vmladavaq_s8(s1, vldrbq_z_s8(x1, some), v);
    s2 = vmladavaq_s8(s2, vldrbq_z_s8(x2, some), v), s3 = vmladavaq_s8(s3, vldrbq_z_s8(x3, some), v);
    return w + rest;
  }
};

// Of y the next row is `step` further. Channels [first, end).
inline void four_rows(const ColumnProduct& product, const Quad* columns, int first, int end, int8_t* y, int step) {
  const int terms = product.terms, turns = terms / 16, rest = terms % 16, stride = 4 * quads_of(terms);
  const int x_zero = product.x_zero, y_zero = product.epilogue.y_zero;
  const bool all = keeps_all(product.epilogue.clamp), biased = product.b != nullptr;
  const auto* const x = reinterpret_cast<const int8_t*>(columns);
  const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), uint32_t(step));
  const int8_t* row = product.w + first * terms;
  const int32_t zero = 0, *bias = biased ? product.b + first : &zero;
  const int32_t* pair = product.scale + 2 * product.epilogue.scale_index(first);
  const int bias_step = biased ? 1 : 0, pair_step = 2 * product.epilogue.scale_index(1);
  for (int8_t* const last = y + (end - first); y != last; ++y, bias += bias_step, pair += pair_step) {
    FourDots dots;
    row = dots.add(row, x, stride, turns, rest);
    const int32_t start = wrapping_sub(*bias, x_zero * dots.weights);
    const int32x4_t products = {dots.s0, dots.s1, dots.s2, dots.s3}, sums = vaddq_n_s32(products, start);
    const ChannelCodes codes = ChannelCodes::of(pair, y_zero);
    if (all && codes.quick()) {
      const int32x4_t u = vqrdmulhq_n_s32(sums, codes.multiplier);
      const int32x4_t v = vshlq_r_s32(vaddq_n_s32(vaddq_s32(u, vshrq_n_s32(u, 31)), codes.add), -codes.right);
      vstrbq_scatter_offset_s32(y, places, vmaxq_s32(vminq_s32(v, vdupq_n_s32(127)), vdupq_n_s32(-128)));
    } else {
      int32_t all_sums[kSharedRows];
      vstrwq_s32(all_sums, sums);
      product.store_others(all_sums, end - int(last - y), y, step);
    }
  }
}

// The column is loaded once for the weights of two channels.
inline void one_row(const ColumnProduct& product, const Quad* columns, int first, int end, int8_t* y) {
  const bool all = keeps_all(product.epilogue.clamp);
  const int terms = product.terms, x_zero = product.x_zero;
  const int8_t* row = product.w + first * terms;
  for (int k = first; k < end; k += 2, row += terms) {
    const int other = k + 1 < end ? terms : 0;  // the last of an odd number stands beside itself
    const int8_t* x = reinterpret_cast<const int8_t*>(columns);
    int32_t s0 = 0, s1 = 0, weights0 = 0, weights1 = 0;
    const int8_t* w1 = row + other;
    int left = terms;
    for (; left >= 16; left -= 16) {
      const int8x16_t v = next_codes(x), u0 = next_codes(row), u1 = next_codes(w1);
      s0 = vmladavaq_s8(s0, v, u0), s1 = vmladavaq_s8(s1, v, u1);
      weights0 = vaddvaq_s8(weights0, u0), weights1 = vaddvaq_s8(weights1, u1);
    }
    if (left > 0) {
      const mve_pred16_t some = vctp8q(uint32_t(left));
      const int8x16_t v = vldrbq_z_s8(x, some), u0 = vldrbq_z_s8(row, some), u1 = vldrbq_z_s8(w1, some);
      s0 = vmladavaq_s8(s0, v, u0), s1 = vmladavaq_s8(s1, v, u1);
      weights0 = vaddvaq_s8(weights0, u0), weights1 = vaddvaq_s8(weights1, u1);
      row += left;
    }
    *y++ = product.code(k, all, wrapping_add(wrapping_sub(product.bias(k), x_zero * weights0), s0));
    if (other == 0) return;
    *y++ = product.code(k + 1, all, wrapping_add(wrapping_sub(product.bias(k + 1), x_zero * weights1), s1));
  }
}

}  // namespace nacre::cortex_m
