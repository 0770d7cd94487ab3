// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/broadcast_gradient/forms.h"
#include "engine/kernels/fast/loops.h"

namespace nacre::inline NACRE_ISA {

// Describes terms that are added to sums[0 .. count), or to 0 if `fresh`. The terms are the numbers `first` to `first +
// count` of `times` runs. at[n] is the offset of the first run in array n; the other runs follow in steps of stride[n].
template <int N>
struct TermBlock {
  float* sums;
  bool fresh;
  int first, count, times;
  int32_t at[N], stride[N];
};
template <int N>
using AddTerms = void(const void* form, const TermBlock<N>& block);

// Sets to_i to the sum of its terms, which `add` adds block by block. float32 sums of kept runs are made in place. If
// a run becomes one number, each of its terms is added to the one kBlock numbers before it.
template <class V, int N, class T>
[[gnu::noinline]] void sum_terms(const TermWalk<N>& walk, T* to, AddTerms<N>* add, const void* form) {
  constexpr int kBlock = 128;
  alignas(64) float sums[kBlock];
  TermBlock<N> block = {sums, true, 0, 0, 1, {}, {}};
  Walk<N> summed = walk.summed;
  if (summed.rank > 0) {  // the block goes along the last axis
    --summed.rank;
    block.times = summed.size[summed.rank];
    for (int n = 0; n < N; ++n) block.stride[n] = summed.stride[n][summed.rank];
  }
  const bool direct = std::is_same_v<T, float> && !walk.sums;
  const int most = direct && block.times == 1 ? walk.count : kBlock;
  walk.kept.each([&](const int32_t* at) {
    for (block.first = 0; block.first < walk.count; block.first += most) {
      block.count = walk.count - block.first < most ? walk.count - block.first : most;
      block.fresh = !walk.sums || block.first == 0;
      if constexpr (std::is_same_v<T, float>)
        if (direct) block.sums = to;
      summed.each([&](const int32_t* from) {
        for (int n = 0; n < N; ++n) block.at[n] = at[n] + from[n];
        add(form, block);
        block.fresh = false;
      });
      if (walk.sums) continue;
      if (!direct) from_floats<V>(to, sums, block.count);
      to += block.count;
    }
    if (walk.sums) *to++ = T(V::sum(fold<V>(sums, walk.count < kBlock ? walk.count : kBlock, V::set(0.0f), Plus<V>())));
  });
}

// Adds term(offsets, i, n) for every vector of a block: n terms, from number i of the run on.
template <class V, int kMost, int N, class Term>
[[gnu::always_inline]] inline void add_terms(const TermBlock<N>& block, const Term& term) {
  const auto add = [&](int i, auto vectors, auto n) __attribute__((always_inline)) {
    constexpr int kVectors = decltype(vectors)::value;
    typename V::F sum[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[v] = block.fresh ? V::set(0.0f) : load<V>(block.sums + i + v * V::kLanes, n);
    int32_t at[N];
    for (int k = 0; k < N; ++k) at[k] = block.at[k];
    for (int t = 0; t < block.times; ++t) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[v] = V::add(sum[v], term(at, block.first + i + v * V::kLanes, n));
      for (int k = 0; k < N; ++k) at[k] += block.stride[k];
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store<V>(block.sums + i + v * V::kLanes, sum[v], n);
  };
  int i = 0;
  if constexpr (kMost > 1)
    for (; i + kMost * V::kLanes <= block.count; i += kMost * V::kLanes)
      add(i, std::integral_constant<int, kMost>(), Whole());
  for (; i < block.count; i += V::kLanes) add(i, std::integral_constant<int, 1>(), V::most(block.count - i));
}

// Returns n numbers from p + i on, or *p in each lane if step is 0.
template <class V, class T>
[[gnu::always_inline]] inline typename V::F along(const T* p, int step, int i, auto n) {
  return step != 0 ? load<V>(p + i, n) : V::set(float(*p));
}

// Adds a block's terms for one function `term`, as an AddTerms. All its calls are inlined (flatten).
template <class V, int kMost, int N, class Term>
[[gnu::flatten]] void add_terms_of(const void* term, const TermBlock<N>& block) {
  add_terms<V, kMost>(block, *static_cast<const Term*>(term));
}
template <class V, int kMost, int N, class T, class Term>
[[gnu::always_inline]] inline void sum_terms_of(const TermWalk<N>& walk, T* to, const Term& term) {
  sum_terms<V>(walk, to, &add_terms_of<V, kMost, N, Term>, &term);
}

template <class T>
void FastSumTo<T>::run(const T* dy, T* dx) const {
  using V = Vector;
  const V::F sign = V::set(negative ? -1.0f : 1.0f);
  sum_terms_of<V, 4>(
      walk, dx, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
        return V::mul(sign, load<V>(dy + at[0] + i, n));
      });
}

template <class T>
void FastMulGradient<T>::run(const T* dy, const T* b, T* da) const {
  using V = Vector;
  sum_terms_of<V, 4>(
      walk, da, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
        return V::mul(load<V>(dy + at[0] + i, n), along<V>(b + at[1], walk.step[1], i, n));
      });
}

