// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include <limits>

#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/row_gradient/forms.h"
#include "engine/simd/math.h"

// Functions are flattened and lambdas inlined, because a call costs more than its work if vectors are plain C++.
namespace nacre::inline NACRE_ISA {

// Returns, in every lane, the sum of `count` numbers. f(i, n) returns a vector of n of them, from number i on.
template <class V, class F>
[[gnu::always_inline]] inline typename V::F sum_along(int count, const F& f) {
  const typename V::F zero = V::set(0.0f);
  typename V::F even = zero, odd = zero;
  int i = 0;
  for (; i + 2 * V::kLanes <= count; i += 2 * V::kLanes) {
    even = V::add(even, f(i, Whole()));
    odd = V::add(odd, f(i + V::kLanes, Whole()));
  }
  for (; i < count; i += V::kLanes) {
    const int n = V::most(count - i);
    even = V::add(even, V::part(n, f(i, n), zero));
  }
  return V::set(V::sum(V::add(even, odd)));
}

// ---- softmax:  dx = beta y (dy - sum y dy);  log_softmax:  dx = dy - exp(y) sum dy

template <class T, bool kLogarithm>
[[gnu::flatten]] void FastSoftmaxGradient<T, kLogarithm>::run(const T* dy, const T* y, T* dx) const {
  using V = Vector;
  const V::F b = V::set(beta);
  const auto term = [&](V::F d, V::F at) __attribute__((always_inline)) { return kLogarithm ? d : V::mul(d, at); };
  const auto slope = [&](V::F d, V::F at, V::F sum) __attribute__((always_inline)) {
    if constexpr (kLogarithm) return V::sub(d, V::mul(VectorMath<V>::exp(at), sum));
    else return V::mul(V::mul(b, at), V::sub(d, sum));
  };
  const ptrdiff_t step = inner, size = step * count;
  for (int o = 0; o < outer; ++o, dy += size, y += size, dx += size) {
    if (inner == 1) {
      const V::F sum = sum_along<V>(
          count, [&](int i, auto n)
                     __attribute__((always_inline)) { return term(load<V>(dy + i, n), load<V>(y + i, n)); });
      for (int i = 0; i < count; i += V::kLanes) {
        const int n = V::most(count - i);
        V::store(dx + i, slope(V::load(dy + i, n), V::load(y + i, n), sum), n);
      }
      continue;
    }
    for (int i = 0; i < inner; i += V::kLanes) {
      const int n = V::most(inner - i);
      V::F sum = V::set(0.0f);
      for (ptrdiff_t j = i; j < size; j += step) sum = V::add(sum, term(V::load(dy + j, n), V::load(y + j, n)));
      for (ptrdiff_t j = i; j < size; j += step) V::store(dx + j, slope(V::load(dy + j, n), V::load(y + j, n), sum), n);
    }
  }
}

// ---- Norms

// Computes h = (x - mean) inverse of one row.
template <class V>
struct RowMoments {
  using F = typename V::F;
  F mean, inverse;

