// Products of int8 weights with columns: what the sums of some rows of a matrix read, widened once for all outputs.
//
//   s_pk = b_k + sum_i (x_pi - zero_x) w_ki,   p of kPixels rows, i of `terms`, k of `channels`
//
// A column is a Quad for four terms, as SXTB16 takes them out of a word of codes, of x and of w alike; so weights stay
// in their own order. Columns of several rows stand beside each other,
//
//   [terms / 4, rounded up][kPixels]   terms past the last are 0
//
// With 4 rows a word of weights, loaded and widened by 3 instructions, makes 16 products in 8 more; their quads are
// 4 LDRD. The zero point is subtracted by the instruction that widens.
#pragma once

#include "ports/cortex_m/channel_codes.h"

namespace nacre::cortex_m {

inline constexpr int kSharedRows = 4;  // of a block: each word of weights is loaded once for them

constexpr int quads_of(int terms) { return (terms + 3) / 4; }
constexpr size_t column_bytes(int terms) { return size_t(quads_of(terms)) * sizeof(Quad); }

// `count` codes, one quad every `step`.
inline Quad* widen(const int8_t* x, int count, int zero, Quad* to, int step) {
  const Pair less = pair_of(-zero, -zero);
  for (; count >= 4; count -= 4, x += 4, to += step) *to = widened(load_four(x), less);
  if (count == 0) return to;
  *to = widened(load_some(x, count, int8_t(zero)), less);
  return to + step;
}
inline Quad* widen_zeros(int count, Quad* to, int step) {
  for (; count > 0; count -= 4, to += step) *to = {0, 0};
  return to;
}

// Sums of kPixels rows, which stay in registers.
template <int kPixels>
struct Sums {
  int32_t of[kPixels];

  [[gnu::always_inline]] void add_four_terms(uint32_t weights, const Quad*& column) {
    const Pair even = even_codes(weights), odd = odd_codes(weights);
    const auto add = [&](int32_t sum, const Quad& x) {
      return add_products(add_products(sum, x.even, even), x.odd, odd);
    };
    if constexpr (kPixels % 2 != 0) {
      for (int32_t& sum : of) sum = add(sum, next_quad(column));
    } else {
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; p += 2) {
        Quad first, second;
        next_quads(column, first, second);
        of[p] = add(of[p], first), of[p + 1] = add(of[p + 1], second);
      }
    }
  }
  [[gnu::always_inline]] void add_terms(const int8_t* w, int terms, const Quad* column) {
    for (const int8_t* const end = w + (terms & ~7); w != end; w += 8) {
      add_four_terms(load_four(w), column);
      add_four_terms(load_four(w + 4), column);
    }
    if ((terms & 4) != 0) {
      add_four_terms(load_four(w), column);
      w += 4;
    }
    if ((terms & 3) != 0) add_four_terms(load_some(w, terms & 3), column);
  }
};

struct ColumnProduct {
  const int8_t* w;  // [channels, terms]
  const int32_t* b;
  const int32_t* scale;
  int terms;
  Epilogue epilogue;

  // kSharedRows rows; of y the next row is `step` further. Channels [first, end).
  void four_rows(const Quad* columns, int first, int end, int8_t* y, int step) const {
    const bool all = keeps_all(epilogue.clamp);
    const int8_t* row = w + first * terms;
    for (int k = first; k < end; ++k, ++y, row += terms) {
      const int32_t bias = b != nullptr ? b[k] : 0;
      Sums<kSharedRows> sums = {bias, bias, bias, bias};
      sums.add_terms(row, terms, columns);
      store(sums, k, all, y, step);
    }
  }

  // One row: the quads of a column, loaded once, make products with the weights of 4 channels.
  void one_row(const Quad* column, int first, int end, int8_t* y) const {
    const bool all = keeps_all(epilogue.clamp);
    const int8_t* row = w + first * terms;
    int k = first;
    for (; k + kSharedRows <= end; k += kSharedRows, row += kSharedRows * terms) {
      int32_t sums[kSharedRows];
      for (int i = 0; i < kSharedRows; ++i) sums[i] = b != nullptr ? b[k + i] : 0;
      add_four_channels(row, column, sums);
      for (int i = 0; i < kSharedRows; ++i, ++y) *y = code(k + i, all, sums[i]);
    }
    for (; k < end; ++k, ++y, row += terms) {
      Sums<1> sum = {b != nullptr ? b[k] : 0};
      sum.add_terms(row, terms, column);
      *y = code(k, all, sum.of[0]);
    }
  }

 private:
  void add_four_channels(const int8_t* w0, const Quad* column, int32_t (&sums)[kSharedRows]) const {
    const int8_t *w1 = w0 + terms, *w2 = w1 + terms, *w3 = w2 + terms;
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
    const auto add = [&](const Quad& x, int32_t sum, uint32_t four) {
      return add_products(add_products(sum, x.even, even_codes(four)), x.odd, odd_codes(four));
    };
    for (const int8_t* const end = w0 + (terms & ~3); w0 != end; w0 += 4, w1 += 4, w2 += 4, w3 += 4) {
      const Quad x = next_quad(column);
      s0 = add(x, s0, load_four(w0)), s1 = add(x, s1, load_four(w1));
      s2 = add(x, s2, load_four(w2)), s3 = add(x, s3, load_four(w3));
    }
    if (const int rest = terms & 3; rest != 0) {
      s0 = add(*column, s0, load_some(w0, rest)), s1 = add(*column, s1, load_some(w1, rest));
      s2 = add(*column, s2, load_some(w2, rest)), s3 = add(*column, s3, load_some(w3, rest));
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
  }

  void store(const Sums<kSharedRows>& sums, int k, bool all, int8_t* y, int step) const {
    const ChannelCodes codes = ChannelCodes::of(epilogue, scale, k);
    const bool quick = all && codes.quick();
#pragma GCC unroll 4
    for (int p = 0; p < kSharedRows; ++p, y += step)
      *y = quick ? int8_t(saturated_code(codes(sums.of[p]))) : other_code(codes, k, sums.of[p]);
  }
  int8_t code(int k, bool all, int32_t sum) const {
    const ChannelCodes codes = ChannelCodes::of(epilogue, scale, k);
    return all && codes.quick() ? int8_t(saturated_code(codes(sum))) : other_code(codes, k, sum);
  }
  [[gnu::noinline]] int8_t other_code(const ChannelCodes& codes, int k, int32_t sum) const {
    return codes.quick() ? epilogue.clamp.code(codes(sum)) : slow_code(epilogue, scale, k, sum);
  }
};

}  // namespace nacre::cortex_m
