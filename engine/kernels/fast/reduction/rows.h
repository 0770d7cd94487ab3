// Code of the kernel forms of forms.h that take rows, softmax and norms, over a vector type V (engine/simd). run.h
// includes it.
#pragma once

#include <limits>

#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/reduction/forms.h"
#include "engine/simd/math.h"

namespace nacre::inline NACRE_ISA {

// Calls f(row of x in float32, row of y in float32) for each row. Rows of 16-bit numbers become float32 in scratch,
// where f works in place. `each` is the multiply-accumulates that one number takes (fast/parallel.h).
template <class V, class T, class F>
[[gnu::always_inline]] inline void each_row(const T* x, T* y, int rows, int width, uint64_t each, const Args& args,
                                            const F& f) {
  in_runs(args, rows, uint64_t(width) * each, [&](int first, int count, std::span<std::byte> scratch) {
    const T* from = x + ptrdiff_t(first) * width;
    T* to = y + ptrdiff_t(first) * width;
    for (int r = 0; r < count; ++r, from += width, to += width) {
      if constexpr (std::is_same_v<T, float>) {
        f(from, to);
      } else {
        auto* const row = reinterpret_cast<float*>(scratch.data());
        to_floats<V>(row, from, width);
        f(row, row);
        from_floats<V>(to, row, width);
      }
    }
  });
}

// The time of one number in softmax and in a norm, in multiply-accumulates (fast/parallel.h), measured with AVX2.
inline constexpr uint64_t kOfSoftmax = 32, kOfNorm = 12;

// ---- softmax

struct SoftmaxRow {
  float beta;
  bool logarithm;
};

// Computes softmax of one row, or its logarithm, in place or not. Lanes of the last vector that are beyond the row
// add 0 to the sum.
[[gnu::noinline]] inline void softmax_row(const float* x, float* y, int width, const SoftmaxRow& op) {
  using V = Vector;
  using Math = VectorMath<V>;
  const V::F lowest = V::set(-std::numeric_limits<float>::infinity()), zero = V::set(0.0f), beta = V::set(op.beta);
  const V::F peak = V::set(V::largest(fold<V>(x, width, lowest, Larger<V>())));
  V::F sums = zero;
  for (int i = 0; i < width; i += V::kLanes) {
    const int n = V::most(width - i);
    const V::F shifted = V::sub(n == V::kLanes ? V::load(x + i) : V::load(x + i, n), peak);
    const V::F power = Math::exp(V::mul(shifted, beta));
    const V::F kept = op.logarithm ? shifted : power;
    if (n == V::kLanes) {
      sums = V::add(sums, power);
      V::store(y + i, kept);
    } else {
      sums = V::add(sums, V::part(n, power, zero));
      V::store(y + i, kept, n);
    }
  }
  const V::F sum = V::set(V::sum(sums));
  if (op.logarithm) {
    const V::F log_sum = Math::log(sum);
    each_vector<V>(width, [&](int i, auto n) { store<V>(y + i, V::sub(load<V>(y + i, n), log_sum), n); });
  } else {
    const V::F factor = V::div(V::set(1.0f), sum);
    each_vector<V>(width, [&](int i, auto n) { store<V>(y + i, V::mul(load<V>(y + i, n), factor), n); });
  }
}

// Computes softmax, or its logarithm, along an axis that is not the last one, for kLanes columns side by side.
[[gnu::noinline]] inline void softmax_columns(const float* x, float* y, const Extent& e, const SoftmaxRow& op) {
  using V = Vector;
  using Math = VectorMath<V>;
  const V::F beta = V::set(op.beta);
  const ptrdiff_t step = e.inner;
  for (int o = 0; o < e.outer; ++o, x += step * e.count, y += step * e.count)
    for (int i = 0; i < e.inner; i += V::kLanes) {
      const int n = V::most(e.inner - i);
      const auto at = [&](int j) { return V::load(x + i + j * step, n); };
      V::F peak = at(0), sum = V::set(0.0f);
      for (int j = 1; j < e.count; ++j) peak = V::max(at(j), peak);
      for (int j = 0; j < e.count; ++j) {
        const V::F shifted = V::sub(at(j), peak), power = Math::exp(V::mul(shifted, beta));
        sum = V::add(sum, power);
        V::store(y + i + j * step, op.logarithm ? shifted : power, n);
      }
      const V::F last = op.logarithm ? Math::log(sum) : V::div(V::set(1.0f), sum);
      for (int j = 0; j < e.count; ++j) {
        const V::F v = V::load(y + i + j * step, n);
        V::store(y + i + j * step, op.logarithm ? V::sub(v, last) : V::mul(v, last), n);
      }
    }
}

// Computes softmax of rows of at most half a vector. kLanes rows stand side by side as columns, so that a row takes no
// sum or maximum over lanes. A row's bits do not depend on the rows beside it.
template <class T>
void softmax_short_rows(const T* x, T* y, int rows, int width, const SoftmaxRow& op) {
  using V = Vector;
  alignas(64) float flat[V::kLanes * V::kLanes / 2], columns[V::kLanes * V::kLanes / 2];
  for (int r = 0; r < rows; r += V::kLanes) {
    const int n = V::most(rows - r);
    const ptrdiff_t first = ptrdiff_t(r) * width;
    to_floats<V>(flat, x + first, n * width);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < width; ++j) columns[j * n + i] = flat[i * width + j];
    softmax_columns(columns, columns, {1, width, n, true}, op);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < width; ++j) flat[i * width + j] = columns[j * n + i];
    from_floats<V>(y + first, flat, n * width);
  }
}