  template <class T>
  [[gnu::always_inline]] static RowMoments of(const T* x, int width, float epsilon) {
    const F n = V::set(float(width));
    const F mean =
        V::div(sum_along<V>(
                   width, [&](int i, auto lanes) __attribute__((always_inline)) { return load<V>(x + i, lanes); }),
               n);
    const F squares = sum_along<V>(
        width, [&](int i, auto lanes) __attribute__((always_inline)) {
          const F d = V::sub(load<V>(x + i, lanes), mean);
          return V::mul(d, d);
        });
    return {mean, V::div(V::set(1.0f), V::sqrt(V::add(V::div(squares, n), V::set(epsilon))))};
  }
  [[gnu::always_inline]] F operator()(F x) const { return V::mul(V::sub(x, mean), inverse); }
};

template <class T>
[[gnu::flatten]] void FastLayerNormGradientX<T>::run(const T* x, Optional<const float> scale, const T* dy,
                                                     T* dx) const {
  using V = Vector;
  const int width = op.width;
  const V::F n = V::set(float(width));
  for (int r = 0; r < op.rows; ++r, x += width, dy += width, dx += width) {
    const auto h = RowMoments<V>::of(x, width, op.epsilon);
    const auto g = [&](int i, auto lanes) __attribute__((always_inline)) {
      const V::F d = load<V>(dy + i, lanes);
      return scale ? V::mul(d, load<V>(scale.data + i, lanes)) : d;
    };
    const V::F sum = V::div(sum_along<V>(width, g), n);
    const V::F projection =
        V::div(sum_along<V>(
                   width, [&](int i, auto lanes)
                              __attribute__((always_inline)) { return V::mul(g(i, lanes), h(load<V>(x + i, lanes))); }),
               n);
    each_vector<V>(
        width, [&](int i, auto lanes) __attribute__((always_inline)) {
          const V::F rest = V::sub(V::sub(g(i, lanes), sum), V::mul(h(load<V>(x + i, lanes)), projection));
          store<V>(dx + i, V::mul(h.inverse, rest), lanes);
        });
  }
}

template <class T>
[[gnu::flatten]] void FastLayerNormGradientScale<T>::run(const T* x, const T* dy, Update<float> dscale) const {
  using V = Vector;
  const int width = op.width;
  for (int r = 0; r < op.rows; ++r, x += width, dy += width) {
    const auto h = RowMoments<V>::of(x, width, op.epsilon);
    each_vector<V>(
        width, [&](int i, auto lanes) __attribute__((always_inline)) {
          float* const to = dscale.data + i;
          const V::F term = V::mul(load<V>(dy + i, lanes), h(load<V>(x + i, lanes)));
          store<V>(to, V::add(load<V>(to, lanes), term), lanes);
        });
  }
}

template <class T>
[[gnu::flatten]] void FastBatchNormGradientX<T>::run(const T* dy, const float* scale, const float* variance,
                                                     T* dx) const {
  using V = Vector;
  const V::F epsilon = V::set(op.epsilon);
  const ptrdiff_t step = op.channels;
  each_vector<V>(
      op.channels, [&](int c, auto n) __attribute__((always_inline)) {
        const V::F deviation = V::sqrt(V::add(load<V>(variance + c, n), epsilon));
        const V::F factor = V::div(load<V>(scale + c, n), deviation);
        for (int r = 0; r < op.rows; ++r) store<V>(dx + c + r * step, V::mul(load<V>(dy + c + r * step, n), factor), n);
      });
}

template <class T>
[[gnu::flatten]] void FastBatchNormGradientScale<T>::run(const T* dy, const T* x, const float* mean,
                                                         const float* variance, Update<float> dscale) const {
  using V = Vector;
  const V::F epsilon = V::set(op.epsilon);
  const ptrdiff_t step = op.channels;
  each_vector<V>(
      op.channels, [&](int c, auto n) __attribute__((always_inline)) {
        const V::F m = load<V>(mean + c, n);
        V::F sum = V::set(0.0f);
        for (int r = 0; r < op.rows;) {  // in blocks, as add_columns of engine/ops/gradient.h
          const int end = op.rows - r < kBlockRows ? op.rows : r + kBlockRows;
          V::F part = V::set(0.0f);
          for (; r < end; ++r) {
            const ptrdiff_t at = c + r * step;
            part = V::add(part, V::mul(load<V>(dy + at, n), V::sub(load<V>(x + at, n), m)));
          }
          sum = V::add(sum, part);
        }
        const V::F slope = V::div(sum, V::sqrt(V::add(load<V>(variance + c, n), epsilon)));
        store<V>(dscale.data + c, V::add(load<V>(dscale.data + c, n), slope), n);
      });
}

template <class T, class I>
[[gnu::flatten]] Code FastEmbeddingGradient<T, I>::run(const T* dy, const I* ids, Update<float> dtable) const {
  using V = Vector;
  NACRE_TRY_CODE(check(ids));
  for (int i = 0; i < count; ++i, dy += width) {
    float* const sum = dtable.data + ptrdiff_t(row(ids[i])) * width;
    each_vector<V>(
        width, [&](int j, auto n) __attribute__((always_inline)) {
          store<V>(sum + j, V::add(load<V>(sum + j, n), load<V>(dy + j, n)), n);
        });
  }
  return Code::kOk;
}

// ---- Losses of classes

// The largest logit of a row, peak, and S = sum exp(x - peak).
template <class V>
struct ClassRow {
  using F = typename V::F;
  F peak, sum;

  template <class T>
  [[gnu::always_inline]] static ClassRow of(const T* x, int classes) {
    const F lowest = V::set(-std::numeric_limits<float>::infinity());
    const F peak = V::set(V::largest(fold<V>(x, classes, lowest, Larger<V>())));
    F sums = V::set(0.0f);
    for (int i = 0; i < classes; i += V::kLanes) {
      const int n = V::most(classes - i);
      sums = V::add(sums, V::part(n, VectorMath<V>::exp(V::sub(V::load(x + i, n), peak)), V::set(0.0f)));
    }
    return {peak, V::set(V::sum(sums))};
  }
};

// Returns the shares q of the classes, a vector at a time, and their total. For a label and smoothing s, q_k =
// [k = label] (1 - s) + s / classes.
template <class V>
struct LabelShares {
  using F = typename V::F;
  int32_t label;
  F rest, own, first;  // s / classes; 1 - s + s / classes; 0, 1, ..

