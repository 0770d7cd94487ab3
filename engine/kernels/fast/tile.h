// Computes one tile of a matrix product in the registers: kRows rows of x by kVectors vectors of columns of w.
//
//   sum_rc = start_c + sum_i x_ri w_ci        w in panels of kLanes rows (base/layout.h), each a row of vectors over i
//
// Rows of x (TileRows) are `rows` apart. A row is `runs` pieces of `length` numbers, and each piece begins `run` after
// the one before, so the window of a convolution is read in place. All strides are in elements.
//
// finish(r, v, sum) takes the sums of row r and vector v.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/isa.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

struct TileRows {
  ptrdiff_t rows;
  int runs, length;
  ptrdiff_t run;
};

// Pointers to the rows of x. Each multiple of `step` needs a register. So tiles of more than kMost rows have a second
// pointer, for rows from kNear on, and the compiler must not see that it is such a multiple.
template <class X, int kRows>
struct RowPointers {
  static constexpr int kMost = 12, kNear = 8;
  const X *near, *far;
  ptrdiff_t step;

  [[gnu::always_inline]] RowPointers(const X* x, ptrdiff_t rows) : near(x), far(x), step(rows) {
    if constexpr (kRows > kMost) {
      far += kNear * step;
      asm("" : "+r"(far));
    }
  }
  [[gnu::always_inline]] const X* operator()(int r) const {
    return kRows > kMost && r >= kNear ? far + (r - kNear) * step : near + r * step;
  }
};

// Columns of w. Vector v of term i is at `at` + v panel + i step. If w is packed in panels, [panel][terms][kLanes],
// step is kLanes. If w is a row-major matrix [terms][columns], panel is kLanes and step is the length of a row.
template <class W>
struct TileColumns {
  const W* at;
  ptrdiff_t panel, step;
};

// Prefetches the cache line that is `elements` ahead. The address need not be that of a number.
template <class T>
[[gnu::always_inline]] inline void ask_ahead(const T* at, ptrdiff_t elements) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) + size_t(elements) * sizeof(T)));
}

