// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/column_blocks.h"
#include "engine/kernels/fast/layer_gradient/forms.h"
#include "engine/kernels/fast/loops.h"
#include "engine/simd/vec.h"

// Functions are flattened and lambdas inlined, because a call costs more than its work if vectors are plain C++.
namespace nacre::inline NACRE_ISA {

// Returns the next larger float, so that v <= low can be tested as v < above(low). For NaN both are false.
inline float above(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if (v == std::numeric_limits<float>::infinity()) return v;
  return std::bit_cast<float>(v == 0 ? 1u : v > 0 ? bits + 1 : bits - 1);
}

template <Slope kSlope, class T>
[[gnu::flatten]] void SlopeForm<kSlope, T>::run(const T* dy, const T* v, T* dx, const Args&) const {
  using V = Vector;
  using F = typename V::F;
  const F zero = V::set(0.0f), one = V::set(1.0f);
  if constexpr (kSlope == Slope::kClamp) {
    const bool bounds = words[Clip::kClamp] != Clamp::kNone;
    const auto bound = [&](int word) { return bounds ? float(T(words.real(Clip::kClamp + word))) : 0.0f; };
    const F low = V::set(above(bound(1))), high = V::set(-above(-bound(2)));
    each_vector<V>(
        elements, [&](int i, auto lanes) __attribute__((always_inline)) {
          F d = load<V>(dy + i, lanes);
          const F at = load<V>(v + i, lanes);
          if (bounds) d = V::select(V::less(at, low), zero, V::select(V::less(high, at), zero, d));
          store<V>(dx + i, d, lanes);
        });
    return;
  }
  const F alpha = V::set(kSlope == Slope::kLeakyRelu ? words.real(0) : 0.0f), two = V::set(2.0f), three = V::set(3.0f);
  const F six = V::set(6.0f), low = V::set(above(-3.0f)), high = V::set(-above(-3.0f));
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        const F d = load<V>(dy + i, lanes), at = load<V>(v + i, lanes);
        F made;
        if constexpr (kSlope == Slope::kLeakyRelu) made = V::select(V::less(zero, at), d, V::mul(alpha, d));
        if constexpr (kSlope == Slope::kSigmoid) made = V::mul(V::mul(d, at), V::sub(one, at));
        if constexpr (kSlope == Slope::kTanh) made = V::mul(d, V::sub(one, V::mul(at, at)));
        if constexpr (kSlope == Slope::kHardSwish) {
          const F bent = V::div(V::mul(d, V::add(V::mul(two, at), three)), six);
          made = V::select(V::less(at, low), zero, V::select(V::less(high, at), d, bent));
        }
        store<V>(dx + i, made, lanes);
      });
}

// Computes sum_v += sum_r term(r, v) in the order of add_columns of engine/ops/gradient.h: each block of kBlockRows
// rows has a sum of its own.
template <class V, class Block, class Term>
[[gnu::always_inline]] inline void add_rows(int rows, const Block& block, typename V::F (&sum)[Block::kVectors],
                                            const Term& term) {
  for (int r = 0; r < rows;) {
    const int end = rows - r < kBlockRows ? rows : r + kBlockRows;
    typename V::F part[Block::kVectors];
    block.each([&](int v) { part[v] = V::set(0.0f); });
    for (; r < end; ++r) block.each([&](int v) { part[v] = V::add(part[v], term(r, v)); });
    block.each([&](int v) { sum[v] = V::add(sum[v], part[v]); });
  }
}

