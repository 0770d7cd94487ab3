// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/pointwise/formats.h"
#include "engine/kernels/fast/quantizer/forms.h"

// Functions are flattened and lambdas inlined, because a call costs more than its work if vectors are plain C++.
namespace nacre::inline NACRE_ISA {

// ---- The largest magnitude, by its bits (engine/numeric/amax.h)

template <class V, class T>
[[gnu::always_inline]] inline typename V::I magnitude_at(const T* x, auto n) {
  return V::as_integers(V::abs(load<V>(x, n)));
}
template <class V>
[[gnu::always_inline]] inline int32_t largest_of(typename V::I v) {
  int32_t lane[V::kLanes], largest = 0;
  V::store(lane, v);
  for (const int32_t bits : lane) largest = bits > largest ? bits : largest;
  return largest;
}
template <class V, class T>
[[gnu::noinline]] int32_t largest_magnitude(const T* x, int count) {
  typename V::I most = V::set(int32_t{0});
  each_vector<V>(count, [&](int i, auto n) { most = V::max(most, magnitude_at<V>(x + i, n)); });
  return largest_of<V>(most);
}

// Writes the largest magnitude of each channel of [outer][channels][inner], as float32.
template <class V, class T>
[[gnu::noinline]] void channel_magnitudes(const ScaledNumbers& s, const T* x, float* to) {
  const ptrdiff_t step = ptrdiff_t(s.channels) * s.inner;
  if (s.inner == 1 && s.channels > 1) {
    each_vector<V>(s.channels, [&](int c, auto n) {
      typename V::I most = V::set(int32_t{0});
      for (int o = 0; o < s.outer; ++o) most = V::max(most, magnitude_at<V>(x + o * step + c, n));
      store<V>(to + c, V::as_float(most), n);
    });
    return;
  }
  for (int c = 0; c < s.channels; ++c) {
    int32_t most = 0;
    for (int o = 0; o < s.outer; ++o) {
      const int32_t bits = largest_magnitude<V>(x + o * step + ptrdiff_t(c) * s.inner, s.inner);
      most = bits > most ? bits : most;
    }
    to[c] = std::bit_cast<float>(most);
  }
}

// ---- Codes of int8 and int4

// Returns the codes of weights as symmetric_code computes them in float64 (int8_range.h). A quotient in float32 tells
// which code is nearest, unless it lies near the middle between two codes.
template <class V>
[[gnu::always_inline]] inline typename V::I symmetric_codes(typename V::F w, typename V::F scale) {
  const typename V::F quotient = V::div(w, scale), size = V::abs(quotient);
  const typename V::F between = V::abs(V::sub(V::sub(size, V::floor(size)), V::set(0.5f)));
  if (!V::any(V::less(between, V::set(0x1p-12f)))) return rounded<V, Rounding::kHalfAway>(quotient);
  float real[V::kLanes], step[V::kLanes];
  int32_t code[V::kLanes];
  V::store(real, w);
  V::store(step, scale);
  for (int i = 0; i < V::kLanes; ++i) code[i] = symmetric_code(double(real[i]), step[i]);
  return V::load_integers(code);
}

template <class T>
[[gnu::flatten]] void FastFakeQuantize<T>::run(const T* x, Optional<const float> range, Optional<const float> step,
                                               T* y, const Args& args) const {
  using V = Vector;
  const auto clipped = [](V::I code, int32_t low, int32_t high) __attribute__((always_inline)) {
    return V::max(V::set(low), V::min(V::set(high), code));
  };
  // Stores `made`, or v if v is NaN.
  const auto put = [&](int i, V::F v, V::F made, auto n) __attribute__((always_inline)) {
    store<V>(y + i, V::select(V::is_nan(v), v, made), n);
  };
  if (range) {
    const NudgedRange nudged = NudgedRange::from(range.data);
    const V::F scale = V::set(nudged.scale);
    const V::I zero = V::set(nudged.zero);
    const Offset<V, int8_t> offset(zero);
    each_vector<V>(
        op.inner, [&](int i, auto n) __attribute__((always_inline)) {
          const V::F v = load<V>(x + i, n);
          const V::I code = offset(rounded<V, Rounding::kHalfAway>(V::div(v, scale)));
          put(i, v, nudged.none ? v : V::mul(scale, V::to_float(V::sub(code, zero))), n);
        });
    return;
  }
  const ScaledNumbers shape = {op.outer, op.channels, op.inner, false};
  const auto* scales = step.data;
  if (!step) {
    auto* const made = reinterpret_cast<float*>(args.scratch.data());
    channel_magnitudes<V>(shape, x, made);
    for (int c = 0; c < op.channels; ++c) {
      const float amax = made[c];
      if (op.rule == FakeQuantize::kStatic) made[c] = symmetric_scale(double(amax));
      else if (op.rule == FakeQuantize::kWeights) made[c] = amax / 127 > 0 || amax != amax ? amax / 127 : 1;
      else made[c] = absmax_scale<float>(amax, op.rule == FakeQuantize::kAbsMax4 ? kInt4Range : kInt8Range);
    }
    scales = made;
  }
  const CodeRange codes = op.rule == FakeQuantize::kAbsMax4 ? kInt4Range : kInt8Range;
  each_scaled<V>(
      shape, scales, {nullptr}, [](V::I none) __attribute__((always_inline)) { return none; },
      [&](int i, V::F scale, V::I, auto n) __attribute__((always_inline)) {
        const V::F v = load<V>(x + i, n);
        V::I code;
        switch (op.rule) {
          case FakeQuantize::kStatic: code = clipped(symmetric_codes<V>(v, scale), -127, 127); break;
          case FakeQuantize::kWeights:
            code = clipped(rounded<V, Rounding::kHalfAway>(V::div(v, scale)), -127, 127);
            break;
          case FakeQuantize::kInt8Codes: code = clipped(rounded<V, Rounding::kHalfAway>(v), -128, 127); break;
          case FakeQuantize::kInt32Codes: code = rounded<V, Rounding::kHalfAway>(v); break;
          default: {  // the rules kAbsMax..: codes are x times the scale
            const V::I nearest = clipped(V::round_even(V::mul(v, scale)), codes.low, codes.high);
            return store<V>(y + i, V::div(V::to_float(nearest), scale), n);
          }
        }
        put(i, v, V::mul(scale, V::to_float(code)), n);
      });
}

template <class T>
[[gnu::flatten]] void FastFakeQuantizeGradientX<T>::run(const T* dy, const T* x, Optional<const float> range,
                                                        Optional<const float> step, T* dx) const {
  using V = Vector;
  if (step) {
    const ScaledNumbers shape = {op.elements / (op.channels * op.inner), op.channels, op.inner, false};
    const ScaledNumbers all = {1, 1, op.elements, false};
    each_scaled<V>(
        op.channels > 1 ? shape : all, step.data, {nullptr},
        [](V::I none) __attribute__((always_inline)) { return none; },
        [&](int i, V::F scale, V::I, auto n)
            __attribute__((always_inline)) { store<V>(dx + i, V::div(load<V>(dy + i, n), scale), n); });
    return;
  }
  const float none[] = {0, 0};
  const NudgedRange nudged = NudgedRange::from(range ? range.data : none);
  const bool ordered = nudged.low <= nudged.high;  // if false, no number is in range
  const V::F zero = V::set(0.0f), low = V::set(nudged.low), high = V::set(nudged.high);
  each_vector<V>(
      op.elements, [&](int i, auto n) __attribute__((always_inline)) {
        const V::F d = load<V>(dy + i, n), v = load<V>(x + i, n);
        const V::F inside = ordered ? V::select(V::less(v, low), zero, V::select(V::less(high, v), zero, d)) : zero;
        store<V>(dx + i, nudged.none ? d : V::select(V::is_nan(v), d, inside), n);
      });
}

template <class T>
[[gnu::flatten]] void FastFakeQuantizeGradientRange<T>::run(const T* dy, const T* x, const float* range,
                                                            Update<float> sum) const {
  using V = Vector;
  const NudgedRange nudged = NudgedRange::from(range);
  if (nudged.none) return;
  const V::F zero = V::set(0.0f), low = V::set(nudged.low), high = V::set(nudged.high);
  V::F below = zero, above = zero;
  for (int i = 0; i < op.elements; i += V::kLanes) {
    const int n = V::most(op.elements - i);
    const V::F d = V::load(dy + i, n), v = V::load(x + i, n);  // d is 0 in lanes past the last
    below = V::add(below, V::select(V::less(v, low), d, zero));
    above = V::add(above, V::select(V::less(high, v), d, zero));
  }
  sum.data[0] += V::sum(below);
  sum.data[1] += V::sum(above);
}

template <class T>
ObserveRange::Ends FastObserveRange<T>::ends_of(const T* x) const {
  using V = Vector;
  const V::F first = V::set(float(*x));
  float low[V::kLanes], high[V::kLanes];
  V::store(low, fold<V>(x, op.elements, first, SmallerOrNan<V>()));
  V::store(high, fold<V>(x, op.elements, first, LargerOrNan<V>()));
  for (int i = 1; i < V::kLanes; ++i) {
    if (!(low[i] >= low[0])) low[0] = low[0] != low[0] ? low[0] : low[i];
    if (!(high[i] <= high[0])) high[0] = high[0] != high[0] ? high[0] : high[i];
  }
  return {low[0], high[0]};
}

template <class T>
void FastObserveUsedRange<T>::run(const T* x, Update<float> sum, Update<float> batches, Optional<const float> range,
                                  Optional<const uint32_t> step, float* used) const {
  const ObserveRange& observe = this->op;
  if (observe.frozen(range, step)) return observe.put({range[0], range[1]}, used);
  const ObserveRange::Ends ends = this->ends_of(x);
  observe.add(ends, sum, batches);
  observe.put(observe.used_of(ends, range), used);
}

// ---- float8

// Returns v rounded to T, the type in which it is stored, as float32.
template <class V, class T>
[[gnu::always_inline]] inline typename V::F as_kept(typename V::F v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else {
    T stored[V::kLanes];
    V::store(stored, v);
    return V::load(stored);
  }
}

// Rounds half to even to a multiple of 2^(e - m), where e is the exponent of v, or of the smallest normal number, and
// m the bits of the mantissa. It adds and subtracts a number whose last bit is that unit. Numbers beyond the largest
// become the largest.
template <class V>
struct Float8Rounding {
  typename V::F most, magic;
  typename V::I least;  // the bits of the smallest normal number

