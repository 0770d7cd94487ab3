// Code of the kernel forms of forms.h that convert between number formats, over a vector type V (engine/simd). run.h
// and quantizer/run.h include it.
#pragma once

#include "engine/kernels/fast/float8_codes.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/pointwise/forms.h"

namespace nacre::inline NACRE_ISA {

// ---- quantize and dequantize

// Rounds half to even, or half away from zero. The latter adds 0.49999997, the largest float below a half, and
// truncates. The sum reaches the next whole number only if the fraction of x is at least a half.
template <class V, Rounding kRounding>
typename V::I rounded(typename V::F x) {
  if constexpr (kRounding == Rounding::kHalfEven) return V::round_even(x);
  const float half = 0x1.fffffep-2f;
  return V::truncate(V::add(x, V::select(V::less(x, V::set(0.0f)), V::set(-half), V::set(half))));
}

// Computes clamp(r + zero, kLow, kHigh) for all int32 r and zero. r is clamped first, so that the sum does not wrap.
template <class V, class Q>
struct Offset {
  static constexpr int32_t kLow = std::is_same_v<Q, uint8_t> ? 0 : -128, kHigh = kLow + 255;
  typename V::I zero, low, high;

  explicit Offset(typename V::I z)
      : zero(z), low(V::sub(V::set(kLow), V::min(z, V::set(INT32_MAX + (kLow < 0 ? 1 + kLow : 0))))),
        high(V::sub(V::set(kHigh), V::max(z, V::set(kHigh - INT32_MAX)))) {}
  typename V::I operator()(typename V::I r) const { return V::add(V::max(low, V::min(high, r)), zero); }
};

// Calls f(first, scale, zero, n) for every vector. A vector is of one channel, or across channels if these are
// innermost. f gets its zero as make(vector of zero points).
template <class V, class T, class Make, class F>
[[gnu::always_inline]] inline void each_scaled(const ScaledNumbers& s, const T* scale, Optional<const int32_t> zero,
                                               const Make& make, const F& f) {
  if (s.inner == 1 && s.channels > 1) {
    for (int o = 0; o < s.outer; ++o)
      each_vector<V>(s.channels, [&](int c, auto n) {
        const auto z = make(zero ? load_codes<V>(zero.data + c, n) : V::set(int32_t{0}));
        f(o * s.channels + c, load<V>(scale + c, n), z, n);
      });
    return;
  }
  for (int o = 0, first = 0; o < s.outer; ++o)
    for (int c = 0; c < s.channels; ++c, first += s.inner) {
      const auto z = make(V::set(zero ? zero[c] : 0));
      const typename V::F factor = V::set(float(scale[c]));
      each_vector<V>(s.inner, [&](int i, auto n) { f(first + i, factor, z, n); });
    }
}

// Calls f(part of s, index of its first number) on the workers. Each number takes the time of kOfCode
// multiply-accumulates (fast/parallel.h).
inline constexpr uint64_t kOfRange = 4, kOfCode = 12;  // kOfRange: time per number to find a row's range
template <class F>
void in_scaled_runs(const ScaledNumbers& s, const Args& args, const F& f) {
  if (s.channels == 1)
    return in_runs_of_numbers(args, s.outer * s.inner, kOfCode, [&](int first, int count, std::span<std::byte>) {
      f(ScaledNumbers{1, 1, count, s.reciprocal}, ptrdiff_t(first));
    });
  const int row = s.channels * s.inner;
  in_runs(args, s.outer, uint64_t(row) * kOfCode, [&](int first, int count, std::span<std::byte>) {
    f(ScaledNumbers{count, s.channels, s.inner, s.reciprocal}, ptrdiff_t(first) * row);
  });
}

template <Rounding kRounding, class Q>
void FastQuantize<kRounding, Q>::run(const float* numbers, const float* scale, Optional<const int32_t> zero, Q* codes,
                                     const Args& args) const {
  using V = Vector;
  const bool multiplies = shape.reciprocal;
  in_scaled_runs(shape, args, [&](const ScaledNumbers& part, ptrdiff_t at) {
    const float* const x = numbers + at;
    Q* const q = codes + at;
    each_scaled<V>(
        part, scale, zero, [](V::I z) { return Offset<V, Q>(z); },
        [&](int i, V::F factor, const Offset<V, Q>& offset, auto n) {
          const V::F v = load<V>(x + i, n);
          store_codes<V>(q + i, offset(rounded<V, kRounding>(multiplies ? V::mul(v, factor) : V::div(v, factor))), n);
        });
  });
}

template <class Q>
void FastDequantize<Q>::run(const Q* codes, const float* scale, Optional<const int32_t> zero, float* numbers,
                            const Args& args) const {
  using V = Vector;
  const bool divides = shape.reciprocal;
  in_scaled_runs(shape, args, [&](const ScaledNumbers& part, ptrdiff_t at) {
    const Q* const q = codes + at;
    float* const x = numbers + at;
    each_scaled<V>(
        part, scale, zero, [](V::I z) { return z; },
        [&](int i, V::F factor, V::I z, auto n) {
          const V::F code = V::to_float(V::sub(load_codes<V>(q + i, n), z));
          store<V>(x + i, divides ? V::div(code, factor) : V::mul(code, factor), n);
        });
  });
}

template <class Q, class T>
void FastQuantizeFloat8<Q, T>::run(const T* numbers, const T* scale, Q* codes, const Args& args) const {
  using V = Vector;
  const bool multiplies = shape.reciprocal;
  in_scaled_runs(shape, args, [&](const ScaledNumbers& part, ptrdiff_t at) {
    const T* const x = numbers + at;
    Q* const q = codes + at;
    each_scaled<V>(
        part, scale, {nullptr}, [](V::I z) { return z; },
        [&](int i, V::F factor, V::I, auto n) {
          const V::F v = load<V>(x + i, n);
          store_saturated<V>(q + i, rounded_to<V, T>(multiplies ? V::mul(v, factor) : V::div(v, factor)), n);
        });
  });
}
template <class Q>
void FastDequantizeFloat8<Q>::run(const Q* codes, const float* scale, float* numbers, const Args& args) const {
  using V = Vector;
  const bool divides = shape.reciprocal;
  in_scaled_runs(shape, args, [&](const ScaledNumbers& part, ptrdiff_t at) {
    const Q* const q = codes + at;
    float* const x = numbers + at;
    each_scaled<V>(
        part, scale, {nullptr}, [](V::I z) { return z; },
        [&](int i, V::F factor, V::I, auto n) {
          const V::F code = load_float8<V>(q + i, n);
          store<V>(x + i, divides ? V::div(code, factor) : V::mul(code, factor), n);
        });
  });
}

// ---- dynamic_quantize

// Calls f(row) for all rows, which the workers share.
template <class F>
void each_shared_row(const Args& args, int rows, int width, const F& f) {
  in_runs(args, rows, uint64_t(width) * (kOfRange + kOfCode), [&](int first, int count, std::span<std::byte>) {
    for (int r = first; r < first + count; ++r) f(r);
  });
}

inline void FastDynamicFloat8::run(const float* numbers, Float8E4M3* codes, float* scale, const Args& args) const {
  using V = Vector;
  constexpr CurrentScaling kRule = {.format_max = 448};
  const int width = op.width;
  each_shared_row(args, op.rows, width, [&](int r) {
    const float* const x = numbers + ptrdiff_t(r) * width;
    Float8E4M3* const q = codes + ptrdiff_t(r) * width;
    const V::F size = fold<V>(x, width, V::set(0.0f), LargerOrNan<V>(), [](V::F v) { return V::abs(v); });
    const float amax = V::any(V::is_nan(size)) ? __builtin_nanf("") : V::largest(size);
    const float factor = current_scale(amax, kRule).scale;
    scale[r] = 1 / factor;
    const V::F f = V::set(factor);
    each_vector<V>(width, [&](int i, auto n) { store_saturated<V>(q + i, V::mul(load<V>(x + i, n), f), n); });
  });
}

// The least and the largest of some numbers and 0. A NaN is ignored.
struct RowRange {
  float low = 0, high = 0;

