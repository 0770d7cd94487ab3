// Code of the kernel forms of forms.h that are pools and reductions, over a vector type V (engine/simd).
// ports/vector/family.cc includes it and is compiled for several instruction sets.
#pragma once

#include <limits>

#include "engine/kernels/fast/code_scale.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/pointwise/run.h"
#include "engine/kernels/fast/reduction/forms.h"
#include "engine/kernels/fast/reduction/rows.h"

namespace nacre::inline NACRE_ISA {

// ---- Pools.

// The positions (taps) of the window of a pixel of y that lie inside x, and the index y of the pixel. each_window calls
// f(taps) for all pixels in rows [first, first + count) of y, counted over all images.
struct PoolTaps {
  ptrdiff_t first, row, column;  // of x, in elements: the first tap; from row to row; from column to column
  int rows, columns;
  int64_t y;
};
template <class F>
[[gnu::always_inline]] inline void each_window(const Pool& op, int first, int count, const F& f) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  PoolTaps taps = {};
  taps.row = ptrdiff_t(h.dilation) * w.in * op.channels, taps.column = ptrdiff_t(w.dilation) * op.channels;
  taps.y = int64_t{first} * w.out * op.channels;
  for (int row = first; row < first + count; ++row) {
    const int n = row / h.out, i = row % h.out;
    const WindowAxis::Taps rows = h.taps(i);
    taps.rows = rows.end - rows.first;
    const ptrdiff_t line = (ptrdiff_t(n) * h.in + h.position(i, rows.first)) * w.in;
    for (int j = 0; j < w.out; ++j, taps.y += op.channels) {
      const WindowAxis::Taps columns = w.taps(j);
      taps.columns = columns.end - columns.first;
      taps.first = (line + w.position(j, columns.first)) * op.channels;
      f(taps);
    }
  }
}

// Computes acc_k = step(acc_k, tap(offset)) over all taps. Vector k of kVectors begins at channel c + k kLanes; offset
// is that of its numbers in x.
template <class V, int kVectors, class A, class Load, class Step>
[[gnu::always_inline]] inline void over_taps(const PoolTaps& taps, ptrdiff_t c, A (&acc)[kVectors], const Load& tap,
                                             const Step& step) {
  for (int i = 0; i < taps.rows; ++i) {
    ptrdiff_t at = taps.first + c + i * taps.row;
    for (int j = 0; j < taps.columns; ++j, at += taps.column)
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) acc[k] = step(acc[k], tap(at + k * V::kLanes));
  }
}

// Calls finish(index into y, acc, number of taps, n) for all channels of all pixels in `rows` rows of y. Four vectors
// of channels run at a time, so that no addition waits for the one before. pool() shares the rows among the workers.
template <class V, class A, class Load, class Step, class Finish>
[[gnu::always_inline]] inline void pool_rows(const Pool& op, int first, int rows, A start, const Load& load_tap,
                                             const Step& step, const Finish& finish) {
  each_window(op, first, rows, [&](const PoolTaps& taps) {
    const auto block = [&](int c, auto vectors, auto n) {
      constexpr int kVectors = decltype(vectors)::value;
      A acc[kVectors];
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) acc[k] = start;
      over_taps<V>(taps, c, acc, [&](ptrdiff_t at) { return load_tap(at, n); }, step);
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) finish(taps.y + c + k * V::kLanes, acc[k], taps.rows * taps.columns, n);
    };
    int c = 0;
    for (; c + 4 * V::kLanes <= op.channels; c += 4 * V::kLanes) block(c, std::integral_constant<int, 4>(), Whole());
    each_vector<V>(op.channels - c, [&](int i, auto n) { block(c + i, std::integral_constant<int, 1>(), n); });
  });
}
template <class V, class A, class Load, class Step, class Finish>
[[gnu::always_inline]] inline void pool(const Pool& op, const Args& args, A start, const Load& load_tap,
                                        const Step& step, const Finish& finish) {
  constexpr uint64_t kOfTap = 2;  // one tap's time in multiply-accumulates (fast/parallel.h)
  const WindowAxis &h = op.window.h, &w = op.window.w;
  const uint64_t row = uint64_t(w.out) * uint64_t(h.kernel) * uint64_t(w.kernel) * uint64_t(op.channels);
  in_runs(args, op.batch * h.out, row * kOfTap, [&](int first, int count, std::span<std::byte>) {
    pool_rows<V>(op, first, count, start, load_tap, step, finish);
  });
}

