// Products of int8 weights with columns. A column holds the numbers of x (a row of a matrix, or a window) that an
// output is summed over. It is made once for several output channels.
//
//   s_pk = b_k + sum_i (x_pi - zero_x) w_ki,   up to kSharedRows rows p, terms i, output channels k
//
// The instruction set decides how columns are stored in scratch: columns_pairs.h, columns_helium.h. Both files define
//
//   ColumnWriter(columns, p, rows, terms, zero)   writes column p of `rows` columns that stand in one block
//   multiply(product, rows, part, y, scratch)     makes all outputs; four_rows() and one_row() those of a block
#pragma once

#include "ports/cortex_m/channel_codes.h"

namespace nacre::cortex_m {

inline constexpr int kSharedRows = 4;  // rows in a block: each word of weights is loaded once for all of them

constexpr int quads_of(int terms) { return (terms + 3) / 4; }
constexpr size_t column_bytes(int terms) { return size_t(quads_of(terms)) * sizeof(Quad); }  // on every target

// Writes `count` codes less `zero` as quads.
inline void widen(const int8_t* x, int count, int zero, Quad* to) {
  const Pair less = pair_of(-zero, -zero);
  for (; count >= 4; count -= 4, x += 4) *to++ = widened(load_four(x), less);
  if (count > 0) *to = widened(load_some(x, count, int8_t(zero)), less);
}

// The weights, scales and epilogue that turn the sums of a product into codes of y.
struct ColumnProduct {
  const int8_t* w;  // [channels, terms]
  const int32_t* b;
  const int32_t* scale;
  int terms, x_zero;
  Epilogue epilogue;

  int32_t bias(int k) const { return b != nullptr ? b[k] : 0; }
  int8_t code(int k, bool all, int32_t sum) const {
    const ChannelCodes codes = ChannelCodes::of(epilogue, scale, k);
    return all && codes.quick() ? int8_t(saturated_code(codes(sum))) : other_code(codes, k, sum);
  }
  // Stores the codes of four sums of channel k, if it is not quick (channel_codes.h) or has a clamp.
  [[gnu::noinline]] void store_others(const int32_t (&sums)[kSharedRows], int k, int8_t* y, int step) const {
    const ChannelCodes codes = ChannelCodes::of(epilogue, scale, k);
    for (const int32_t sum : sums) *y = other_code(codes, k, sum), y += step;
  }

 private:
  int8_t other_code(const ChannelCodes& codes, int k, int32_t sum) const {
    return codes.quick() ? epilogue.clamp.code(codes(sum)) : slow_code(epilogue, scale, k, sum);
  }
};

// The outputs of `rows` rows by channels [first, end). Rows of y are `step` apart.
struct Part {
  int rows, first, end, step;
};

}  // namespace nacre::cortex_m

#if defined(__ARM_FEATURE_MVE)
#include "ports/cortex_m/columns_helium.h"
#else
#include "ports/cortex_m/columns_pairs.h"
#endif
