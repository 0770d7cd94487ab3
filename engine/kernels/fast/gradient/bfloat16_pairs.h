// Multiplies matrices of bfloat16, with terms combined in pairs, for vectors that multiply pairs (simd/vec.h).
// gradient/run.h uses it.
#pragma once

#include <algorithm>

#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/product.h"
#include "engine/kernels/fast/windows.h"

namespace nacre::inline NACRE_ISA {

// Computes dx_ri = sum_k dy_rk w_ki for some columns i at a time. Rows 2 k and 2 k + 1 of w become pairs, in panels
// [pairs of k][kLanes][2]. All rows of dy are multiplied by these panels. `all_rows` is the number of rows of the
// whole product, of which s may have only some.
template <class V>
void pair_gradient_x(const MatrixSizes& s, int all_rows, const Bfloat16* dy, const Bfloat16* w, Bfloat16* dx,
                     Pieces scratch) {
  using Tiles = DotProduct<V, PairDots<V>>;
  const int terms = s.pair_terms(), chunk = s.pair_columns(V::kLanes);
  float* const start = scratch.take<float>(size_t(chunk));
  auto* const panels = scratch.take<Bfloat16>(size_t(chunk) * size_t(terms));
  auto* const padded = terms == s.out ? nullptr : scratch.take<Bfloat16>(size_t(kGradientRows) * size_t(terms));
  fill_numbers(start, 0.0f, chunk);
  typename BlocksOf<V>::Type blocks;
  for (int c = 0; c < s.in; c += chunk) {
    const int columns = std::min(chunk, s.in - c);
    Bfloat16* to = panels;
    for (int i = 0; i < columns; i += V::kLanes)
      for (int k = 0; k < s.out; k += 2, to += 2 * V::kLanes) {
        const Bfloat16* const row = w + ptrdiff_t(k) * s.in + c + i;
        V::put_pairs(to, row, k + 1 < s.out ? row + s.in : nullptr, V::most(columns - i));
      }
    const Tiles product = {columns, panels, ptrdiff_t(terms) * V::kLanes, start, blocks, all_rows};
    for (int r = 0; r < s.rows; r += kGradientRows) {
      const int count = std::min(kGradientRows, s.rows - r);
      const Bfloat16* rows = dy + ptrdiff_t(r) * s.out;
      if (padded != nullptr) {
        for (int i = 0; i < count; ++i, rows += s.out) {
          std::memcpy(padded + ptrdiff_t(i) * terms, rows, size_t(s.out) * sizeof(Bfloat16));
          padded[ptrdiff_t(i) * terms + s.out] = Bfloat16(0.0f);
        }
        rows = padded;
      }
      product.run(rows, TileRows{terms, 1, terms, 0}, count,
                  [&](const float* sums, int tile_rows, int vectors, int row, int column) {
                    const int n = std::min(columns - column, vectors * V::kLanes);
                    for (int i = 0; i < tile_rows; ++i, sums += Tiles::kStep)
                      store_numbers<V>(dx + ptrdiff_t(r + row + i) * s.in + c + column, sums, n);
                  });
    }
  }
}

// Computes c_kj += sum_r a_rk b_rj (as outer_product.h does) over pairs of rows r. Shapes: a [terms, out],
// b [terms, width], c [out, width].
template <class V>
struct PairOuterProduct {
  static constexpr int kMaxRows = V::kRealRows;

  int out, width;
  Bfloat16 *left, *right;  // scratch for pairs of a [pairs][out][2] and a vector more, and of b [pairs][2][kLanes][2]

  // Returns a product for at most `terms` terms at a time, with its scratch taken.
  static PairOuterProduct of(int out, int width, int terms, Pieces& scratch) {
    const auto pairs = size_t(terms + 1) / 2;
    auto* const left = scratch.take<Bfloat16>((pairs * size_t(out) + V::kLanes) * 2);
    return {out, width, left, scratch.take<Bfloat16>(pairs * 4 * V::kLanes)};
  }

