// Multiplies blocks of rows by packed weights, tile by tile.
//
//   s_rk = start_k + sum_i x_ri w_ki       w in panels of kLanes rows
//
// A block's rows are cut into tiles of nearly equal height. For each group of columns all tiles run, so that these
// weights stay in the cache. RealProduct clamps and stores float32. DotProduct, for codes and pairs of bfloat16, gives
// the sums of each tile to the caller's `finish`.
#pragma once

#include <utility>

#include "engine/kernels/fast/matmul/forms.h"
#include "engine/kernels/fast/tile.h"

namespace nacre::inline NACRE_ISA {

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Cuts count into `parts` nearly equal parts and calls f(first, how many) for each.
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
  ptrdiff_t step = V::kLanes;  // elements from one term of w to the next; in a matrix in rows that is a row
  float* decoded = nullptr;    // room to decode two panels of w to float32, which pays for many rows; or null
  int all_rows = 1;            // rows of the whole product, not of x alone; they decide how a row is summed

  // Writes y, whose rows are `y_step` apart.
  void run(const float* x, const TileRows& shape, int count, float* y, ptrdiff_t y_step) const {
    const int panels = ceil_div(out, V::kLanes);
    if (all_rows == 1 && count == 1 && shape.runs == 1) return row(x, shape.length, panels, y);
    int p = 0;
    for (; p + 2 <= panels; p += 2) columns<2>(x, shape, count, p, y, y_step);
    if (p < panels) columns<1>(x, shape, count, p, y, y_step);
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
  void columns(const float* x, const TileRows& shape, int count, int p, float* y, ptrdiff_t y_step) const {
    if constexpr (!std::is_same_v<W, float>)
      if (decoded != nullptr && count >= kDecodedRows)
        return decoded_columns<kVectors>(x, shape, count, p, y + p * V::kLanes, y_step);
    constexpr int kMost = kVectors == 1 && kMaxRows == V::kRealRows ? V::kTallRows : kMaxRows;
    each_part(count, ceil_div(count, kMost), [&](int first, int rows) {
      tile_of<kVectors>(rows, std::make_integer_sequence<int, kMost>())(*this, x + first * shape.rows, shape, p,
                                                                        y + first * y_step, y_step);
    });
  }

  template <int kVectors>
  [[gnu::noinline]] void decoded_columns(const float* x, const TileRows& shape, int count, int p, float* y,
                                         ptrdiff_t y_step) const {
    const int length = shape.runs * shape.length * V::kLanes, left = out - p * V::kLanes;
    for (int v = 0; v < kVectors; ++v)
      for (int i = 0; i < length; i += V::kLanes) V::store(decoded + v * length + i, V::load(w + (p + v) * panel + i));
    const int most = kVectors * V::kLanes;
    RealProduct<V, float>{left < most ? left : most, decoded, length, start + p * V::kLanes, low, high}.run(
        x, shape, count, y, y_step);
  }

  void row(const float* x, int length, int panels, float* y) const {
    int p = 0;
    for (; p + 4 <= panels; p += 4) one_row<2, 4>(x, length, p, y);
    for (; p + 2 <= panels; p += 2) one_row<4, 2>(x, length, p, y);
    if (p < panels) one_row<4, 1>(x, length, p, y);
  }
  template <int kParts, int kVectors>
  void one_row(const float* x, int length, int p, float* y) const {
    if constexpr (std::is_same_v<W, Float8E4M3> && V::kHalfFloat8 && kVectors >= 2)
      if (step == V::kLanes && half_row<V, kVectors>(x, length, columns_at(p), start + p * V::kLanes, at(y, 0, p)))
        return;
    real_row<V, kParts, kVectors>(x, length, columns_at(p), start + p * V::kLanes, at(y, 0, p));
  }
};

// The state that V::Blocks keeps from one product to the next, for a V that multiplies blocks of rows at once
// (simd/vec.h).
struct NoBlocks {
  static constexpr bool kReal = false;
};
template <class V>
struct BlocksOf {
  using Type = NoBlocks;
};
template <class V>
  requires requires { typename V::Blocks; }
struct BlocksOf<V> {
  using Type = typename V::Blocks;
};

template <class V, class D>
struct DotProduct {
  using X = typename D::X;
  using W = typename D::W;
  using Sum = typename D::Sum;
  using Blocks = typename BlocksOf<V>::Type;
  static constexpr bool kCodes = std::is_same_v<Sum, int32_t>;
  static constexpr bool kDecodes = sizeof(W) < sizeof(X) && !kCodes;  // weights of 8 bits become bfloat16
  static constexpr bool kBlocks = kCodes ? !std::is_same_v<Blocks, NoBlocks> : Blocks::kReal && !kDecodes;
  // Decoding keeps constants in registers, so its tiles have four rows fewer.
  static constexpr int kMaxRows = kCodes ? V::kDotRows : V::kRealRows - (kDecodes ? 4 : 0), kMaxVectors = 4;
  static constexpr int kTallRows = kMaxRows == V::kRealRows ? V::kTallRows : kMaxRows;  // of tiles of one vector
  static constexpr bool kWide = !kCodes || V::kDotWide;                                 // tiles of two vectors
  static constexpr int kTilesAtOnce = kWide ? 1 : 4;                                    // tiles of one call, at most
  static constexpr int kStep = kMaxVectors * V::kLanes;                                 // from row to row of the sums

  int out;
  const W* w;
  ptrdiff_t panel;
  const Sum* start;
  Blocks& blocks;
  int all_rows;  // rows of the whole product, not of x alone; they decide how a row of reals is summed