template <class V>
struct RealBounds {
  typename V::F low, high;
  explicit RealBounds(const Clamp& clamp) : low(V::set(low_real(clamp))), high(V::set(high_real(clamp))) {}
  typename V::F operator()(typename V::F v) const { return V::min(high, V::max(low, v)); }  // NaN stays NaN
};

template <class T>
void FastAveragePool<T>::run(const T* x, T* y, const Args& args) const {
  using V = Vector;
  const RealBounds<V> bounded(clamp);
  pool<V>(
      *this, args, V::set(0.0f), [x](ptrdiff_t at, auto n) { return load<V>(x + at, n); }, Plus<V>(),
      [&](int64_t at, V::F acc, int count, auto n) {
        store<V>(y + at, bounded(V::div(acc, V::set(float(divisor_of(count))))), n);
      });
}

// Divides with rounding: (s + count / 2) / count, or (s - count / 2) / count if s is not above 0, truncated. For
// integers below 2^24 the quotient in float32 is never rounded past a whole number.
inline void FastCodeAveragePool::run(const int8_t* x, int8_t* y, const Args& args) const {
  using V = Vector;
  const V::I low = V::set(low_code(clamp)), high = V::set(high_code(clamp));
  pool<V>(
      *this, args, V::set(int32_t{0}), [x](ptrdiff_t at, auto n) { return load_codes<V>(x + at, n); },
      [](V::I acc, V::I v) { return V::add(acc, v); },
      [&](int64_t at, V::I acc, int count, auto n) {
        const V::F sum = V::to_float(acc), half = V::set(float(count / 2)), zero = V::set(0.0f);
        const V::F up = V::add(sum, V::select(V::less(zero, sum), half, V::sub(zero, half)));
        const V::I code = V::truncate(V::div(up, V::set(float(count))));
        store_codes<V>(y + at, V::max(low, V::min(high, code)), n);
      });
}

template <class T>
void FastMaxPool<T>::run(const T* x, T* y, const Args& args) const {
  using V = Vector;
  const RealBounds<V> bounded(clamp);
  pool<V>(
      *this, args, V::set(-std::numeric_limits<float>::infinity()),
      [x](ptrdiff_t at, auto n) { return load<V>(x + at, n); }, LargerOrNan<V>(),
      [&](int64_t at, V::F acc, int, auto n) { store<V>(y + at, bounded(acc), n); });
}

inline void FastCodeMaxPool::run(const int8_t* x, int8_t* y, const Args& args) const {
  using V = Vector;
  const V::I low = V::set(low_code(clamp)), high = V::set(high_code(clamp));
  pool<V>(
      *this, args, V::set(int32_t{-128}), [x](ptrdiff_t at, auto n) { return load_codes<V>(x + at, n); },
      [](V::I acc, V::I v) { return V::max(acc, v); },
      [&](int64_t at, V::I acc, int, auto n) { store_codes<V>(y + at, V::max(low, V::min(high, acc)), n); });
}

// ---- Reductions of [outer][count][inner].

// The time of one number in multiply-accumulates (fast/parallel.h).
inline constexpr uint64_t kOfReduced = 4;

// Calls finish(index into y, acc, n) for vectors of `inner` elements, with acc folded over `count` rows of them. The
// workers share the vectors in blocks of four.
template <class V, class A, class Load, class Step, class Finish>
[[gnu::always_inline]] inline void over_rows(const Extent& e, const Args& args, A start, const Load& load_at,
                                             const Step& step, const Finish& finish) {
  constexpr int kBlock = 4 * V::kLanes;
  const int blocks = (e.inner + kBlock - 1) / kBlock;
  in_runs(args, e.outer * blocks, uint64_t(e.count) * kBlock * kOfReduced,
          [&](int from, int some, std::span<std::byte>) {
            for (int unit = from; unit < from + some; ++unit) {
              const int o = unit / blocks, column = unit % blocks * kBlock;
              const ptrdiff_t first = ptrdiff_t(o) * e.count * e.inner, y = ptrdiff_t(o) * e.inner;
              const auto block = [&](int c, auto vectors, auto n) {
                constexpr int kVectors = decltype(vectors)::value;
                A acc[kVectors];
#pragma GCC unroll 4
                for (int k = 0; k < kVectors; ++k) acc[k] = start;
                ptrdiff_t at = first + c;
                for (int i = 0; i < e.count; ++i, at += e.inner)
#pragma GCC unroll 4
                  for (int k = 0; k < kVectors; ++k) acc[k] = step(acc[k], load_at(at + k * V::kLanes, n));
#pragma GCC unroll 4
                for (int k = 0; k < kVectors; ++k) finish(y + c + k * V::kLanes, acc[k], n);
              };
              if (column + kBlock <= e.inner) block(column, std::integral_constant<int, 4>(), Whole());
              else
                each_vector<V>(e.inner - column,
                               [&](int i, auto n) { block(column + i, std::integral_constant<int, 1>(), n); });
            }
          });
}

