// Computes the codes of an int8 depthwise convolution by windows of 3 x 3. x is read where it lies. The vectors must
// multiply pairs of codes in 16 bits (V::kPairs):
//
//   y_hvk = codes_k(start_k + sum_ij x_{h s - top + i, v s - left + j, k} w_ijk)   of strides s of 1 or 2
//
// A pair holds two numbers of x of the same channel. The nine products of a window are made as five products of
// pairs. Each pair of x is made once for all columns of a tile of y that read the pair:
//
//   rows 0 and 1   (x_0q, x_1q) with (w_0j, w_1j) for j = 0, 1, 2
//   row 2          (x_2q, x_2,q+1) with (w_20, w_21), and two columns further with (w_22, 0)
//
// Positions outside x hold the zero point of x. Channels are the inner loop, as in direct.h.
#pragma once

#include "engine/kernels/fast/depthwise/direct.h"
#include "engine/kernels/fast/requantize_table.h"

namespace nacre::inline NACRE_ISA {

template <class V, class Table, class Codes>
struct DepthwisePairs {
  static constexpr int kLanes = V::kPairs, kProducts = 5;
  static constexpr int kLeast = DepthwiseTiling::kDirectColumns, kMost = kLeast + 1;  // columns of a tile
  static constexpr int kGroup = DepthwiseTiling::kDirectChannels;

  const DepthwiseConv2d& op;
  const int8_t* x;         // all images
  const Table& table;      // [rows][vectors][low, high]
  const int16_t* weights;  // [vectors][5][low, high][kLanes / 2][2]
  const int8_t* padding;   // kGroup + kLanes codes that equal the zero point of x
  ClampRange range;

  void run(const DepthwiseBlock& block, const DepthwiseOutputs<int8_t>& at) const {
    for (int k = 0, channels = 0; k < block.channels; k += channels) {
      const int left = block.channels - k;
      channels = left < kGroup + kLanes ? left : kGroup;  // the last group has a vector or more
      for (int r = 0; r < block.rows; ++r) row(block, r, k, channels, at);
    }
  }

 private:
  // Tiles that lie side by side: their image, row of y, channels from k on, and the first tile's column of y.
  struct Tiles {
    int n, h, k, channels, first, count;
  };
  void row(const DepthwiseBlock& block, int r, int k, int channels, const DepthwiseOutputs<int8_t>& at) const {
    const auto run = [&](int width, int first, int count) {
      const Tiles tiles = {block.n, block.h + r, block.k + k, channels, block.v + first, count};
      int8_t* const y = at.y + r * at.row + first * at.pixel + k;
      const bool one = op.window.w.stride == 1;
      if (width == kMost) one ? vectors<1, kMost>(tiles, y, at.pixel) : vectors<2, kMost>(tiles, y, at.pixel);
      else if (width == kLeast) one ? vectors<1, kLeast>(tiles, y, at.pixel) : vectors<2, kLeast>(tiles, y, at.pixel);
      else one ? vectors<1, 2>(tiles, y, at.pixel) : vectors<2, 2>(tiles, y, at.pixel);
    };
    const int count = ceil_div(block.columns, kMost), threes = count * kMost - block.columns;
    if (threes > count) {  // 5 columns are 3 and 2; other counts from 3 on split into threes and fours
      run(kLeast, 0, 1);
      return run(2, kLeast, 1);
    }
    if (count > threes) run(kMost, 0, count - threes);
    if (threes > 0) run(kLeast, (count - threes) * kMost, threes);
  }

  template <int kStride, int kColumns>
  [[gnu::noinline]] void vectors(const Tiles& tiles, int8_t* y, ptrdiff_t pixel) const {
    constexpr int kSpan = (kColumns - 1) * kStride + 3;
    const WindowAxis &down = op.window.h, &right = op.window.w;
    // Addresses are kept as numbers, because those of column 0 may lie before x.
    int position = right.position(tiles.first, 0);
    uintptr_t line[3], column[3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const int at = down.position(tiles.h, i);
      column[i] = down.inside(at) ? uintptr_t(op.in_c) : 0;
      const uintptr_t index = uintptr_t(ptrdiff_t(tiles.n * down.in + at) * right.in + position);
      line[i] = column[i] != 0 ? reinterpret_cast<uintptr_t>(x + tiles.k) + index * column[i]
                               : reinterpret_cast<uintptr_t>(padding);
    }
    for (int left = tiles.count; left > 0; --left) {
      const int begin = position < 0 ? -position : 0, end = least(kSpan, right.in - position);
      channels<kStride, kColumns>(line, column, (1u << end) - (1u << begin), tiles.k, tiles.channels, y, pixel);
      position += kColumns * kStride;
      y += kColumns * pixel;
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) line[i] += kColumns * kStride * column[i];
    }
  }