template <class T, bool kLogarithm>
void FastSoftmax<T, kLogarithm>::run(const T* x, T* y, const Args& args) const {
  const SoftmaxRow op = {beta, kLogarithm};
  if constexpr (std::is_same_v<T, float>)
    if (extent.inner > 1) {
      const ptrdiff_t one = ptrdiff_t(extent.count) * extent.inner;
      return in_runs(args, extent.outer, uint64_t(one) * kOfSoftmax, [&](int first, int count, std::span<std::byte>) {
        Extent part = extent;
        part.outer = count;
        softmax_columns(x + first * one, y + first * one, part, op);
      });
    }
  const int width = extent.count;
  if (width <= Vector::kLanes / 2 && width <= extent.outer)
    return in_runs(args, extent.outer, uint64_t(width) * kOfSoftmax, [&](int first, int count, std::span<std::byte>) {
      softmax_short_rows(x + ptrdiff_t(first) * width, y + ptrdiff_t(first) * width, count, width, op);
    });
  each_row<Vector>(x, y, extent.outer, extent.count, kOfSoftmax, args,
                   [&](const float* from, float* to) { softmax_row(from, to, extent.count, op); });
}

// Computes softmax of a row of codes. If it has kDistances numbers or more, the codes of all distances are made first.
[[gnu::noinline]] inline void softmax_codes(const int8_t* x, int8_t* y, int width, const int32_t* table) {
  using V = Vector;
  int peak = -128;
  for (int j = 0; j < width; ++j) peak = x[j] > peak ? x[j] : peak;
  int32_t sum = 0;
  for (int j = 0; j < width; ++j) sum += table[kDistances + peak - x[j]];
  const int zeros = std::countl_zero(uint32_t(sum));
  const int32_t reciprocal = reciprocal_of_one_plus(int32_t((uint32_t(sum) << zeros) - (uint32_t{1} << 31)));
  const int exponent = 12 - zeros + 31 - 8;
  if (exponent > 31) {  // then every y is 0, whose code is -128
    for (int j = 0; j < width; ++j) y[j] = -128;
    return;
  }
  if (width >= kDistances) {
    int8_t codes[kDistances];
    const V::I r = V::set(reciprocal), by = V::set(int32_t{exponent}), zero = V::set(int32_t{-128});
    each_vector<V>(kDistances, [&](int d, auto n) {
      const V::I product = V::doubling_high(r, load_codes<V>(table + d, n));
      store_codes<V>(codes + d, V::add(V::rounding_shift(product, by), zero), n);
    });
    for (int j = 0; j < width; ++j) y[j] = codes[peak - x[j]];
    return;
  }
  for (int j = 0; j < width; ++j) {
    const int32_t code = rounding_shift_right(doubling_high_multiply(reciprocal, table[peak - x[j]]), exponent) - 128;
    y[j] = int8_t(code > 127 ? 127 : code);
  }
}
template <Rounding kRounding>
void FastCodeSoftmax<kRounding>::run(const int8_t* x, int8_t* y, const Args& args) const {
  in_runs(args, rows, uint64_t(width) * kOfSoftmax, [&](int first, int count, std::span<std::byte>) {
    for (int r = first; r < first + count; ++r)
      softmax_codes(x + ptrdiff_t(r) * width, y + ptrdiff_t(r) * width, width,
                    static_cast<const int32_t*>(args.call.prepared));
  });
}