  void run(const Bfloat16* a, ptrdiff_t a_step, const Bfloat16* b, ptrdiff_t b_step, int terms, float* c) const {
    each_pair(a, a_step, terms, [&](int pair, const Bfloat16* first, const Bfloat16* second) {
      Bfloat16* const to = left + ptrdiff_t(pair) * out * 2;
      for (int k = 0; k < out; k += V::kLanes)
        V::put_pairs(to + 2 * k, first + k, second == nullptr ? nullptr : second + k, V::most(out - k));
    });
    int j = 0;
    for (; j + V::kLanes < width; j += 2 * V::kLanes) columns<2>(b + j, b_step, terms, c + j, width - j);
    if (j < width) columns<1>(b + j, b_step, terms, c + j, width - j);
  }

 private:
  // Calls f(index of the pair, its first row, its second row or null) for each pair of rows.
  template <class F>
  static void each_pair(const Bfloat16* rows, ptrdiff_t step, int count, const F& f) {
    for (int r = 0; r < count; r += 2, rows += 2 * step) f(r / 2, rows, r + 1 < count ? rows + step : nullptr);
  }

  template <int kVectors>
  void columns(const Bfloat16* b, ptrdiff_t b_step, int terms, float* c, int count) const {
    each_pair(b, b_step, terms, [&](int pair, const Bfloat16* first, const Bfloat16* second) {
      for (int v = 0, at = 0; v < kVectors; ++v, at += V::kLanes)
        V::put_pairs(right + (pair * kVectors + v) * 2 * V::kLanes, first + at,
                     second == nullptr ? nullptr : second + at, V::most(count - at));
    });
    each_part(out, ceil_div(out, kMaxRows), [&](int first, int rows) {
      tile_of<kVectors>(rows, std::make_integer_sequence<int, kMaxRows>())(*this, first, (terms + 1) / 2,
                                                                           c + ptrdiff_t(first) * width, count);
    });
  }

  template <int kRows, int kVectors>
  [[gnu::noinline]] static void tile(const PairOuterProduct& self, int first, int pairs, float* c, int count) {
    typename V::F sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v)
        sum[k][v] = V::load(c + k * self.width + v * V::kLanes, V::most(count - v * V::kLanes));
    const Bfloat16 *a = self.left + 2 * first, *b = self.right;
#pragma GCC unroll 1
    for (int i = 0; i < pairs; ++i, a += 2 * self.out, b += kVectors * 2 * V::kLanes) {
      decltype(V::pairs(b)) terms[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) terms[v] = V::pairs(b + v * 2 * V::kLanes);
#pragma GCC unroll 16
      for (int k = 0; k < kRows; ++k)
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[k][v] = V::dot(sum[k][v], V::pair(a + 2 * k), terms[v]);
    }
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v)
        V::store(c + k * self.width + v * V::kLanes, sum[k][v], V::most(count - v * V::kLanes));
  }
  template <int kVectors, int... kLess>
  static constexpr auto tile_of(int rows, std::integer_sequence<int, kLess...>) {
    constexpr void (*kTiles[])(const PairOuterProduct&, int, int, float*, int) = {&tile<kLess + 1, kVectors>...};
    return kTiles[rows - 1];
  }
};

// Computes dw += dy^T x, a block of terms at a time. `step` is the distance from a row of dy to the next; s may have
// only some of its columns.
template <class V>
void pair_gradient_w(const MatrixSizes& s, ptrdiff_t step, const Bfloat16* dy, const Bfloat16* x, float* dw,
                     Pieces scratch) {
  const auto product = PairOuterProduct<V>::of(s.out, s.in, std::min(s.rows, kGradientTerms), scratch);
  for (int r = 0; r < s.rows; r += kGradientTerms)
    product.run(dy + r * step, step, x + ptrdiff_t(r) * s.in, s.in, std::min(kGradientTerms, s.rows - r), dw);
}

}  // namespace nacre::inline NACRE_ISA
