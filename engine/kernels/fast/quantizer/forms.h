// Kernel forms of the quantizers that training simulates, over vectors. Results equal those of the reference to the
// bit, except sums. The code is in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/fake_quantize.h"

namespace nacre::inline NACRE_ISA {

template <class T>
struct FastFakeQuantize {
  FakeQuantize op;

  static FastFakeQuantize from(const Words& words, const Operands& operands) {
    return {make_op<FakeQuantize>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, Optional<const float> range, Optional<const float> step, T* y, const Args& args) const;

  // Returns the bytes of one float32 per channel: the largest magnitude of the channel, later its scale.
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return size_t(from(words, operands).op.channels) * sizeof(float);
  }
};

template <class T>
struct FastFakeQuantizeGradientX {
  FakeQuantizeGradientX op;

  static FastFakeQuantizeGradientX from(const Words& words, const Operands& operands) {
    return {make_op<FakeQuantizeGradientX>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* dy, const T* x, Optional<const float> range, Optional<const float> step, T* dx) const;
};

template <class T>
struct FastFakeQuantizeGradientRange {
  FakeQuantizeGradientRange op;

  static FastFakeQuantizeGradientRange from(const Words& words, const Operands& operands) {
    return {make_op<FakeQuantizeGradientRange>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* dy, const T* x, const float* range, Update<float> sum) const;
};

template <class T>
struct FastObserveRange {
  ObserveRange op;

  static FastObserveRange from(const Words& words, const Operands& operands) {
    return {make_op<ObserveRange>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, Update<float> sum, Update<float> batches) const { op.add(ends_of(x), sum, batches); }
  ObserveRange::Ends ends_of(const T* x) const;
};
template <class T>
struct FastObserveUsedRange : FastObserveRange<T> {
  static FastObserveUsedRange from(const Words& words, const Operands& operands) {
    return {{make_op<ObserveRange>(words, operands)}};
  }
  void run(const T* x, Update<float> sum, Update<float> batches, Optional<const float> range,
           Optional<const uint32_t> step, float* used) const;
};

template <class T>
struct FastFloat8Of {
  FakeFloat8 op;

  uint64_t work() const { return op.work(); }
  // Writes x, quantized and dequantized, to y. With kObserves, returns the bits of the largest magnitude of x, found in
  // the same pass (the division takes most of its time); else returns 0.
  template <bool kObserves>
  int32_t by_scale(const T* x, float scale, T* y) const;
};
template <class T>
struct FastFakeFloat8 : FastFloat8Of<T> {
  static FastFakeFloat8 from(const Words& words, const Operands& operands) {
    return {{make_op<FakeFloat8>(words, operands)}};
  }
  void run(const T* x, const float* scale, Update<uint32_t> amax, T* y) const;
};
template <class T>
struct FastFakeFloat8Fixed : FastFloat8Of<T> {
  static FastFakeFloat8Fixed from(const Words& words, const Operands& operands) {
    return {{make_op<FakeFloat8>(words, operands)}};
  }
  void run(const T* x, const float* scale, Optional<const uint32_t>, T* y) const {
    this->template by_scale<false>(x, *scale, y);
  }
};
template <class T>
struct FastFakeFloat8Current : FastFloat8Of<T> {
  static FastFakeFloat8Current from(const Words& words, const Operands& operands) {
    return {{make_op<FakeFloat8>(words, operands)}};
  }
  void run(const T* x, Optional<const float>, Optional<const uint32_t>, T* y) const;
};

template <class T>
struct FastFloat8Gradient {
  int elements;

  static FastFloat8Gradient from(const Words&, const Operands& operands) { return {count_elements(operands)}; }
  void run(const T* x, const float*, Update<uint32_t>, T* y) const { copy(x, y); }
  void copy(const T* x, T* y) const {
    if (x != y) std::memcpy(y, x, size_t(elements) * sizeof(T));
  }
};
template <class T>
struct FastFloat8GradientCurrent : FastFloat8Gradient<T> {
  static FastFloat8GradientCurrent from(const Words&, const Operands& operands) { return {{count_elements(operands)}}; }
  void run(const T* x, Optional<const float>, Optional<const uint32_t>, T* y) const { this->copy(x, y); }
};

namespace fast::quantizer {

template <class Tier>
constexpr auto lines() {
  return floats<FastFakeQuantize>("FakeQuantize", Op::kFakeQuantize, FakeQuantize::shapes, 1) +
         floats<FastFakeQuantizeGradientX>("FakeQuantizeGradientX", Op::kFakeQuantizeGradientX,
                                           FakeQuantizeGradientX::shapes, 1) +
         floats<FastFakeQuantizeGradientRange>("FakeQuantizeGradientRange", Op::kFakeQuantizeGradientScale,
                                               FakeQuantizeGradientRange::shapes) +
         floats<FastObserveRange>("ObserveRange", Op::kObserveRange, ObserveRange::shapes) +
         floats<FastObserveUsedRange>("ObserveUsedRange", Op::kObserveRange, ObserveRange::shapes) +
         floats<FastFakeFloat8>("FakeFloat8", Op::kFakeFloat8, FakeFloat8::shapes, 1) +
         floats<FastFakeFloat8Fixed>("FakeFloat8Fixed", Op::kFakeFloat8, FakeFloat8::shapes, 1) +
         floats<FastFakeFloat8Current>("FakeFloat8Current", Op::kFakeFloat8, FakeFloat8::shapes, 1) +
         floats<FastFloat8Gradient>("FakeFloat8Gradient", Op::kFakeFloat8Gradient, FakeFloat8::shapes, 1) +
         floats<FastFloat8GradientCurrent>("FakeFloat8GradientCurrent", Op::kFakeFloat8Gradient, FakeFloat8::shapes, 1);
}

}  // namespace fast::quantizer

}  // namespace nacre::inline NACRE_ISA
