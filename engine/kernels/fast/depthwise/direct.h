// Makes the sums of a depthwise convolution by windows of 3 x 3. x is read where it lies, without a copy.
//
//   s_hvk = start_k + sum_ij x_{h s - top + i, v s - left + j, k} w_ijk         s, the stride of both axes, is 1 or 2
//
// A tile covers some rows and columns of y. It is made for one vector of channels after the other. Each number of x
// is loaded once for all sums of the tile. Channels are the inner loop. With channels outside and 256 of them, a
// store to y meets loads from addresses with the same last 12 bits, and these loads wait for it.
#pragma once

#include "engine/kernels/fast/depthwise/sums.h"
#include "engine/kernels/fast/product.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

// Rows or columns of x that a tile reads: `count` of them from `position` on. Positions outside x are padding.
struct DirectSpan {
  int position;
  uint32_t inside = 0;  // bit i: whether position + i is in x

  DirectSpan(const WindowAxis& axis, int output, int count) : position(axis.position(output, 0)) {
    for (int i = 0; i < count; ++i) inside |= uint32_t{axis.inside(position + i)} << i;
  }
  bool has(int i) const { return (inside & 1u << i) != 0; }
};

template <class V, class T>
struct DepthwiseDirect {
  using F = typename V::F;
  static constexpr int kRows = V::kRealRows >= 8 ? 2 : 1;                             // of a tile; 2 need 32 registers
  static constexpr int kLeast = DepthwiseTiling::kDirectColumns, kMost = kLeast + 1;  // columns of a tile
  static constexpr int kGroup = DepthwiseTiling::kDirectChannels;

  const DepthwiseConv2d& op;
  const T* x;          // all images
  const float* table;  // [vectors][1 + 9][kLanes], starts and weights; the last vector may overlap the one before

  // Makes the sums of a block and gives them to `to`, which stores them from at.y on.
  template <class To, class Y>
  [[gnu::noinline]] void run(const DepthwiseBlock& block, const To& to, const DepthwiseOutputs<Y>& at) const {
    if (op.window.w.stride == 1) strided<1>(block, to, at);
    else strided<2>(block, to, at);
  }

 private:
  template <int kStride, class To, class Y>
  void strided(const DepthwiseBlock& block, const To& to, const DepthwiseOutputs<Y>& at) const {
    for (int k = 0, channels = 0; k < block.channels; k += channels) {
      const int left = block.channels - k;
      channels = left < kGroup + V::kLanes ? left : kGroup;  // the last group has a vector or more
      int r = 0;
      for (; r + kRows <= block.rows; r += kRows) row<kStride, kRows>(block, r, k, channels, to, at);
      for (; r < block.rows; ++r) row<kStride, 1>(block, r, k, channels, to, at);
    }
  }
  template <int kStride, int kHeight, class To, class Y>
  void row(const DepthwiseBlock& block, int r, int k, int channels, const To& to, const DepthwiseOutputs<Y>& at) const {
    constexpr int kSpanH = (kHeight - 1) * kStride + 3;
    const DirectSpan down(op.window.h, block.h + r, kSpanH);
    const auto tile = [&]<int kColumns>(std::integral_constant<int, kColumns>, int first) {
      constexpr int kSpanW = (kColumns - 1) * kStride + 3;
      const Tile made = {block.n, block.k + k, channels, down, DirectSpan(op.window.w, block.v + first, kSpanW)};
      const DepthwiseOutputs<Y> outputs = {at.y + r * at.row + first * at.pixel + k, at.row, at.pixel};
      constexpr uint32_t kAll = (1u << kSpanW) - 1, kAllButFirst = kAll - 1, kAllButLast = kAll >> 1;
      const uint32_t inside = made.right.inside;
      if (inside == kAll) vectors<kStride, kHeight, kColumns, kAll>(made, to, outputs);
      else if (inside == kAllButFirst) vectors<kStride, kHeight, kColumns, kAllButFirst>(made, to, outputs);
      else if (inside == kAllButLast) vectors<kStride, kHeight, kColumns, kAllButLast>(made, to, outputs);
      else vectors<kStride, kHeight, kColumns, 0>(made, to, outputs);
    };
    // Splits a row into tiles of three or four columns. A row of 5 columns makes one column twice.
    each_part(block.columns, ceil_div(block.columns, kMost), [&](int first, int columns) {
      if (columns == kMost) tile(std::integral_constant<int, kMost>(), first);
      else tile(std::integral_constant<int, kLeast>(), least(first, block.columns - kLeast));
    });
  }