// Computes y = f / divisor, where f is x folded by `step` from `start` on. of_lanes(a, b) joins two lanes of a fold.
template <class T, class Step, class OfLanes>
[[gnu::noinline]] void reduce_real(const T* x, T* y, const Extent& e, float divisor, float start, const Args& args,
                                   const Step& step, const OfLanes& of_lanes) {
  using V = Vector;
  if (e.inner > 1) {
    const V::F d = V::set(divisor);
    over_rows<V>(
        e, args, V::set(start), [x](ptrdiff_t at, auto n) { return load<V>(x + at, n); }, step,
        [&](ptrdiff_t at, V::F acc, auto n) { store<V>(y + at, V::div(acc, d), n); });
    return;
  }
  in_runs(args, e.outer, uint64_t(e.count) * kOfReduced, [&](int first, int count, std::span<std::byte>) {
    for (int o = first; o < first + count; ++o) {
      alignas(64) float lanes[V::kLanes];
      V::store(lanes, fold<V>(x + ptrdiff_t(o) * e.count, e.count, V::set(start), step));
      float acc = lanes[0];
      for (int i = 1; i < V::kLanes; ++i) acc = of_lanes(acc, lanes[i]);
      y[o] = T(acc / divisor);
    }
  });
}
template <class T>
void sum_real(const T* x, T* y, const Extent& e, float divisor, const Args& args) {
  reduce_real(x, y, e, divisor, 0, args, Plus<Vector>(), [](float acc, float v) { return acc + v; });
}

template <class T>
void FastMean<T>::run(const T* x, T* y, const Args& args) const {
  sum_real(x, y, extent, float(extent.count), args);
}
template <class T>
void FastReduce<T>::run(const T* x, T* y, const Args& args) const {
  using V = Vector;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (function) {
    case Reduce::kSum: return sum_real(x, y, extent, 1, args);
    case Reduce::kMax:
      return reduce_real(x, y, extent, 1, -kInfinity, args, LargerOrNan<V>(),
                         [](float acc, float v) { return acc != acc || acc > v ? acc : v; });
    case Reduce::kMin:
      return reduce_real(x, y, extent, 1, kInfinity, args, SmallerOrNan<V>(),
                         [](float acc, float v) { return acc != acc || acc < v ? acc : v; });
    default: return reduce_real(x, y, extent, 1, 1, args, Times<V>(), [](float acc, float v) { return acc * v; });
  }
}

// Finds kLanes extremes and their indices side by side. Each lane is a column of its own, or, if the index is that of
// the last axis, each lane takes every kLanes-th element of one row, and the lanes are compared at the end.
template <class V>
struct ArgMaxLanes {
  using F = typename V::F;
  F best, at;
  bool minimum, last;

  // Takes v with index i if it goes before `best`. NaN goes before all numbers. Among equal ones the last goes first
  // if `last` is true.
  [[gnu::always_inline]] void step(F v, F i) {
    const F one = V::set(1.0f), zero = V::set(0.0f);
    const typename V::M over = minimum ? V::less(v, best) : V::less(best, v);
    const typename V::M under = minimum ? V::less(best, v) : V::less(v, best);
    const F equal = last ? V::select(under, zero, one) : zero;
    const F nan = V::select(V::is_nan(v), one, V::select(over, one, equal));
    const F after_nan = V::select(V::is_nan(v), V::set(last ? 1.0f : 0.0f), zero);
    const typename V::M taken = V::less(zero, V::select(V::is_nan(best), after_nan, nan));
    best = V::select(taken, v, best);
    at = V::select(taken, i, at);
  }
};