  // Joins the range of other numbers to this one.
  void join(const RowRange& other) {
    low = other.low < low ? other.low : low;
    high = other.high > high ? other.high : high;
  }
};
template <class V>
RowRange range_of(const float* x, int count) {
  using F = typename V::F;
  const Smaller<V> smaller;
  const Larger<V> larger;
  const F zero = V::set(0.0f);
  F low[2] = {zero, zero}, high[2] = {zero, zero};  // two of each, because one takes several cycles
  int i = 0;
  for (; i + 2 * V::kLanes <= count; i += 2 * V::kLanes) {
    const F a = V::load(x + i), b = V::load(x + i + V::kLanes);
    low[0] = smaller(low[0], a), high[0] = larger(high[0], a);
    low[1] = smaller(low[1], b), high[1] = larger(high[1], b);
  }
  for (; i < count; i += V::kLanes) {
    const int left = count - i;
    const F a = left >= V::kLanes ? V::load(x + i) : V::part(left, V::load(x + i, left), zero);
    low[0] = smaller(low[0], a), high[0] = larger(high[0], a);
  }
  return {-V::largest(V::sub(zero, smaller(low[0], low[1]))), V::largest(larger(high[0], high[1]))};
}
// Finds the range of numbers that the workers share. They wait for each other once more than for the codes alone, but
// each then reads numbers that it wrote in the step before.
template <class V>
RowRange shared_range(const float* x, int count, const Args& args) {
  constexpr int kMost = 16;  // workers
  RowRange all, found[kMost];
  if (args.workers != nullptr && args.workers->count > kMost) return range_of<V>(x, count);
  in_parts(args, uint64_t(count) * kOfRange, [&](const Part& part, std::span<std::byte>) {
    const auto begin = [&](int index) { return int(int64_t{count} * index / part.count); };
    found[part.index] = range_of<V>(x + begin(part.index), begin(part.index + 1) - begin(part.index));
  });
  for (const RowRange& range : found) all.join(range);
  return all;
}

// Computes q = clamp(round(real(x)) + zero, low, 127) for each number x of a row; without kShifts zero is 0.
template <class V, Rounding kRounding, bool kShifts, class F>
[[gnu::always_inline]] inline void quantize_row(const float* x, int8_t* q, int count, int32_t zero, int32_t low,
                                                const F& real) {
  const typename V::I z = V::set(zero), l = V::set(low), h = V::set(int32_t{127});
  each_vector<V>(count, [&](int i, auto n) {
    typename V::I r = rounded<V, kRounding>(real(load<V>(x + i, n)));
    if constexpr (kShifts) r = V::add(V::max(V::set(int32_t{-1024}), V::min(V::set(int32_t{1024}), r)), z);
    store_codes<V>(q + i, V::max(l, V::min(h, r)), n);
  });
}

// Makes the codes of a row. The scale and zero point are those that the reference makes from the row's range.
struct RowQuantizer {
  bool symmetric, onnx;
  float scale, amax;
  int32_t zero;