  struct Tile {
    int n, k, channels;  // the image; the tile's channels are k .. k + channels
    DirectSpan down, right;
  };

  // Makes one tile. kInside has the bits of DirectSpan for the columns of x; 0: they are read from tile.right.
  template <int kStride, int kHeight, int kColumns, uint32_t kInside, class To, class Y>
  [[gnu::noinline]] void vectors(const Tile& tile, const To& to, const DepthwiseOutputs<Y>& outputs) const {
    constexpr int kSpanH = (kHeight - 1) * kStride + 3, kSpanW = (kColumns - 1) * kStride + 3;
    const DirectSpan down = tile.down, right = tile.right;
    // Addresses are kept as numbers, because those of padding may lie before x.
    const uintptr_t column = sizeof(T) * size_t(op.in_c), line = column * size_t(op.window.w.in);
    uintptr_t from[kSpanH];
#pragma GCC unroll 5
    for (int p = 0; p < kSpanH; ++p)
      from[p] = reinterpret_cast<uintptr_t>(x + tile.k) + uintptr_t(right.position) * column +
                uintptr_t(tile.n * op.window.h.in + down.position + p) * line;
    Y* to_row[kHeight];
#pragma GCC unroll 2
    for (int a = 0; a < kHeight; ++a) to_row[a] = outputs.y + a * outputs.row;
    const ptrdiff_t pixel = outputs.pixel;
    const To local = to;  // copied, because stores may alias any object that is not local
    const float* terms = table + ptrdiff_t(tile.k) * 10;
    for (int left = tile.channels; left > 0; left -= V::kLanes, terms += 10 * V::kLanes) {
      F sums[kHeight][kColumns], weights[9];
      const F start = V::load(terms);
#pragma GCC unroll 9
      for (int i = 0; i < 9; ++i) weights[i] = V::load(terms + (1 + i) * V::kLanes);
#pragma GCC unroll 2
      for (int a = 0; a < kHeight; ++a)
#pragma GCC unroll 4
        for (int b = 0; b < kColumns; ++b) sums[a][b] = start;
#pragma GCC unroll 5
      for (int p = 0; p < kSpanH; ++p) {
        if (!down.has(p)) continue;
#pragma GCC unroll 9
        for (int q = 0; q < kSpanW; ++q) {
          if (kInside == 0 ? !right.has(q) : (kInside & 1u << q) == 0) continue;
          const F number = V::load(reinterpret_cast<const T*>(from[p] + size_t(q) * column));
#pragma GCC unroll 2
          for (int a = 0; a < kHeight; ++a)
#pragma GCC unroll 4
            for (int b = 0; b < kColumns; ++b) {
              const int i = p - a * kStride, j = q - b * kStride;
              if (i >= 0 && i < 3 && j >= 0 && j < 3) sums[a][b] = V::fma(number, weights[3 * i + j], sums[a][b]);
            }
        }
      }
#pragma GCC unroll 2
      for (int a = 0; a < kHeight; ++a)
#pragma GCC unroll 4
        for (int b = 0; b < kColumns; ++b) local.put(to_row[a] + b * pixel, sums[a][b]);
      const int step = least(V::kLanes, left - V::kLanes);  // the last vector may overlap the one before
#pragma GCC unroll 5
      for (int p = 0; p < kSpanH; ++p) from[p] += sizeof(T) * size_t(step);
#pragma GCC unroll 2
      for (int a = 0; a < kHeight; ++a) to_row[a] += step;
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
