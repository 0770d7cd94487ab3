// Products of blocks of rows with packed weights, tile by tile.
//
//   s_rk = start_k + sum_i x_ri w_ki       w in panels of kLanes rows
//
// A block's rows are cut into tiles of nearly equal height; for each group of columns all tiles run, so that these
// weights stay in the cache. Tiles know nothing of epilogues: real ones clamp and store float32, those of codes leave
// their sums in a buffer of the size of a tile for whoever follows.
#pragma once

#include <utility>

#include "engine/kernels/tile.h"

namespace nacre::inline NACRE_ISA {

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// count in `parts` nearly equal numbers: f(first, how many).
template <class F>
void each_part(int count, int parts, const F& f) {
  const int least = count / parts, more = count % parts;
  for (int part = 0, first = 0; part < parts; ++part) {
    const int size = least + (part < more ? 1 : 0);
    f(first, size);
    first += size;
  }
}

template <class V, class W>
struct RealProduct {
  static constexpr int kMaxRows = std::is_same_v<W, float> ? V::kRealRows : V::kRealRows / 2;

  int out;
  const W* w;
  ptrdiff_t panel;     // elements from one panel of w to the next
  const float* start;  // [out rounded up to whole panels]
  float low, high;
  ptrdiff_t step = V::kLanes;  // elements from one term of w to the next: a row where w is a matrix in rows

  // y: rows `y_step` apart.
  void run(const float* x, const TileRows& shape, int count, float* y, ptrdiff_t y_step) const {
    const int panels = ceil_div(out, V::kLanes);
    if (count == 1 && shape.runs == 1) return row(x, shape.length, panels, y);
    const int tiles = ceil_div(count, kMaxRows);
    int p = 0;
    for (; p + 2 <= panels; p += 2) columns<2>(x, shape, count, tiles, p, y, y_step);
    if (p < panels) columns<1>(x, shape, count, tiles, p, y, y_step);
  }

 private:
  struct At {  // clamps and stores
    float* y;
    ptrdiff_t step;
    int left;
    typename V::F low, high;

    void operator()(int r, int v, typename V::F sum) const {
      const typename V::F clamped = V::min(high, V::max(low, sum));
      V::store(y + r * step + v * V::kLanes, clamped, V::most(left - v * V::kLanes));
    }
  };
  TileColumns<W> columns_at(int p) const { return {w + p * panel, panel, step}; }
  At at(float* y, ptrdiff_t y_step, int p) const {
    return {y + p * V::kLanes, y_step, out - p * V::kLanes, V::set(low), V::set(high)};
  }

  using Tile = void (*)(const RealProduct&, const float*, const TileRows&, int p, float* y, ptrdiff_t y_step);
  template <int kRows, int kVectors>
  [[gnu::noinline]] static void tile(const RealProduct& self, const float* x, const TileRows& shape, int p, float* y,
                                     ptrdiff_t y_step) {
    const float* const start = self.start + p * V::kLanes;
    real_tile<V, kRows, kVectors>(
        x, shape, self.columns_at(p), [start](int, int v) { return V::load(start + v * V::kLanes); },
        self.at(y, y_step, p));
  }
  template <int kVectors, int... kLess>
  static constexpr Tile tile_of(int rows, std::integer_sequence<int, kLess...>) {
    constexpr Tile kTiles[] = {&tile<kLess + 1, kVectors>...};
    return kTiles[rows - 1];
  }

  template <int kVectors>
  void columns(const float* x, const TileRows& shape, int count, int tiles, int p, float* y, ptrdiff_t y_step) const {
    each_part(count, tiles, [&](int first, int rows) {
      tile_of<kVectors>(rows, std::make_integer_sequence<int, kMaxRows>())(*this, x + first * shape.rows, shape, p,
                                                                           y + first * y_step, y_step);
    });
  }

  void row(const float* x, int length, int panels, float* y) const {
    int p = 0;
    for (; p + 4 <= panels; p += 4) one_row<2, 4>(x, length, p, y);
    for (; p + 2 <= panels; p += 2) one_row<4, 2>(x, length, p, y);
    if (p < panels) one_row<4, 1>(x, length, p, y);
  }
  template <int kParts, int kVectors>
  void one_row(const float* x, int length, int p, float* y) const {
    real_row<V, kParts, kVectors>(x, length, columns_at(p), start + p * V::kLanes, at(y, 0, p));
  }
};

template <class V>
struct DotProduct {
  static constexpr int kMaxRows = V::kDotRows, kMaxVectors = 4;
  static constexpr int kStep = kMaxVectors * V::kLanes;  // from row to row of the sums

  int out;
  const int8_t* w;
  ptrdiff_t panel;
  const int32_t* start;

  // finish(sums, rows, vectors, first row, first column) for each tile; sums [rows][kStep].
  template <class Finish>
  void run(const typename V::Code* x, const TileRows& shape, int count, const Finish& finish) const {
    alignas(64) int32_t sums[kMaxRows * kStep];
    const int panels = ceil_div(out, V::kLanes);
    const bool one = count == 1 && shape.runs == 1;
    const int tiles = ceil_div(count, kMaxRows);
    for (int p = 0; p < panels;) {
      const int left = panels - p, vectors = one && left >= 4 ? 4 : left >= 2 ? 2 : 1;
      each_part(count, tiles, [&](int first, int rows) {
        const Tile call = one ? row_of(vectors) : tile_of(rows, vectors, std::make_integer_sequence<int, kMaxRows>());
        call(x + first * shape.rows, shape, w + p * panel, panel, start + p * V::kLanes, sums);
        finish(sums, rows, vectors, first, p * V::kLanes);
      });
      p += vectors;
    }
  }

 private:
  struct At {
    int32_t* sums;
    void operator()(int r, int v, typename V::I sum) const { V::store(sums + r * kStep + v * V::kLanes, sum); }
  };
  using Tile = void (*)(const typename V::Code*, const TileRows&, const int8_t* w, ptrdiff_t panel,
                        const int32_t* start, int32_t* sums);
  template <int kRows, int kVectors>
  [[gnu::noinline]] static void tile(const typename V::Code* x, const TileRows& shape, const int8_t* w, ptrdiff_t panel,
                                     const int32_t* start, int32_t* sums) {
    dot_tile<V, kRows, kVectors>(x, shape, w, panel, start, At{sums});
  }
  template <int kParts, int kVectors>
  [[gnu::noinline]] static void row(const typename V::Code* x, const TileRows& shape, const int8_t* w, ptrdiff_t panel,
                                    const int32_t* start, int32_t* sums) {
    dot_row<V, kParts, kVectors>(x, shape.length, w, panel, start, At{sums});
  }
  template <int... kLess>
  static constexpr Tile tile_of(int rows, int vectors, std::integer_sequence<int, kLess...>) {
    constexpr Tile kTiles[][2] = {{&tile<kLess + 1, 1>, &tile<kLess + 1, 2>}...};
    return kTiles[rows - 1][vectors - 1];
  }
  static constexpr Tile row_of(int vectors) {
    return vectors == 4 ? &row<2, 4> : vectors == 2 ? &row<4, 2> : &row<4, 1>;
  }
};

}  // namespace nacre::inline NACRE_ISA
