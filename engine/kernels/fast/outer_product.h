// Adds up outer products of rows, tile by tile.
//
//   c_kj += sum_r a_rk b_rj        a [terms, out]   b [terms, width]   c [out, width]
//
// A tile of c stays in the registers over all r. Columns of b that many tiles read are copied to scratch without
// gaps. Rows of b may lie a power of two apart, and a cache keeps few such rows.
//
// If terms are few and c is large, reading and writing c takes the time. The tiles of c then follow each other in a
// row: the processor fetches c ahead, and b, which is small, is read once for each row of tiles. Otherwise the tiles
// follow each other in a column. The columns of b stay in the nearest cache for the whole column, and each tile
// prefetches the c of the next one. Either way a sum has the same terms in the same order.
#pragma once

#include <algorithm>

#include "engine/kernels/fast/product.h"

namespace nacre::inline NACRE_ISA {

template <class V>
struct OuterProduct {
  static constexpr int kMaxRows = V::kRealRows;
  // A column of fewer tiles than this reads b where it lies. A column narrower than whole vectors always copies b.
  static constexpr int kLeastTiles = 3;
  // c is passed over row by row if b has few terms and c is larger than a core's own cache.
  static constexpr int kFewTerms = 16, kLargeC = 64 << 10;

  int out, width;
  ptrdiff_t a_step, b_step, c_step;  // elements from row to row
  float* panel;                      // [terms][2 kLanes]

  void run(const float* a, const float* b, int terms, float* c) const {
    if (terms <= kFewTerms && ptrdiff_t(out) * width > kLargeC) return rows(a, b, terms, c);
    int j = 0;
    for (; j + V::kLanes < width; j += 2 * V::kLanes) columns<2>(a, b + j, terms, c + j, width - j);
    if (j < width) columns<1>(a, b + j, terms, c + j, width - j);
  }

 private:
  static constexpr int kPair = 2 * V::kLanes;  // columns of a tile

  struct Tile {
    const float* a;
    ptrdiff_t a_step;
    TileColumns<float> b;
    int terms;
    float* c;
    ptrdiff_t c_step;
    int left;  // columns
  };

  void rows(const float* a, const float* b, int terms, float* c) const {
    const int whole = width / kPair * kPair;
    constexpr auto kHeights = std::make_integer_sequence<int, kMaxRows>();
    each_part(out, ceil_div(out, kMaxRows), [&](int first, int count) {
      Tile t = {a + first, a_step, {b, V::kLanes, b_step}, terms, c + first * c_step, c_step, width};
      const auto tile = tile_of<2>(count, kHeights);
      for (; t.left >= kPair; t.b.at += kPair, t.c += kPair, t.left -= kPair) tile(t);
    });
    if (width - whole > V::kLanes) columns<2>(a, b + whole, terms, c + whole, width - whole);
    else if (whole < width) columns<1>(a, b + whole, terms, c + whole, width - whole);
  }

  template <int kVectors>
  void columns(const float* a, const float* b, int terms, float* c, int left) const {
    constexpr int kWidth = kVectors * V::kLanes;
    const int tiles = ceil_div(out, kMaxRows);
    TileColumns<float> from = {b, V::kLanes, b_step};
    if (tiles >= kLeastTiles || left < kWidth) {
      for (int r = 0; r < terms; ++r)
        for (int v = 0; v < kVectors; ++v)
          V::store(panel + r * kWidth + v * V::kLanes,
                   V::load(b + r * b_step + v * V::kLanes, V::most(left - v * V::kLanes)));
      from = {panel, V::kLanes, kWidth};
    }
    each_part(out, tiles, [&](int first, int count) {
      const Tile t = {a + first, a_step, from, terms, c + first * c_step, c_step, left};
      for (int k = first + count; k < std::min(out, first + count + kMaxRows); ++k)
        __builtin_prefetch(c + k * c_step, 1);
      tile_of<kVectors>(count, std::make_integer_sequence<int, kMaxRows>())(t);
    });
  }

  template <int kRows, int kVectors>
  [[gnu::noinline]] static void tile(const Tile& t) {
    const bool whole = t.left >= kVectors * V::kLanes;
    const auto count = [&](int v) { return V::most(t.left - v * V::kLanes); };
    real_tile<V, kRows, kVectors, true>(
        t.a, TileRows{t.a_step, 1, t.terms, 0}, t.b,
        [&](int k, int v) {
          const float* const c = t.c + k * t.c_step + v * V::kLanes;
          return whole ? V::load(c) : V::load(c, count(v));
        },
        [&](int k, int v, typename V::F sum) {
          float* const c = t.c + k * t.c_step + v * V::kLanes;
          if (whole) V::store(c, sum);
          else V::store(c, sum, count(v));
        });
  }
  template <int kVectors, int... kLess>
  static constexpr auto tile_of(int rows, std::integer_sequence<int, kLess...>) {
    constexpr void (*kTiles[])(const Tile&) = {&tile<kLess + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

}  // namespace nacre::inline NACRE_ISA