// ---- Norms

// Normalizes a row: y = (x - mean) / deviation, then times scale and plus bias, if they are given.
[[gnu::noinline]] inline void layer_norm_row(const float* x, float* y, int width, float epsilon, const float* scale,
                                             const float* bias) {
  using V = Vector;
  const V::F zero = V::set(0.0f);
  const Plus<V> plus;
  const V::F mean = V::set(V::sum(fold<V>(x, width, zero, plus)) / float(width));
  const V::F squares = fold<V>(x, width, zero, plus, [mean](V::F v) {
    const V::F d = V::sub(v, mean);
    return V::mul(d, d);
  });
  const float variance = V::sum(squares) / float(width);
  const V::F inverse = V::div(V::set(1.0f), V::sqrt(V::set(variance + epsilon)));
  each_vector<V>(width, [&](int i, auto n) {
    V::F v = V::mul(V::sub(load<V>(x + i, n), mean), inverse);
    if (scale != nullptr) v = V::mul(v, load<V>(scale + i, n));
    if (bias != nullptr) v = V::add(v, load<V>(bias + i, n));
    store<V>(y + i, v, n);
  });
}
template <class T>
void FastLayerNorm<T>::run(const T* x, Optional<const float> scale, Optional<const float> bias, T* y,
                           const Args& args) const {
  each_row<Vector>(x, y, op.rows, op.width, kOfNorm, args, [&](const float* from, float* to) {
    layer_norm_row(from, to, op.width, op.epsilon, scale.data, bias.data);
  });
}

template <class T>
void FastBatchNorm<T>::run(const T* x, const float* scale, const float* bias, const float* mean, const float* variance,
                           T* y, const Args& args) const {
  using V = Vector;
  auto* const factor = reinterpret_cast<float*>(args.scratch.data());
  const V::F epsilon = V::set(op.epsilon);
  each_vector<V>(op.channels, [&](int c, auto n) {
    const V::F deviation = V::sqrt(V::add(load<V>(variance + c, n), epsilon));
    store<V>(factor + c, V::div(load<V>(scale + c, n), deviation), n);
  });
  in_runs(args, op.rows, uint64_t(op.channels) * kOfNorm, [&](int first, int count, std::span<std::byte>) {
    for (int r = first; r < first + count; ++r) {
      const T* const from = x + ptrdiff_t(r) * op.channels;
      T* const to = y + ptrdiff_t(r) * op.channels;
      each_vector<V>(op.channels, [&](int c, auto n) {
        const V::F d = V::sub(load<V>(from + c, n), load<V>(mean + c, n));
        store<V>(to + c, V::fma(d, load<V>(factor + c, n), load<V>(bias + c, n)), n);
      });
    }
  });
}

}  // namespace nacre::inline NACRE_ISA
