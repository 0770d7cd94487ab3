// One tile of a matrix product, in the registers: kRows rows of x by kVectors vectors of columns of w.
//
//   sum_rc = start_c + sum_i x_ri w_ci        w in panels of kLanes rows (base/layout.h), each a row of vectors over i
//
// x is `rows` apart and need not be whole: a row is `runs` pieces of `length` numbers, each `run` behind the one
// before, so that the window of a convolution is read where it lies. All strides are in elements.
//
// finish(r, v, sum) takes the sums of row r and vector v.
#pragma once

#include <cstddef>

#include "engine/base/isa.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

struct TileRows {
  ptrdiff_t rows;
  int runs, length;
  ptrdiff_t run;
};

// Where the columns of w stand: vector v of term i at `at` + v panel + i step. In panels W [panel][sum of lengths]
// [kLanes] step is kLanes; of a matrix [i][c] in rows, panel is kLanes and step a row.
template <class W>
struct TileColumns {
  const W* at;
  ptrdiff_t panel, step;
};

// Of real numbers. start(r, v) is what the sums begin with. kTransposed: x stands term by term, `rows` from one to the
// next, and in a term its rows one behind the other.
template <class V, int kRows, int kVectors, bool kTransposed = false, class W, class Start, class Finish>
[[gnu::always_inline]] inline void real_tile(const float* x, const TileRows& shape, TileColumns<W> w,
                                             const Start& start, const Finish& finish) {
  typename V::F sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][v] = start(r, v);
  for (int run = 0; run < shape.runs; ++run, x += shape.run) {
#pragma GCC unroll 1
    for (int i = 0; i < shape.length; ++i, w.at += w.step) {
      typename V::F columns[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) columns[v] = V::load(w.at + v * w.panel);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const typename V::F a = V::set(kTransposed ? x[i * shape.rows + r] : x[r * shape.rows + i]);
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

// Of codes as V reads them. w: int8 [panel][quads][kLanes][4]; runs are whole quads.
template <class V, int kRows, int kVectors, class Finish>
[[gnu::always_inline]] inline void dot_tile(const typename V::Code* x, const TileRows& shape, const int8_t* w,
                                            ptrdiff_t panel, const int32_t* start, const Finish& finish) {
  typename V::Dot sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const typename V::Dot from = V::dot_from(V::load_integers(start + v * V::kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][v] = from;
  }
  for (int run = 0; run < shape.runs; ++run, x += shape.run) {
#pragma GCC unroll 1
    for (int i = 0; i < shape.length; i += 4, w += 4 * V::kLanes) {
      typename V::Quads columns[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) columns[v] = V::quads(w + v * panel);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const typename V::Quad a = V::quad(x + r * shape.rows + i);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[r][v] = V::dot(sum[r][v], a, columns[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) finish(r, v, V::total(sum[r][v]));
}

// One row, of few sums: the terms go to kParts sums in turn, so that no instruction waits for the one before.
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

template <class V, int kParts, int kVectors, class Finish>
[[gnu::always_inline]] inline void dot_row(const typename V::Code* x, int length, const int8_t* w, ptrdiff_t panel,
                                           const int32_t* start, const Finish& finish) {
  typename V::Dot sum[kParts][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    sum[0][v] = V::dot_from(V::load_integers(start + v * V::kLanes));
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) sum[p][v] = V::dot_from(V::set(int32_t{0}));
  }
  constexpr int kQuads = 4 * V::kLanes;
  int i = 0;
  for (; i + 4 * kParts <= length; i += 4 * kParts, w += kParts * kQuads)
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const typename V::Quad a = V::quad(x + i + 4 * p);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[p][v] = V::dot(sum[p][v], a, V::quads(w + v * panel + p * kQuads));
    }
  for (; i < length; i += 4, w += kQuads) {
    const typename V::Quad a = V::quad(x + i);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[0][v] = V::dot(sum[0][v], a, V::quads(w + v * panel));
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    typename V::I all = V::total(sum[0][v]);
#pragma GCC unroll 16
    for (int p = 1; p < kParts; ++p) all = V::add(all, V::total(sum[p][v]));
    finish(0, v, all);
  }
}

}  // namespace nacre::inline NACRE_ISA