// Computes a tile of real numbers. start(r, v) returns the vector that a sum begins with. With kTransposed x is
// stored term by term: terms are `rows` apart, and the rows of a term are contiguous.
template <class V, int kRows, int kVectors, bool kTransposed = false, class W, class Start, class Finish>
[[gnu::always_inline]] inline void real_tile(const float* x, const TileRows& shape, TileColumns<W> w,
                                             const Start& start, const Finish& finish) {
  // If a vector is a cache line, weights are prefetched this many terms ahead. Measured: it saves 4 to 6 percent of
  // products whose weights lie beyond the first-level cache, and nothing of others.
  constexpr int kAhead = 12;
  constexpr bool kLine = V::kLanes * sizeof(W) == 64;
  typename V::F sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][v] = start(r, v);
  for (int run = 0; run < shape.runs; ++run, x += shape.run) {
    const RowPointers<float, kRows> row_at(x, shape.rows);
#pragma GCC unroll 1
    for (int i = 0; i < shape.length; ++i, w.at += w.step) {
      typename V::F columns[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        columns[v] = V::load(w.at + v * w.panel);
        if constexpr (kLine && kRows >= 8) ask_ahead(w.at + v * w.panel, kAhead * w.step);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const typename V::F a = V::set(kTransposed ? x[i * shape.rows + r] : row_at(r)[i]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[r][v] = V::fma(a, columns[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) finish(r, v, sum[r][v]);
}

// ---- Products of numbers that stand in groups. V::dot multiplies a group of a row with those of kLanes columns. D is
// CodeDots or PairDots. x and w are read a group at a time, or two groups (kTwice) if the loop itself costs too much.
// kGroup is the length of a group.

// Codes as V reads them, four at a time, with sums in int32.
template <class V>
struct CodeDots {
  using X = typename V::Code;
  using W = int8_t;
  using Sum = int32_t;
  using Sums = typename V::Dot;
  static constexpr int kGroup = 4;
  static constexpr bool kTwice = !V::kDotWide;
  [[gnu::always_inline]] static Sums from(const int32_t* start) { return V::dot_from(V::load_integers(start)); }
  [[gnu::always_inline]] static Sums zero() { return V::dot_from(V::set(int32_t{0})); }
  [[gnu::always_inline]] static typename V::Quad row(const X* x) { return V::quad(x); }
  [[gnu::always_inline]] static typename V::Quads columns(const W* w) { return V::quads(w); }
  [[gnu::always_inline]] static typename V::I total(Sums sums) { return V::total(sums); }
};

// Pairs of bfloat16, with sums in float32.
template <class V>
struct PairDots {
  using X = Bfloat16;
  using W = Bfloat16;
  using Sum = float;
  using Sums = typename V::F;
  static constexpr int kGroup = 2;
  static constexpr bool kTwice = false;
  [[gnu::always_inline]] static Sums from(const float* start) { return V::load(start); }
  [[gnu::always_inline]] static Sums zero() { return V::set(0.0f); }
  [[gnu::always_inline]] static auto row(const X* x) { return V::pair(x); }
  [[gnu::always_inline]] static auto columns(const W* w) { return V::pairs(w); }
  [[gnu::always_inline]] static typename V::F total(Sums sums) { return sums; }
};

// Pairs whose weights have 8 bits and are decoded to bfloat16.
template <class V, class Stored>
struct DecodedDots : PairDots<V> {
  using W = Stored;
  [[gnu::always_inline]] static auto columns(const W* w) { return V::decoded_pairs(w); }
};

// Computes a tile of sums over groups. w is [panel][groups][kLanes][kGroup]; the pieces of a row are whole groups.
template <class V, class D, int kRows, int kVectors, class Finish>
[[gnu::always_inline]] inline void dot_tile(const typename D::X* x, const TileRows& shape, const typename D::W* w,
                                            ptrdiff_t panel, const typename D::Sum* start, const Finish& finish) {
  typename D::Sums sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const typename D::Sums from = D::from(start + v * V::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][v] = from;
  }
  for (int run = 0; run < shape.runs; ++run, x += shape.run) {
    const RowPointers<typename D::X, kRows> row_at(x, shape.rows);
    const auto step = [&](int i, const typename D::W* at) __attribute__((always_inline)) {
      decltype(D::columns(at)) columns[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) columns[v] = D::columns(at + v * panel);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto a = D::row(row_at(r) + i);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[r][v] = V::dot(sum[r][v], a, columns[v]);
      }
    };
    constexpr int kGroup = D::kGroup, kGroups = kGroup * V::kLanes;
    int i = 0;
    if constexpr (D::kTwice) {
#pragma GCC unroll 1
      for (; i + kGroup < shape.length; i += 2 * kGroup, w += 2 * kGroups) {
        step(i, w);
        step(i + kGroup, w + kGroups);
      }
    }
#pragma GCC unroll 1
    for (; i < shape.length; i += kGroup, w += kGroups) step(i, w);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) finish(r, v, D::total(sum[r][v]));
}

// Computes sums of one row. Terms go to kParts sums in turn, so that no instruction waits for the one before.
template <class V, int kParts, int kVectors, class W, class Finish>
[[gnu::always_inline]] inline void real_row(const float* x, int length, TileColumns<W> w, const float* start,
                                            const Finish& finish) {
  typename V::F sum[kParts][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    sum[0][v] = V::load(start + v * V::kLanes);
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) sum[p][v] = V::set(0.0f);
  }
  int i = 0;
  for (; i + kParts <= length; i += kParts, w.at += kParts * w.step)
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const typename V::F a = V::set(x[i + p]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[p][v] = V::fma(a, V::load(w.at + v * w.panel + p * w.step), sum[p][v]);
    }
  for (; i < length; ++i, w.at += w.step) {
    const typename V::F a = V::set(x[i]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[0][v] = V::fma(a, V::load(w.at + v * w.panel), sum[0][v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) sum[0][v] = V::add(sum[0][v], sum[p][v]);
    finish(0, v, sum[0][v]);
  }
}

// Computes one row with Float8E4M3 weights as V::half_numbers reads them, in panels. x must come from that type too,
// so that nothing overflows or is subnormal:
//
//   s_c = 2^8 (2^-8 start_c + sum_even i x_i (2^-8 w_ic)) + 2^8 sum_odd i x_i (2^-8 w_ic)
//
// Returns false if a weight is NaN; then it has not called `finish`.
template <class V, int kVectors, class Finish>
[[gnu::always_inline]] inline bool half_row(const float* x, int length, TileColumns<Float8E4M3> w, const float* start,
                                            const Finish& finish) {
  constexpr float kScale = 0x1p8f;
  typename V::F sum[2][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    sum[0][v] = V::mul(V::load(start + v * V::kLanes), V::set(1 / kScale));
    sum[1][v] = V::set(0.0f);
  }
  typename V::Bytes largest = V::bytes();
  int i = 0;
#pragma GCC unroll 1
  for (; i + 2 <= length; i += 2, w.at += 2 * w.step) {
    const typename V::F even = V::set(x[i]), odd = V::set(x[i + 1]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      typename V::F first, second;
      V::half_numbers(w.at + v * w.panel, largest, first, second);
      sum[0][v] = V::fma(even, first, sum[0][v]);
      sum[1][v] = V::fma(odd, second, sum[1][v]);
    }
  }
  if (V::any_nan(largest)) return false;
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    typename V::F total = V::mul(sum[0][v], V::set(kScale));
    if (i < length) total = V::fma(V::set(x[i]), V::load(w.at + v * w.panel), total);
    finish(0, v, V::add(total, V::mul(sum[1][v], V::set(kScale))));
  }
  return true;
}

template <class V, class D, int kParts, int kVectors, class Finish>
[[gnu::always_inline]] inline void dot_row(const typename D::X* x, int length, const typename D::W* w, ptrdiff_t panel,
                                           const typename D::Sum* start, const Finish& finish) {
  typename D::Sums sum[kParts][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    sum[0][v] = D::from(start + v * V::kLanes);
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) sum[p][v] = D::zero();
  }
  constexpr int kGroup = D::kGroup, kGroups = kGroup * V::kLanes;
  int i = 0;
  for (; i + kGroup * kParts <= length; i += kGroup * kParts, w += kParts * kGroups)
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const auto a = D::row(x + i + kGroup * p);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[p][v] = V::dot(sum[p][v], a, D::columns(w + v * panel + p * kGroups));
    }
  for (; i < length; i += kGroup, w += kGroups) {
    const auto a = D::row(x + i);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[0][v] = V::dot(sum[0][v], a, D::columns(w + v * panel));
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    auto all = D::total(sum[0][v]);
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) all = V::add(all, D::total(sum[p][v]));
    finish(0, v, all);
  }
}

// Computes sums of one row whose weights of 8 bits are decoded two groups at a time (V::both_decoded).
template <class V, class D, int kVectors, class Finish>
[[gnu::always_inline]] inline void decoded_row(const Bfloat16* x, int length, const typename D::W* w, ptrdiff_t panel,
                                               const float* start, const Finish& finish) {
  constexpr int kGroup = D::kGroup, kGroups = kGroup * V::kLanes;
  typename V::F sum[2][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) sum[0][v] = sum[1][v] = V::set(0.0f);
  int i = 0;
#pragma GCC unroll 1
  for (; i + 2 * kGroup <= length; i += 2 * kGroup, w += 2 * kGroups) {
    const auto a = V::both(x + i);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const auto columns = V::both_decoded(w + v * panel);
      sum[0][v] = V::dot(sum[0][v], a, columns.first);
      sum[1][v] = V::dot(sum[1][v], a, columns.second);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    typename V::F all = V::add(V::load(start + v * V::kLanes), V::joined(sum[0][v], sum[1][v]));
    if (i < length) all = V::dot(all, D::row(x + i), D::columns(w + v * panel));
    finish(0, v, all);
  }
}

}  // namespace nacre::inline NACRE_ISA