  template <class Q>
  static Float8Rounding of() {
    const auto power = [](int e) { return std::bit_cast<float>((e + 127) << 23); };
    return {V::set(float(Q::of_bits(Q::kMax))), V::set(1.5f * power(23 - Q::kMantissaBits)),
            V::set(std::bit_cast<int32_t>(power(1 - Q::kBias)))};
  }
  static Float8Rounding of(uint32_t format) {
    return format == FakeFloat8::kE4M3 ? of<Float8E4M3>() : of<Float8E5M2>();
  }
  [[gnu::always_inline]] typename V::F operator()(typename V::F v) const {
    const typename V::F size = V::min(most, V::abs(v));  // NaN stays NaN
    const typename V::I exponent = V::shift_left(V::shift_right(V::as_integers(size), 23), V::set(int32_t{23}));
    const typename V::F unit = V::mul(V::as_float(V::max(least, exponent)), magic);
    const typename V::F nearest = V::sub(V::add(size, unit), unit);
    return V::select(V::less(v, V::set(0.0f)), V::sub(V::set(0.0f), nearest), nearest);
  }
};

template <class T>
template <bool kObserves>
[[gnu::flatten]] int32_t FastFloat8Of<T>::by_scale(const T* x, float scale, T* y) const {
  using V = Vector;
  const auto round = Float8Rounding<V>::of(op.format);
  const bool each = op.form == FakeFloat8::kEachRounded, multiplies = op.form == uint32_t(ScaleForm::kReciprocal);
  const V::F s = V::set(each ? float(T(scale)) : scale);
  typename V::I most = V::set(int32_t{0});
  each_vector<V>(
      op.rows * op.width, [&](int i, auto n) __attribute__((always_inline)) {
        const V::F v = load<V>(x + i, n);
        if constexpr (kObserves) most = V::max(most, V::as_integers(V::abs(v)));
        if (multiplies) return store<V>(y + i, V::div(round(V::mul(v, s)), s), n);
        V::F real = V::div(v, s);
        if (each) real = as_kept<V, T>(real);
        store<V>(y + i, V::mul(round(real), s), n);
      });
  return kObserves ? largest_of<V>(most) : 0;
}

template <class T>
void FastFakeFloat8<T>::run(const T* x, const float* scale, Update<uint32_t> amax, T* y) const {
  const auto bits = uint32_t(this->template by_scale<true>(x, *scale, y));
  if (bits > amax.data[0]) amax.data[0] = bits;
}

template <class T>
[[gnu::flatten]] void FastFakeFloat8Current<T>::run(const T* x, Optional<const float>, Optional<const uint32_t>,
                                                    T* y) const {
  using V = Vector;
  const int rows = this->op.rows, width = this->op.width;
  const auto round = Float8Rounding<V>::of(this->op.format);
  const bool e4m3 = this->op.format == FakeFloat8::kE4M3;
  const CurrentScaling scaling = {.format_max = e4m3 ? float(Float8E4M3::of_bits(Float8E4M3::kMax))
                                                     : float(Float8E5M2::of_bits(Float8E5M2::kMax))};
  for (int r = 0; r < rows; ++r, x += width, y += width) {
    const float amax = std::bit_cast<float>(largest_magnitude<V>(x, width));
    const float by = current_scale(amax, scaling).scale;
    const V::F factor = V::set(by), step = V::set(1 / by);
    each_vector<V>(
        width, [&](int i, auto n) __attribute__((always_inline)) {
          store<V>(y + i, V::mul(round(V::mul(load<V>(x + i, n), factor)), step), n);
        });
  }
}

}  // namespace nacre::inline NACRE_ISA
