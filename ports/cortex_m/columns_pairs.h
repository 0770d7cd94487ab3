// The functions of columns.h with pairs of int16, for the DSP extension and in plain C++.
//
// A column is a Quad for each four terms, as SXTB16 takes them out of a word of codes. Weights are split in the same
// way, so they keep their order. The columns of several rows lie side by side:
//
//   [terms / 4, rounded up][rows]   terms past the last are 0
//
// Three instructions load and widen a word of weights. Eight more make 16 products with 4 rows, whose quads are
// loaded with 2 LDM. For x the instruction that widens also subtracts the zero point.
#pragma once

#include "ports/cortex_m/columns.h"

namespace nacre::cortex_m {

inline constexpr bool kColumnsAreCodes = false;

class ColumnWriter {
 public:
  ColumnWriter(Quad* columns, int p, int rows, int, int zero) : to_(columns + p), step_(rows), zero_(zero) {}

  // `count` is a multiple of 4, except in the last call.
  void add(const int8_t* x, int count) {
    const Pair less = pair_of(-zero_, -zero_);
    Quad* to = to_;
    const int step = step_;
    for (; count >= 8; count -= 8, x += 8, to += 2 * step) {
      to[0] = widened(load_four(x), less);
      to[step] = widened(load_four(x + 4), less);
    }
    if (count >= 4) {
      *to = widened(load_four(x), less);
      count -= 4, x += 4, to += step;
    }
    if (count > 0) {
      *to = widened(load_some(x, count, int8_t(zero_)), less);
      to += step;
    }
    to_ = to;
  }
  void add_padding(int count) {
    for (; count > 0; count -= 4, to_ += step_) *to_ = {0, 0};
  }

 private:
  Quad* to_;
  int step_, zero_;
};

// The sums of kRows rows. They stay in registers.
template <int kRows>
struct Sums {
  int32_t of[size_t(kRows)];

  [[gnu::always_inline]] void add_four_terms(uint32_t weights, const Quad*& column) {
    const Pair even = even_codes(weights), odd = odd_codes(weights);
    const auto add = [&](int32_t sum, const Quad& x) {
      return add_products(add_products(sum, x.even, even), x.odd, odd);
    };
    if constexpr (kRows % 2 != 0) {
      for (int32_t& sum : of) sum = add(sum, next_quad(column));
    } else {
#pragma GCC unroll 4
      for (int p = 0; p < kRows; p += 2) {
        Quad first, second;
        next_quads(column, first, second);
        of[p] = add(of[p], first), of[p + 1] = add(of[p + 1], second);
      }
    }
  }
  // Returns the address after these weights.
  [[gnu::always_inline]] const int8_t* add_terms(const int8_t* w, int terms, const Quad* column) {
    for (const int8_t* const end = w + (terms & ~7); w != end; w += 8) {
      add_four_terms(load_four(w), column);
      add_four_terms(load_four(w + 4), column);
    }
    if ((terms & 4) != 0) {
      add_four_terms(load_four(w), column);
      w += 4;
    }
    if ((terms & 3) == 0) return w;
    add_four_terms(load_some(w, terms & 3), column);
    return w + (terms & 3);
  }
};

// Makes channels [first, end) of four rows. Rows of y are `step` apart.
inline void four_rows(const ColumnProduct& product, const Quad* columns, int first, int end, int8_t* y, int step) {
  const int terms = product.terms;
  const Epilogue& epilogue = product.epilogue;
  const bool all = keeps_all(epilogue.clamp);
  const int8_t* row = product.w + first * terms;
  const bool biased = product.b != nullptr;
  const int32_t zero = 0, *bias = biased ? product.b + first : &zero;
  const int32_t* pair = product.scale + 2 * epilogue.scale_index(first);
  const int bias_step = biased ? 1 : 0, pair_step = 2 * epilogue.scale_index(1), y_zero = epilogue.y_zero;
  for (int8_t* const last = y + (end - first); y != last; ++y, bias += bias_step, pair += pair_step) {
    Sums<kSharedRows> sums = {*bias, *bias, *bias, *bias};
    row = sums.add_terms(row, terms, columns);
    const ChannelCodes codes = ChannelCodes::of(pair, y_zero);
    if (all && codes.quick()) {
      int8_t* to = y;
#pragma GCC unroll 4
      for (int p = 0; p < kSharedRows; ++p, to += step) *to = int8_t(saturated_code(codes(sums.of[p])));
    } else {
      const Sums<kSharedRows> copy = sums;  // only the copy's address is taken
      product.store_others(copy.of, end - int(last - y), y, step);
    }
  }
}

// Adds to sums[i] the products with the weights of channel i of four.
inline void add_four_channels(const int8_t* w0, int terms, const Quad* column, int32_t (&sums)[kSharedRows]) {
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

// Makes one row. The quads of the column are loaded once for the weights of 4 channels.
inline void one_row(const ColumnProduct& product, const Quad* column, int first, int end, int8_t* y) {
  const bool all = keeps_all(product.epilogue.clamp);
  const int terms = product.terms;
  const int8_t* row = product.w + first * terms;
  int k = first;
  for (; k + kSharedRows <= end; k += kSharedRows, row += kSharedRows * terms) {
    int32_t sums[kSharedRows];
    for (int i = 0; i < kSharedRows; ++i) sums[i] = product.bias(k + i);
    add_four_channels(row, terms, column, sums);
    for (int i = 0; i < kSharedRows; ++i) *y++ = product.code(k + i, all, sums[i]);
  }
  for (; k < end; ++k, row += terms) {
    Sums<1> sum = {product.bias(k)};
    sum.add_terms(row, terms, column);
    *y++ = product.code(k, all, sum.of[0]);
  }
}

// rows.write_next(columns, p, count) writes the columns of the rows one after another.
template <class Rows>
inline void multiply(const ColumnProduct& product, Rows rows, const Part& part, int8_t* y, Quad* scratch) {
  int left = part.rows;
  for (; left >= kSharedRows; left -= kSharedRows, y += kSharedRows * part.step) {
    for (int p = 0; p < kSharedRows; ++p) rows.write_next(scratch, p, kSharedRows);
    four_rows(product, scratch, part.first, part.end, y, part.step);
  }
  for (; left > 0; --left, y += part.step) {
    rows.write_next(scratch, 0, 1);
    one_row(product, scratch, part.first, part.end, y);
  }
}

}  // namespace nacre::cortex_m
