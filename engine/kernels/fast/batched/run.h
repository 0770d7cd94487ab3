// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include <limits>

#include "engine/kernels/fast/batched/forms.h"
#include "engine/kernels/fast/row_major/run.h"
#include "engine/kernels/fast/transpose_block.h"

namespace nacre::inline NACRE_ISA {

// Packs columns of a row-major matrix [terms][..] into panels [terms][kLanes] of float32, at most kLanes columns in
// each. Columns past the last one are 0.
template <class V, class T>
void pack_columns(const T* from, ptrdiff_t row, int terms, int columns, float* to) {
  for (int c = 0; c < columns; c += V::kLanes, from += V::kLanes, to += ptrdiff_t(terms) * V::kLanes) {
    const int count = V::most(columns - c);
    if (count == V::kLanes)
      for (int i = 0; i < terms; ++i) V::store(to + ptrdiff_t(i) * V::kLanes, V::load(from + i * row));
    else
      for (int i = 0; i < terms; ++i) V::store(to + ptrdiff_t(i) * V::kLanes, V::load(from + i * row, count));
  }
}

// Returns the product, without clamp and bias, of one unit of work: some columns of one pair of matrices.
template <class V, class W>
RealProduct<V, W> plain_product(int columns, const W* w, ptrdiff_t panel, const float* zeros, ptrdiff_t step) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {columns, w, panel, zeros, -kInfinity, kInfinity, step};
}

template <int kLanes, class T>
void FastBatched<kLanes, T>::run(const T* lefts, const T* rights, T* y, const Args& args) const {
  if (few()) few_rows(lefts, rights, y, args);
  else many_rows(lefts, rights, y, args);
}

// Returns rows first .. first + count of a' as float32 [count][k].
template <class V, class T>
const float* rows_of(const T* a, bool transposed, int m, int k, int first, int count, float* scratch) {
  if (transposed && m > 1) {
    transpose_floats<V>(a + first, m, k, count, scratch, k);
    return scratch;
  }
  const T* const from = a + ptrdiff_t(first) * k;
  if constexpr (std::is_same_v<T, float>) return from;
  else {
    to_floats<V>(scratch, from, count * k);
    return scratch;
  }
}

template <int kLanes, class T>
void FastBatched<kLanes, T>::few_rows(const T* lefts, const T* rights, T* y, const Args& args) const {
  using V = Vector;
  in_parts(args, work(), [&](Part part, std::span<std::byte> memory) {
    Pieces pieces = {memory.data()};
    float* const start = pieces.take<float>(size_t(chunk()));
    for (int i = 0; i < chunk(); ++i) start[i] = 0;
    float* const panel = pieces.take<float>(size_t(k) * kLanes);
    float* const rows = pieces.take<float>(size_t(m) * size_t(k));
    float* const sums = kFloat ? nullptr : pieces.take<float>(size_t(m) * size_t(chunk()));
    ptrdiff_t matrix = 0;
    batches().each([&](const int32_t* at) {
      T* const to = y + ptrdiff_t(m) * n * matrix++;
      const T* const right = rights + ptrdiff_t(at[1]) * k * n;
      const float* left = nullptr;
      for (int c = 0; c < n; c += chunk()) {
        if (!part.takes()) continue;
        if (left == nullptr) left = rows_of<V>(lefts + ptrdiff_t(at[0]) * m * k, transpose_a, m, k, 0, m, rows);
        const int columns = chunk() < n - c ? chunk() : n - c;
        float* const out = kFloat ? reinterpret_cast<float*>(to + c) : sums;
        const ptrdiff_t step = kFloat ? n : columns;
        if (transpose_b) {
          const T* const w = right + ptrdiff_t(c) * k;
          each_dot_row<V>(left, w, start, m, k, columns, [&](int r, int j, float sum) { out[r * step + j] = sum; });
        } else {
          const TileRows shape = {k, 1, k, 0};
          const int whole = columns / kLanes * kLanes;
          if (whole > 0) plain_product<V>(whole, right + c, kLanes, start, n).run(left, shape, m, out, step);
          if (whole < columns) {
            pack_columns<V>(right + c + whole, n, k, columns - whole, panel);
            plain_product<V>(columns - whole, panel, 0, start, kLanes).run(left, shape, m, out + whole, step);
          }
        }
        if constexpr (!kFloat)
          for (int r = 0; r < m; ++r) from_floats<V>(to + ptrdiff_t(r) * n + c, sums + r * step, columns);
      }
    });
  });
}

template <int kLanes, class T>
void FastBatched<kLanes, T>::many_rows(const T* lefts, const T* rights, T* y, const Args& args) const {
  using V = Vector;
  in_parts(args, work(), [&](Part part, std::span<std::byte> memory) {
    Pieces pieces = {memory.data()};
    float* const start = pieces.take<float>(size_t(chunk()));
    for (int i = 0; i < chunk(); ++i) start[i] = 0;
    float* const panels = pieces.take<float>(size_t(k) * size_t(chunk()));
    float* const rows = pieces.take<float>(size_t(block()) * size_t(k));
    float* const sums = kFloat ? nullptr : pieces.take<float>(size_t(block()) * size_t(chunk()));
    const int blocks = ceil_div(m, block());
    const TileRows shape = {k, 1, k, 0};
    ptrdiff_t matrix = 0;
    const T* packed = nullptr;  // the first of the columns that `panels` holds
    batches().each([&](const int32_t* at) {
      T* const to = y + ptrdiff_t(m) * n * matrix++;
      const T* const left = lefts + ptrdiff_t(at[0]) * m * k;
      for (int c = 0; c < n; c += chunk()) {
        const int columns = chunk() < n - c ? chunk() : n - c, first = part.unit;
        if (!part.any(blocks)) continue;
        const T* const from = rights + ptrdiff_t(at[1]) * k * n + (transpose_b ? ptrdiff_t(c) * k : c);
        if (from != packed) {
          if (transpose_b) pack_rows<V>(from, columns, k, panels);
          else pack_columns<V>(from, n, k, columns, panels);
          packed = from;
        }
        const auto product = plain_product<V>(columns, panels, ptrdiff_t(k) * kLanes, start, kLanes);
        for (int i = 0; i < blocks; ++i) {
          if ((first + i) % part.count != part.index) continue;
          const int r = i * block(), count = block() < m - r ? block() : m - r;
          const float* const x = rows_of<V>(left, transpose_a, m, k, r, count, rows);
          T* const block_to = to + ptrdiff_t(r) * n + c;
          if constexpr (kFloat) {
            product.run(x, shape, count, block_to, n);
          } else {
            product.run(x, shape, count, sums, columns);
            for (int j = 0; j < count; ++j) from_floats<V>(block_to + ptrdiff_t(j) * n, sums + j * columns, columns);
          }
        }
      }
    });
  });
}

}  // namespace nacre::inline NACRE_ISA