  RowQuantizer(const DynamicQuantize& op, const RowRange& range) : symmetric(op.symmetric), onnx(op.onnx) {
    const DynamicQuantize ends = {.rows = 1, .width = 2, .symmetric = op.symmetric, .onnx = op.onnx};
    const float numbers[] = {range.low, range.high};
    int8_t codes[2];
    ends.forward(numbers, codes, &scale, &zero);
    amax = -range.low > range.high ? -range.low : range.high;
  }
  [[gnu::noinline]] void run(const float* x, int8_t* q, int count) const {
    using V = Vector;
    if (onnx) {
      const V::F step = V::set(scale);
      return quantize_row<V, Rounding::kHalfEven, true>(x, q, count, zero, -128,
                                                        [&](V::F v) { return V::div(v, step); });
    }
    const V::F factor = V::set(!symmetric ? 1 / scale : amax == 0 ? 0 : 127 / amax), z = V::set(float(zero));
    quantize_row<V, Rounding::kHalfAway, false>(x, q, count, 0, symmetric ? -127 : -128,
                                                [&](V::F v) { return V::add(z, V::mul(v, factor)); });
  }
};

inline void FastDynamicQuantize::run(const float* x, int8_t* q, float* scale, int32_t* zero, const Args& args) const {
  using V = Vector;
  const int width = op.width;
  if (op.rows == 1) {
    const RowQuantizer quantizer(op, shared_range<V>(x, width, args));
    scale[0] = quantizer.scale, zero[0] = quantizer.zero;
    return in_runs_of_numbers(args, width, kOfCode, [&](int first, int count, std::span<std::byte>) {
      quantizer.run(x + first, q + first, count);
    });
  }
  each_shared_row(args, op.rows, width, [&](int r) {
    const float* const row = x + ptrdiff_t(r) * width;
    const RowQuantizer quantizer(op, range_of<V>(row, width));
    scale[r] = quantizer.scale, zero[r] = quantizer.zero;
    quantizer.run(row, q + ptrdiff_t(r) * width, width);
  });
}

template <class T>
void FastAbsMaxQuantize<T>::run(const T* numbers, int8_t* codes, T* scale, const Args& args) const {
  using V = Vector;
  const int width = op.width;
  const V::F zero = V::set(0.0f);
  each_shared_row(args, op.rows, width, [&](int r) {
    const T* const x = numbers + ptrdiff_t(r) * width;
    int8_t* const q = codes + ptrdiff_t(r) * width;
    const V::F size = fold<V>(x, width, zero, LargerOrNan<V>(), [](V::F v) { return V::abs(v); });
    const float amax = V::any(V::is_nan(size)) ? __builtin_nanf("") : V::largest(size);
    const T factor = absmax_scale<T>(T(amax), kInt8Range);
    scale[r] = factor;
    const V::F f = V::set(float(factor));
    const V::I low = V::set(int32_t{kInt8Range.low}), high = V::set(int32_t{kInt8Range.high});
    each_vector<V>(width, [&](int i, auto n) {
      V::F product = V::mul(load<V>(x + i, n), f);
      if constexpr (!std::is_same_v<T, float>) {  // rounds the product to T
        T piece[V::kLanes];
        V::store(piece, product);
        product = V::load(piece);
      }
      store_codes<V>(q + i, V::max(low, V::min(high, V::round_even(product))), n);
    });
  });
}

// ---- cast

template <class From, class To>
[[gnu::noinline]] void cast_numbers(const From* x, To* y, int count) {
  using V = Vector;
  constexpr bool kOfCodes = std::is_integral_v<From>, kToCodes = std::is_integral_v<To>;
  each_vector<V>(count, [&](int i, auto n) {
    if constexpr (kOfCodes) {
      store<V>(y + i, V::to_float(load_codes<V>(x + i, n)), n);
    } else if constexpr (kToCodes) {
      V::I whole = V::truncate(load<V>(x + i, n));
      if constexpr (std::is_same_v<To, uint8_t>)
        whole = V::max(V::set(int32_t{0}), V::min(V::set(int32_t{255}), whole));
      store_codes<V>(y + i, whole, n);
    } else {
      store<V>(y + i, load<V>(x + i, n), n);
    }
  });
}
template <class From, class To>
void FastCast<From, To>::run(const From* x, To* y, const Args& args) const {
  constexpr uint64_t kOfCast = 4;  // the time of one cast in multiply-accumulates (fast/parallel.h)
  in_runs_of_numbers(args, elements, kOfCast,
                     [&](int first, int count, std::span<std::byte>) { cast_numbers(x + first, y + first, count); });
}

}  // namespace nacre::inline NACRE_ISA