  LabelShares(const CrossEntropy& op, int32_t at)
      : label(at), rest(V::set(op.smoothing / float(op.classes))),
        own(V::set(1 - op.smoothing + op.smoothing / float(op.classes))), first(counted()) {}
  [[gnu::always_inline]] F operator()(int i, int) const {
    const F at = V::set(float(label - i));  // exact for a lane of the vector; else far from all lanes
    return V::select(V::less(V::abs(V::sub(first, at)), V::set(0.5f)), own, rest);
  }
  [[gnu::always_inline]] F total() const { return V::set(1.0f); }

 private:
  static F counted() {
    float lane[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) lane[i] = float(i);
    return V::load(lane);
  }
};

// Returns the shares of classes with targets t_k and smoothing s: (1 - s) t_k + s / classes.
template <class V, class T>
struct TargetShares {
  using F = typename V::F;
  const T* t;
  int classes;
  float s;
  F rest, scale;

  TargetShares(const CrossEntropy& op, const T* targets)
      : t(targets), classes(op.classes), s(op.smoothing), rest(V::set(s / float(op.classes))), scale(V::set(1 - s)) {}
  [[gnu::always_inline]] F operator()(int i, int n) const { return V::add(V::mul(scale, V::load(t + i, n)), rest); }
  [[gnu::always_inline]] F total() const {
    const F sum =
        sum_along<V>(classes, [&](int i, auto n) __attribute__((always_inline)) { return load<V>(t + i, n); });
    return V::add(V::mul(scale, sum), V::set(s));
  }
};

// Returns q.total() log S - sum_k q_k (x_k - peak), S of ClassRow. A share of 0 adds nothing, whatever the logit x_k.
template <class V, class T, class Shares>
[[gnu::always_inline]] inline float class_loss(const T* x, int classes, const Shares& q) {
  using F = typename V::F;
  const auto row = ClassRow<V>::of(x, classes);
  const F zero = V::set(0.0f);
  F sums = zero;
  for (int i = 0; i < classes; i += V::kLanes) {
    const int n = V::most(classes - i);
    const F share = q(i, n), term = V::mul(share, V::sub(V::load(x + i, n), row.peak));
    sums = V::add(sums, V::part(n, V::select(V::less(zero, V::abs(share)), term, zero), zero));
  }
  const F loss = V::sub(V::mul(q.total(), VectorMath<V>::log(row.sum)), V::set(V::sum(sums)));
  float first;
  V::store(&first, loss, 1);
  return first;
}

template <class V, class T, class Shares>
[[gnu::always_inline]] inline void class_gradient(const T* x, int classes, const Shares& q, float seed, T* dx) {
  using F = typename V::F;
  const auto row = ClassRow<V>::of(x, classes);
  const F factor = V::div(q.total(), row.sum), scale = V::set(seed);
  for (int i = 0; i < classes; i += V::kLanes) {
    const int n = V::most(classes - i);
    const F power = VectorMath<V>::exp(V::sub(V::load(x + i, n), row.peak));
    V::store(dx + i, V::mul(scale, V::sub(V::mul(factor, power), q(i, n))), n);
  }
}

template <class T, class Target>
[[gnu::flatten]] Code FastClassLoss<T, Target>::run(const T* x, const Target* targets, Update<float> loss,
                                                    Update<float> count) const {
  using V = Vector;
  float sum = 0;
  int counted = 0;
  if constexpr (std::is_same_v<Target, int32_t>) {
    if (!fit(targets)) return Code::kIndex;
    for (int r = 0; r < op.rows; ++r, x += op.classes) {
      if (skips(targets[r])) continue;
      sum += class_loss<V>(x, op.classes, LabelShares<V>(op, targets[r]));
      ++counted;
    }
  } else {
    for (int r = 0; r < op.rows; ++r, x += op.classes, targets += op.classes)
      sum += class_loss<V>(x, op.classes, TargetShares<V, T>(op, targets));
    counted = op.rows;
  }
  loss.data[0] += sum;
  count.data[0] += float(counted);
  return Code::kOk;
}

template <class T, class Target>
[[gnu::flatten]] Code FastClassLossGradient<T, Target>::run(const T* x, const Target* targets, const float* seed,
                                                            T* dx) const {
  using V = Vector;
  if constexpr (std::is_same_v<Target, int32_t>) {
    if (!fit(targets)) return Code::kIndex;
    for (int r = 0; r < op.rows; ++r, x += op.classes, dx += op.classes) {
      if (skips(targets[r])) {
        each_vector<V>(
            op.classes, [&](int i, auto n) __attribute__((always_inline)) { store<V>(dx + i, V::set(0.0f), n); });
      } else {
        class_gradient<V>(x, op.classes, LabelShares<V>(op, targets[r]), seed[0], dx);
      }
    }
  } else {
    for (int r = 0; r < op.rows; ++r, x += op.classes, targets += op.classes, dx += op.classes)
      class_gradient<V>(x, op.classes, TargetShares<V, T>(op, targets), seed[0], dx);
  }
  return Code::kOk;
}

}  // namespace nacre::inline NACRE_ISA
