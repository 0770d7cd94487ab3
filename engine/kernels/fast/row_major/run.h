// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/matmul/run.h"
#include "engine/kernels/fast/row_major/forms.h"

namespace nacre::inline NACRE_ISA {

// Packs w [out, length] as panels [out / kLanes][length][kLanes] of float32. Rows past the last one are 0.
template <class V, class T>
void pack_rows(const T* w, int out, int length, float* to) {
  for (int k = 0; k < out; k += V::kLanes) {
    const int rows = V::most(out - k);
    for (int i = 0; i < length; i += V::kLanes) {
      const int columns = V::most(length - i);
      typename V::F block[V::kLanes];
      const T* from = w + ptrdiff_t(k) * length + i;
      if (rows == V::kLanes && columns == V::kLanes) {
#pragma GCC unroll 16
        for (int r = 0; r < V::kLanes; ++r) block[r] = V::load(from + r * length);
      } else {
        for (int r = 0; r < V::kLanes; ++r) block[r] = r < rows ? V::load(from + r * length, columns) : V::set(0.0f);
      }
      V::transpose(block);
      if (columns == V::kLanes) {
#pragma GCC unroll 16
        for (int c = 0; c < V::kLanes; ++c) V::store(to + c * V::kLanes, block[c]);
      } else {
        for (int c = 0; c < columns; ++c) V::store(to + c * V::kLanes, block[c]);
      }
      to += columns * V::kLanes;
    }
  }
}

// Calls finish(r, k, start_k + sum_i x_ri w_ki) for kRows rows r of x and all rows k of w.
template <class V, class X, class W, int kRows>
struct DotRows {
  // kFit is the number of columns whose kRows sums fit in the registers.
  static constexpr int kFit = (V::kRealRows + 4) / kRows, kColumns = kFit > 4 ? 4 : kFit;

  const X* x;
  const W* w;
  const float* start;
  int in, out;

  template <class Finish>
  void run(const Finish& finish) const {
    int k = 0;
    for (; k + kColumns <= out; k += kColumns) columns<kColumns>(k, finish);
    for (; k < out; ++k) columns<1>(k, finish);
  }

 private:
  template <int kCount, class Finish>
  [[gnu::always_inline]] void columns(int k, const Finish& finish) const {
    typename V::F sum[kRows][kCount];
    const W* row = w + ptrdiff_t(k) * in;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) sum[r][c] = V::set(0.0f);
    const auto step = [&](int i, auto load) {
      typename V::F part[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) part[r] = load(x + r * in + i);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
        const typename V::F weights = load(row + c * in + i);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[r][c] = V::fma(part[r], weights, sum[r][c]);
      }
    };
    int i = 0;
#pragma GCC unroll 1
    for (; i + V::kLanes <= in; i += V::kLanes) step(i, [](const auto* p) { return V::load(p); });
    if (i < in) step(i, [n = in - i](const auto* p) { return V::load(p, n); });
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCount; ++c) finish(r, k + c, start[k + c] + V::sum(sum[r][c]));
  }
};

// Calls put(r, k, start_k + sum_i x_ri w_ki) for x [rows, in] and w [out, in].
template <class V, class X, class W, class Put>
void each_dot_row(const X* x, const W* w, const float* start, int rows, int in, int out, const Put& put) {
  for (int r = 0; r < rows;) {
    const int count = rows - r < 4 ? rows - r : 4;
    const X* const from = x + r * in;
    const auto put_from = [&](int i, int k, float sum) { put(r + i, k, sum); };
    if (count == 4) DotRows<V, X, W, 4>{from, w, start, in, out}.run(put_from);
    else if (count >= 2) DotRows<V, X, W, 2>{from, w, start, in, out}.run(put_from);
    else DotRows<V, X, W, 1>{from, w, start, in, out}.run(put_from);
    r += count == 3 ? 2 : count;
  }
}

template <class V, class T>
void few_rows(const Dense& op, const T* x, const T* w, const float* start, T* y) {
  const Clamp clamp = op.epilogue.clamp;
  each_dot_row<V>(x, w, start, op.rows, op.in, op.out,
                  [&](int r, int k, float sum) { y[r * op.out + k] = T(clamp.real(sum)); });
}

// Packs weights that lie in rows, and calls f(sums, columns, index into y, channel) for runs of sums.
template <class V, int kGroup, class O, int kLanes, class T, class F>
void each_row_major_sum(const FastMatmul<O, kLanes>& matmul, const T* x, const T* w, const float* start,
                        const Args& args, Pieces scratch, const F& f) {
  using Weights = RowMajorWeights<O, kLanes, T, kGroup>;
  const ProductSizes s = sizes_of(matmul.op, 1);
  float* const packed = scratch.take<float>(Weights::numbers(matmul));
  const auto each = [&](const float* sums, int columns, int i, int, int k) { f(sums, columns, i, k); };
  if constexpr (kGroup == 2)
    if (Weights::takes_pairs(matmul.op)) {
      pack_rows<V>(reinterpret_cast<const float*>(w), s.out * s.groups, s.length / 2, packed);
      return each_sum_row<V, 2, true>(matmul, x, reinterpret_cast<const T*>(packed), start, args, scratch, each);
    }
  pack_rows<V>(w, s.out * s.groups, s.length, packed);
  each_real_block<V, true>(matmul, x, packed, start, args, scratch, each);
}

template <class O, int kLanes, class T, int kGroup>
void RowMajorForm<O, kLanes, T, kGroup>::run(const T* x, const T* w, Optional<const T>, T* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  if constexpr (std::is_same_v<O, Dense>)
    if (has_few_rows(this->op)) return few_rows<V>(this->op, x, w, start, y);
  const Clamp clamp = this->op.epilogue.clamp;
  if constexpr (std::is_same_v<T, float>) {
    const ProductSizes s = sizes_of(this->op, 1);
    float* const packed = scratch.take<float>(RowMajorWeights<O, kLanes, T, kGroup>::numbers(*this));
    pack_rows<V>(w, s.out * s.groups, s.length, packed);
    in_parts_behind(*this, args, scratch, false, [&](const Part& part, const Pieces& mine) {
      real_sums<V>(*this, x, packed, start, mine, part, clamp, y);
    });
  } else {
    const auto put = scaled_sums<V>(this->op.epilogue, SumScale::kNone, static_cast<const float*>(nullptr),
                                    Optional<const T>{nullptr});
    each_row_major_sum<V, kGroup>(*this, x, w, start, args, scratch,
                                  [&](const float* sums, int columns, int i, int k) { put(sums, columns, k, y + i); });
  }
}

}  // namespace nacre::inline NACRE_ISA