  // Calls finish(sums, rows, vectors, first row, first column) for each tile; sums is [rows][kStep].
  template <class Finish>
  void run(const X* x, const TileRows& shape, int count, const Finish& finish) const {
    const int deciding = kCodes ? count : all_rows;
    if constexpr (kBlocks)
      if (Blocks::takes(deciding, shape.length * int(sizeof(X)))) return run_blocks(x, shape, count, finish);
    alignas(64) Sum sums[kTilesAtOnce * kTallRows * kStep];
    const int panels = ceil_div(out, V::kLanes);
    const bool one = deciding == 1 && count == 1 && shape.runs == 1;
    for (int p = 0; p < panels;) {
      const int left = panels - p, most = one ? kMaxVectors : kWide ? 2 : 1;
      const int vectors = left >= most ? most : left >= 2 && most > 1 ? 2 : 1;
      each_tiles(count, ceil_div(count, vectors == 1 ? kTallRows : kMaxRows), [&](int first, int rows, int tiles) {
        const Tile call = one ? row_of(vectors) : tile_of(rows, vectors);
        call(x + first * shape.rows, shape, w + p * panel, panel, start + p * V::kLanes, sums, tiles);
        finish(sums, tiles * rows, vectors, first, p * V::kLanes);
      });
      p += vectors;
    }
  }

 private:
  struct At {
    Sum* sums;
    template <class Vector>
    void operator()(int r, int v, Vector sum) const {
      V::store(sums + r * kStep + v * V::kLanes, sum);
    }
  };
  // Cuts count into nearly equal parts, as each_part. Calls f(first, how many, how often), for up to kTilesAtOnce
  // equal parts at a time.
  template <class F>
  static void each_tiles(int count, int parts, const F& f) {
    const int least = count / parts, more = count % parts;
    for (int part = 0, first = 0, tiles = 0; part < parts; part += tiles) {
      const int rows = least + (part < more ? 1 : 0), alike = (part < more ? more : parts) - part;
      tiles = alike < kTilesAtOnce ? alike : kTilesAtOnce;
      f(first, rows, tiles);
      first += tiles * rows;
    }
  }

  using Tile = void (*)(const X*, const TileRows&, const W* w, ptrdiff_t panel, const Sum* start, Sum* sums, int tiles);
  template <int kRows, int kVectors>
  [[gnu::noinline]] static void tile(const X* x, const TileRows& shape, const W* w, ptrdiff_t panel, const Sum* start,
                                     Sum* sums, int tiles) {
    for (;; x += kRows * shape.rows, sums += kRows * kStep) {
      dot_tile<V, D, kRows, kVectors>(x, shape, w, panel, start, At{sums});
      if (kTilesAtOnce == 1 || --tiles == 0) return;
    }
  }
  template <int kParts, int kVectors>
  [[gnu::noinline]] static void row(const X* x, const TileRows& shape, const W* w, ptrdiff_t panel, const Sum* start,
                                    Sum* sums, int) {
    if constexpr (kDecodes) decoded_row<V, D, kVectors>(x, shape.length, w, panel, start, At{sums});
    else dot_row<V, D, kParts, kVectors>(x, shape.length, w, panel, start, At{sums});
  }
  template <int kVectors, int... kLess>
  static constexpr Tile tile_of(int rows, std::integer_sequence<int, kLess...>) {
    constexpr Tile kTiles[] = {&tile<kLess + 1, kVectors>...};
    return kTiles[rows - 1];
  }
  static constexpr Tile tile_of(int rows, int vectors) {
    if constexpr (kWide)
      if (vectors == 2) return tile_of<2>(rows, std::make_integer_sequence<int, kMaxRows>());
    return tile_of<1>(rows, std::make_integer_sequence<int, kTallRows>());
  }
  static constexpr Tile row_of(int vectors) {
    constexpr int kParts = kWide ? 2 : 1;  // sums for each of four vectors
    return vectors == 4 ? &row<kParts, 4> : vectors == 2 ? &row<2 * kParts, 2> : &row<4, 1>;
  }

  // Multiplies blocks of one height. The last block may begin inside the one before it; the rows that both have are
  // left out of its `finish`.
  template <class Finish>
  void run_blocks(const X* x, const TileRows& shape, int count, const Finish& finish) const {
    constexpr int kSums = Blocks::kAtOnce;  // blocks of sums: blocks of rows times vectors
    alignas(64) Sum sums[Blocks::kMostRows * kStep];
    static_assert(kSums == kMaxVectors);
    const int panels = ceil_div(out, V::kLanes), height = ceil_div(count, ceil_div(count, Blocks::kMostRows));
    const ptrdiff_t bytes = ptrdiff_t(sizeof(X));
    const BlockRows rows = {shape.rows * bytes, shape.runs, int(shape.length * bytes), shape.run * bytes};
    blocks.prepare(height, rows.length);
    for (int p = 0; p < panels;) {
      const int left = panels - p, vectors = left >= 4 ? 4 : left >= 2 ? 2 : 1, at_once = kSums / vectors;
      for (int r = 0; r < count; r += at_once * height) {
        const X* from[kSums];
        int used = 0;
        const auto first = [&](int i) { return r + i * height; };
        const auto begin = [&](int i) { return first(i) < count - height ? first(i) : count - height; };
        for (; used < at_once && first(used) < count; ++used) from[used] = x + begin(used) * shape.rows;
        blocks.multiply(from, used, rows, w + p * panel, panel, vectors, start + p * V::kLanes, sums, kStep);
        for (int i = 0; i < used; ++i) {
          const int made = first(i) - begin(i);
          finish(sums + made * kStep + i * vectors * V::kLanes, height - made, vectors, first(i), p * V::kLanes);
        }
      }
      p += vectors;
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