  // Makes one tile, whose rows of x begin at `line` and whose columns are `column` apart. Bit q of `inside` says that
  // column q is in x.
  template <int kStride, int kColumns>
  [[gnu::always_inline]] void channels(const uintptr_t* line, const uintptr_t* column, uint32_t inside, int k,
                                       int count, int8_t* y, ptrdiff_t pixel) const {
    constexpr int kSpan = (kColumns - 1) * kStride + 3;
    uintptr_t from[3] = {line[0], line[1], line[2]};
    const typename V::Words zero = V::words(padding);
    const typename V::CodeRange words(Codes::zero_word(op.epilogue.y_zero), range.low, range.high);
    const Table rows = table;  // copied, because stores of codes may alias any object that is not local
    const int y_zero = op.epilogue.y_zero;
    ptrdiff_t place = k;  // position in the table
    const int16_t* w = weights + place * (2 * kProducts);
    for (int left = count; left > 0; left -= kLanes, place += kLanes, w += 2 * kProducts * kLanes) {
      typename V::PairSums sums[kColumns];
      const typename V::PairSums start = {V::load_integers(rows.row(0) + place),
                                          V::load_integers(rows.row(0) + place + V::kLanes)};
#pragma GCC unroll 4
      for (int v = 0; v < kColumns; ++v) sums[v] = start;
      // Calls f(v, j) for each window v that has column q as its column j.
      const auto windows = [](int q, const auto& f) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int v = 0; v < kColumns; ++v)
          if (q >= v * kStride && q < v * kStride + 3) f(v, q - v * kStride);
      };
      const auto row_2 = [&](int q, typename V::Words a, typename V::Words b) __attribute__((always_inline)) {
        const typename V::WordPairs pairs = V::pairs(a, b);
        windows(
            q, [&](int v, int j) __attribute__((always_inline)) {
              if (j != 1) V::dot(sums[v], pairs, w + (j == 0 ? 3 : 4) * 2 * kLanes);
            });
      };
      typename V::Words last = zero;
#pragma GCC unroll 9
      for (int q = 0; q < kSpan; ++q) {
        typename V::Words top = zero, middle = zero, bottom = zero;
        if ((inside & 1u << q) != 0) {
          const auto at = [&](int i) { return reinterpret_cast<const int8_t*>(from[i] + uintptr_t(q) * column[i]); };
          top = V::words(at(0)), middle = V::words(at(1)), bottom = V::words(at(2));
        }
        const typename V::WordPairs pairs = V::pairs(top, middle);
        windows(q, [&](int v, int j) __attribute__((always_inline)) { V::dot(sums[v], pairs, w + j * 2 * kLanes); });
        if (q > 0 && (kStride == 1 || q % 2 == 1)) row_2(q - 1, last, bottom);
        if (q == kSpan - 1) row_2(q, bottom, bottom);
        last = bottom;
      }
      const Codes codes[] = {Codes(rows, int(place), y_zero), Codes(rows, int(place) + V::kLanes, y_zero)};
#pragma GCC unroll 4
      for (int v = 0; v < kColumns; ++v) sums[v] = {codes[0].word(sums[v].low), codes[1].word(sums[v].high)};
      V::store(y, y + pixel, sums[0], sums[1], words);
      if constexpr (kColumns > 2) {
        constexpr int kLast = kColumns - 1;  // a tile of three columns stores the third one twice
        V::store(y + 2 * pixel, y + kLast * pixel, sums[2], sums[kLast], words);
      }
      const int next = least(kLanes, left - kLanes);  // the last vector may overlap the one before
      y += next;
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) from[i] += uintptr_t(next);
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