template <class T>
[[gnu::flatten]] void BatchNormTrainingForm<T>::run(const T* x, const float* scale, const float* bias,
                                                    Update<float> mean_sum, Update<float> variance_sum,
                                                    Update<float> batches, T* y, float* mean, float* inverse_deviation,
                                                    const Args&) const {
  using V = Vector;
  using F = typename V::F;
  const F count = V::set(float(rows)), others = V::set(float(unbiased && rows > 1 ? rows - 1 : rows));
  const F least = V::set(epsilon), one = V::set(1.0f);
  each_column_block<V>(
      channels, [&](int first, auto block) __attribute__((always_inline)) {
        constexpr int kVectors = decltype(block)::kVectors;
        F m[kVectors], squares[kVectors], factor[kVectors], shift[kVectors];
        const auto at = [&](int r, int v) { return block.load(x + ptrdiff_t(r) * channels + first, v); };
        const auto add = [&](float* sum, int v, F value) {
          block.store(sum + first, v, V::add(block.load(sum + first, v), value));
        };
        block.each([&](int v) { m[v] = squares[v] = V::set(0.0f); });
        add_rows<V>(rows, block, m, at);
        block.each([&](int v) { m[v] = V::div(m[v], count); });
        add_rows<V>(rows, block, squares, [&](int r, int v) {
          const F d = V::sub(at(r, v), m[v]);
          return V::mul(d, d);
        });
        block.each([&](int v) {
          add(mean_sum.data, v, m[v]);
          add(variance_sum.data, v, V::div(squares[v], others));
          const F inverse = V::div(one, V::sqrt(V::add(V::div(squares[v], count), least)));
          block.store(mean + first, v, m[v]);
          block.store(inverse_deviation + first, v, inverse);
          factor[v] = V::mul(inverse, block.load(scale + first, v));
          shift[v] = block.load(bias + first, v);
        });
        for (int r = 0; r < rows; ++r)
          block.each([&](int v) {
            block.store(y + ptrdiff_t(r) * channels + first, v,
                        V::add(V::mul(V::sub(at(r, v), m[v]), factor[v]), shift[v]));
          });
      });
  batches.data[0] += 1;
}

template <class T>
[[gnu::flatten]] void BatchNormTrainingXForm<T>::run(const T* dy, const T* x, const float* scale, const float* mean,
                                                     const float* inverse_deviation, T* dx, const Args&) const {
  using V = Vector;
  using F = typename V::F;
  const F count = V::set(float(rows));
  each_column_block<V>(
      channels, [&](int first, auto block) __attribute__((always_inline)) {
        constexpr int kVectors = decltype(block)::kVectors;
        F m[kVectors], inverse[kVectors], factor[kVectors], sum[kVectors], product[kVectors];
        const auto d = [&](int r, int v) { return block.load(dy + ptrdiff_t(r) * channels + first, v); };
        const auto u = [&](int r, int v) {
          return V::mul(V::sub(block.load(x + ptrdiff_t(r) * channels + first, v), m[v]), inverse[v]);
        };
        block.each([&](int v) {
          m[v] = block.load(mean + first, v);
          inverse[v] = block.load(inverse_deviation + first, v);
          factor[v] = V::mul(block.load(scale + first, v), inverse[v]);
          sum[v] = product[v] = V::set(0.0f);
        });
        add_rows<V>(rows, block, sum, d);
        add_rows<V>(rows, block, product, [&](int r, int v) { return V::mul(d(r, v), u(r, v)); });
        block.each([&](int v) {
          sum[v] = V::div(sum[v], count);
          product[v] = V::div(product[v], count);
        });
        for (int r = 0; r < rows; ++r)
          block.each([&](int v) {
            const F rest = V::sub(V::sub(d(r, v), sum[v]), V::mul(u(r, v), product[v]));
            block.store(dx + ptrdiff_t(r) * channels + first, v, V::mul(factor[v], rest));
          });
      });
}

template <class T>
[[gnu::flatten]] void BatchNormTrainingScaleForm<T>::run(const T* dy, const T* x, const float* mean,
                                                         const float* inverse_deviation, Update<float> dscale,
                                                         const Args&) const {
  using V = Vector;
  using F = typename V::F;
  each_column_block<V>(
      channels, [&](int first, auto block) __attribute__((always_inline)) {
        constexpr int kVectors = decltype(block)::kVectors;
        F m[kVectors], sum[kVectors];
        block.each([&](int v) {
          m[v] = block.load(mean + first, v);
          sum[v] = V::set(0.0f);
        });
        add_rows<V>(rows, block, sum, [&](int r, int v) {
          const ptrdiff_t at = ptrdiff_t(r) * channels + first;
          return V::mul(block.load(dy + at, v), V::sub(block.load(x + at, v), m[v]));
        });
        block.each([&](int v) {
          float* const to = dscale.data + first;
          block.store(to, v, V::add(block.load(to, v), V::mul(sum[v], block.load(inverse_deviation + first, v))));
        });
      });
}

}  // namespace nacre::inline NACRE_ISA