template <class T, class I>
void FastArgMax<T, I>::run(const T* x, I* y) const {
  using V = Vector;
  alignas(64) float indices[V::kLanes];
  const V::F zero = V::set(0.0f);
  const int width = op.width, inner = op.inner;
  if (inner > 1) {
    for (int o = 0; o < op.outer; ++o, x += ptrdiff_t(width) * inner, y += inner)
      each_vector<V>(inner, [&](int c, auto n) {
        ArgMaxLanes<V> lanes = {load<V>(x + c, n), zero, op.minimum, op.last};
        for (int j = 1; j < width; ++j) lanes.step(load<V>(x + c + ptrdiff_t(j) * inner, n), V::set(float(j)));
        V::store(indices, lanes.at);
        for (int i = 0; i < V::kLanes && c + i < inner; ++i) y[c + i] = I(indices[i]);
      });
    return;
  }
  for (int i = 0; i < V::kLanes; ++i) indices[i] = float(i);
  const V::F lane = V::load(indices);
  for (int o = 0; o < op.outer; ++o, x += width) {
    // The rest of a row is compared with the first vectors' lanes, one by one.
    const int whole = width / V::kLanes * V::kLanes, lanes_used = whole > 0 ? V::kLanes : width;
    ArgMaxLanes<V> lanes = {load<V>(x, lanes_used), lane, op.minimum, op.last};
    for (int j = V::kLanes; j < whole; j += V::kLanes) lanes.step(V::load(x + j), V::add(lane, V::set(float(j))));
    alignas(64) float best[V::kLanes], at[V::kLanes];
    V::store(best, lanes.best), V::store(at, lanes.at);
    float value = best[0], index = at[0];
    const auto join = [&](float v, float i) {
      const bool better = op.minimum ? v < value : v > value, later = i > index;
      const bool takes =
          value != value ? v != v && later == op.last : v != v || better || (v == value && later == op.last);
      if (takes) value = v, index = i;
    };
    for (int i = 1; i < lanes_used; ++i) join(best[i], at[i]);
    for (int j = whole > 0 ? whole : width; j < width; ++j) join(float(x[j]), float(j));
    *y++ = I(index);
  }
}

// Computes zero_y + (sum - count zero_x) M / count, saturated to int8. `scale` is the pair of M / count.
[[gnu::noinline]] inline void mean_codes(const Extent& e, int x_zero, int y_zero, Rounding rounding,
                                         const FixedPoint& scale, const int8_t* x, int8_t* y, const Args& args) {
  using V = Vector;
  const int32_t pair[] = {scale.multiplier, scale.shift};
  const PairScale<V> scaled(rounding, pair);
  const V::I start = V::set(-x_zero * e.count), zero = V::set(int32_t{y_zero});
  const auto finish = [&](int8_t* to, V::I sum, auto n) { store_codes<V>(to, V::add(scaled(sum), zero), n); };
  if (e.inner > 1) {
    over_rows<V>(
        e, args, start, [x](ptrdiff_t at, auto n) { return load_codes<V>(x + at, n); },
        [](V::I acc, V::I v) { return V::add(acc, v); },
        [&](ptrdiff_t at, V::I sum, auto n) { finish(y + at, sum, n); });
    return;
  }
  in_runs(args, e.outer, uint64_t(e.count) * kOfReduced, [&](int first, int count, std::span<std::byte>) {
    for (int o = first; o < first + count; ++o) {
      const int8_t* const row = x + ptrdiff_t(o) * e.count;
      V::I acc = V::set(int32_t{0});
      each_vector<V>(e.count, [&](int i, auto n) { acc = V::add(acc, load_codes<V>(row + i, n)); });
      alignas(64) int32_t lanes[V::kLanes];
      V::store(lanes, acc);
      int32_t sum = 0;
      for (const int32_t lane : lanes) sum += lane;
      finish(y + o, V::add(start, V::set(sum)), 1);
    }
  });
}
template <Rounding kRounding>
void FastCodeMean<kRounding>::run(const int8_t* x, Optional<const int32_t> requant, int8_t* y, const Args& args) const {
  constexpr FixedPoint kOne = {1 << 30, 1};
  const FixedPoint scale = divide(requant ? FixedPoint{requant[0], requant[1]} : kOne, extent.count);
  mean_codes(extent, x_zero, y_zero, kRounding, scale, x, y, args);
}

}  // namespace nacre::inline NACRE_ISA