template <class T>
void FastSelectGradient<T>::run(const T* dy, const Bool* c, T* dx) const {
  using V = Vector;
  const V::F zero = V::set(0.0f);
  sum_terms_of<V, 1>(
      walk, dx, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
        const V::F d = load<V>(dy + at[0] + i, n);
        const V::F chosen = along<V>(reinterpret_cast<const int8_t*>(c + at[1]), walk.step[1], i, n);
        const V::M yes = V::less(zero, V::abs(chosen));
        return when ? V::select(yes, d, zero) : V::select(yes, zero, d);
      });
}

// Returns dy/db if `second`, else dy/da, of a function of binary.h but pow.
template <class V>
[[gnu::always_inline]] inline typename V::F slope_of(uint32_t function, bool second, typename V::F a, typename V::F b) {
  using F = typename V::F;
  const F zero = V::set(0.0f), one = V::set(1.0f);
  switch (function) {
    case Binary::kDiv: return second ? V::div(V::sub(zero, a), V::mul(b, b)) : V::div(one, b);
    case Binary::kMaximum:
    case Binary::kMinimum: {
      const auto other = function == Binary::kMaximum ? V::less(a, b) : V::less(b, a);
      const F first = V::select(V::is_nan(a), one, V::select(V::is_nan(b), zero, V::select(other, zero, one)));
      return second ? V::sub(one, first) : first;
    }
    case Binary::kSquaredDifference: return V::mul(V::set(2.0f), second ? V::sub(b, a) : V::sub(a, b));
    default: return zero;
  }
}

template <class T>
void FastBinaryGradient<T>::run(const T* dy, const T* a, const T* b, T* dx) const {
  using V = Vector;
  sum_terms_of<V, 1>(
      walk, dx, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
        const V::F u = along<V>(a + at[1], walk.step[1], i, n), v = along<V>(b + at[2], walk.step[2], i, n);
        return V::mul(load<V>(dy + at[0] + i, n), slope_of<V>(function, second, u, v));
      });
}

template <class T>
void FastMeanGradient<T>::run(const T* dy, T* dx) const {
  using V = Vector;
  const V::F divisor = V::set(float(count));
  sum_terms_of<V, 1>(
      walk, dx, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
        return V::div(along<V>(dy + at[0], walk.step[0], i, n), divisor);
      });
}

// Returns 1 if v equals the extreme y, or if both are NaN; else 0.
template <class V>
[[gnu::always_inline]] inline typename V::F takes(typename V::F v, typename V::F y) {
  const typename V::F zero = V::set(0.0f), one = V::set(1.0f);
  const auto number = V::select(V::less(v, y), zero, V::select(V::less(y, v), zero, one));
  return V::select(V::is_nan(y), V::select(V::is_nan(v), one, zero), number);
}

template <class T>
[[gnu::flatten]] void FastReduceGradient<T>::run(const T* dy, const T* x, const T* y, T* dx) const {
  using V = Vector;
  const V::F zero = V::set(0.0f);
  if (function == Reduce::kSum) {
    sum_terms_of<V, 1>(
        walk, dx, [&](const int32_t* at, int i, auto n) __attribute__((always_inline)) {
          return along<V>(dy + at[0], walk.step[0], i, n);
        });
    return;
  }
  const ptrdiff_t step = extent.inner, size = step * extent.count;
  for (int o = 0; o < extent.outer; ++o, x += size, dx += size, dy += step, y += step) {
    if (step == 1) {
      const V::F result = V::set(float(*y));
      V::F count = zero;
      for (int i = 0; i < extent.count; i += V::kLanes) {
        const int n = V::most(extent.count - i);
        count = V::add(count, V::part(n, takes<V>(V::load(x + i, n), result), zero));
      }
      const V::F share = V::div(V::set(float(*dy)), V::set(V::sum(count)));
      each_vector<V>(
          extent.count, [&](int i, auto n) __attribute__((always_inline)) {
            store<V>(dx + i, V::select(V::less(zero, takes<V>(load<V>(x + i, n), result)), share, zero), n);
          });
      continue;
    }
    for (int i = 0; i < extent.inner; i += V::kLanes) {
      const int n = V::most(extent.inner - i);
      const V::F result = V::load(y + i, n);
      V::F count = zero;
      for (ptrdiff_t j = i; j < size; j += step) count = V::add(count, takes<V>(V::load(x + j, n), result));
      const V::F share = V::div(V::load(dy + i, n), count);
      for (ptrdiff_t j = i; j < size; j += step)
        V::store(dx + j, V::select(V::less(zero, takes<V>(V::load(x + j, n), result)), share, zero), n);
    }
  }
}

}  // namespace nacre::inline NACRE_ISA
