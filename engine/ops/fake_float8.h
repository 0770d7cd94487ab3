// Simulates float8 layers in training. It gives the values that a float8 product would see, in the type of the layer,
// or their codes. It records the largest magnitudes, from which the next scales are made. NUMERICS.md section 9.
//
//   fake_float8   y = dequantize(quantize(x)), of quantize.h's float8 forms, to the bit
//
//     form 0, step         y = saturated(x / scale) scale
//     form 1, reciprocal   y = saturated(x scale) / scale
//     form 2, step         y = T(T(saturated(T(x / T(scale)))) T(scale)), T the type of x; NUMERICS.md eq. 51
//     y of a float8 type   the code itself, y = saturated(..), for products of codes (dense.h)
//     amax = max(amax, max |x|) as magnitude bits (amax.h), of x before it is scaled; without an amax nothing is
//     observed
//
//   with `current`, by the values of each row (the elements that share the dims before `axis`); no scale, no amax
//
//     f = current_scale(max |x|),  y = saturated(x f) (1 / f)            as dynamic_quantize stores 1 / f
//
//   fake_float8_gradient   y = x; stands after a layer. Its gradient is fake_float8 of dy, with its scale and amax
//
// 16-bit floats are computed in float32. float64 is divided in float64 and rounded to float8 once.
//
// The gradient of fake_float8 is dx = dy, even if x saturates, so it needs no step (Keras, layers/core/dense.py;
// TransformerEngine quantizes outside of the tape).
//
//   x any shape;  scale float32 [1];  amax uint32 [1]
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/amax.h"
#include "engine/numeric/element.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/policy.h"
#include "engine/numeric/small_float.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct FakeFloat8 {
  int rows, width;  // rows and their width, with `current`; otherwise one row
  uint32_t format, form;

  enum Word { kFormat = 0, kForm = 1, kCurrent = 2, kAxis = 3 };
  enum Operand { kX, kScale, kAmax };
  enum Format : uint32_t { kE4M3 = 0, kE5M2 = 1 };
  static constexpr uint32_t kEachRounded = 2;  // a form in addition to those of ScaleForm

  static constexpr FakeFloat8 from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    const int axis = words.integer(kAxis);
    return {x.product(0, axis), x.product(axis, x.rank), words[kFormat], words[kForm]};
  }

  template <class T>
  constexpr void forward(const T* x, const float* scale, Update<uint32_t> amax, T* y) const {
    uint32_t largest = 0;  // the largest magnitude that this thread has seen
    const auto observe = [&](const T& v) { largest = amax_bits(std::span<const T>(&v, 1), largest); };
    format == kE4M3 ? by_scale<Float8E4M3>(x, *scale, y, observe) : by_scale<Float8E5M2>(x, *scale, y, observe);
    raise(amax.data, largest);
  }

  template <class T>
  constexpr void forward_fixed(const T* x, const float* scale, Optional<const uint32_t>, T* y) const {
    const auto nothing = [](const T&) {};
    format == kE4M3 ? by_scale<Float8E4M3>(x, *scale, y, nothing) : by_scale<Float8E5M2>(x, *scale, y, nothing);
  }

  template <class T, class Q>
  constexpr void codes(const T* x, const float* scale, Update<uint32_t> amax, Q* y) const {
    const auto s = scale_of<T>(*scale);
    uint32_t largest = 0;
    for (int i : independent(rows * width)) {
      largest = amax_bits(std::span<const T>(x + i, 1), largest);
      y[i] = code<Q>(x[i], s);
    }
    raise(amax.data, largest);
  }

  template <class T>
  constexpr void forward_current(const T* x, Optional<const float>, Optional<const uint32_t>, T* y) const {
    format == kE4M3 ? by_row<Float8E4M3>(x, y) : by_row<Float8E5M2>(x, y);
  }

  template <class T>
  constexpr void copy(const T* x, const float*, Update<uint32_t>, T* y) const {
    for (int i : independent(rows * width)) y[i] = x[i];
  }

  template <class T>
  constexpr void copy_current(const T* x, Optional<const float>, Optional<const uint32_t>, T* y) const {
    for (int i : independent(rows * width)) y[i] = x[i];
  }

  constexpr uint64_t work() const { return uint64_t(rows) * uint64_t(width); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX];
    if (words[kFormat] > kE5M2 || words[kForm] > kEachRounded || words[kCurrent] > 1) return Code::kAttribute;
    if (words[kCurrent] == 1) {
      if (words[kForm] != 0 || operands.has(kScale) || operands.has(kAmax)) return Code::kAttribute;
      if (words[kAxis] > uint32_t(x.rank)) return Code::kAttributeAxis;
    } else {
      if (words[kAxis] != 0) return Code::kAttributeAxis;
      if (!operands.has(kScale)) return Code::kAttribute;
      if (!is(operands, kScale, 1) || (operands.has(kAmax) && !is(operands, kAmax, 1))) return Code::kShapeScale;
    }
    *y = dims_of(x);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"format"}, {"form"}, {"current"}, {"axis"}};
  static constexpr const char* kInputs[] = {"x", "scale?", "&amax?"};
  static constexpr const char* kOutputs[] = {"y"};

  static constexpr uint8_t kOfX[] = {kX};
  static constexpr GradientRead kReadsDy[] = {gradient_of(0)};
  static constexpr GradientRead kReadsScale[] = {gradient_of(0), input_of(kScale), input_of(kAmax)};
  static constexpr Gradient kGradients[] = {{.of = kOfX, .by = Op::kNone, .reads = kReadsDy}};
  static constexpr Gradient kGradientsBehind[] = {{.of = kOfX, .by = Op::kFakeFloat8, .reads = kReadsScale}};

 protected:
  template <class A>
  static constexpr float to_float(A v) {  // rounding the result to float8 gives what rounding v once would
    if constexpr (std::is_same_v<A, double>) return round_to_odd(v);
    else return v;
  }

  constexpr bool multiplies() const { return form == uint32_t(ScaleForm::kReciprocal); }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr A scale_of(float scale) const {
    return form == kEachRounded ? A(T(scale)) : A(scale);
  }

  template <class Q, class T, class A>
  constexpr Q code(const T& x, A scale) const {
    const A real = multiplies() ? A(x) * scale : A(x) / scale;
    return Q::saturated(to_float(form == kEachRounded ? A(T(real)) : real));
  }

 private:
  template <class Q, class T, class Observe>
  constexpr void by_scale(const T* x, float scale, T* y, Observe observe) const {
    using A = typename Element<T>::Accumulator;
    const A s = scale_of<T>(scale);
    for (int i : independent(rows * width)) {
      observe(x[i]);
      const A q = A(float(code<Q>(x[i], s)));
      y[i] = T(multiplies() ? q / s : q * s);
    }
  }

  template <class Q, class T>
  constexpr void by_row(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    constexpr CurrentScaling kRule = {.format_max = float(Q::of_bits(Q::kMax))};
    for (int r : independent(rows)) {
      const T* from = x + r * width;
      const float amax = amax_value(amax_bits(std::span<const T>(from, size_t(width))));
      const float factor = current_scale(amax, kRule).scale, step = 1 / factor;
      for (int i = 0; i < width; ++i)
        y[r * width + i] = T(A(float(Q::saturated(to_float(A(from[i]) * A(factor))))) * A(step));
    }
  }
};

inline constexpr OpRule kFakeFloat8Rule = {.op = Op::kFakeFloat8,
                                           .name = "fake_float8",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &FakeFloat8::shapes,
                                           .attributes = FakeFloat8::kAttributes,
                                           .inputs = FakeFloat8::kInputs,
                                           .outputs = FakeFloat8::kOutputs,
                                           .gradients = FakeFloat8::kGradients};
inline constexpr OpRule kFakeFloat8GradientRule = {.op = Op::kFakeFloat8Gradient,
                                                   .name = "fake_float8_gradient",
                                                   .numerics = Numerics::kPointwise,
                                                   .shapes = &FakeFloat8::shapes,
                                                   .attributes = FakeFloat8::kAttributes,
                                                   .inputs = FakeFloat8::kInputs,
                                                   .outputs = FakeFloat8::kOutputs,
                                                   .gradients = FakeFloat8::kGradientsBehind};

}  // namespace nacre::inline NACRE_ISA
