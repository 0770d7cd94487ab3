// Simulates quantization in training: y is the real number that an integer layer will see for x.
//
//   fake_quantize with a range [low, high]   activations, int8 codes -128 .. 127:
//
//     s, z = affine_of_range(low, high)                                   engine/numeric/int8_range.h
//     y    = s (saturate(round(x / s) + z) - z)                           half away from zero
//
//   without a range   weights, by the largest magnitude a of each channel, or of all of w:
//
//     rule 0  int8/static    s = symmetric_scale(a),         y = s clip(round(w / s), -127, 127)        int8_range.h
//     rule 1  int8/weights   s = a / 127 (1 where that is 0), the same, but w / s in float32 (float64 for float64 w)
//     rule 2  int8           s = 127 / (a + 1e-7),           y = clip(round_half_even(w s), -127, 127) / s   absmax.h
//     rule 3  int4           s = 7 / (a + 1e-7),             y = clip(round_half_even(w s), -8, 7) / s
//
//   with a step   codes that are trained themselves; x counts codes. An integer layer's parameters are round(x)
//
//     rule 4  int8 codes     y = step_c clip(round(x), -128, 127)               half away from zero, step_c > 0 fixed
//     rule 5  int32 codes    the same, clipped to int32
//
//   observe_range   sum += [min x, max x],  batches += 1: a running range R is made of their mean (update_range)
//
//   with an output   used = [min x, max x]; x is then rounded by this range. So no x is clipped, and no gradient 0.
//                     With `widen` used contains R too. used is [0, 0] if an end of x is not finite. If `freeze` is not
//                     0 and R is not [0, 0], from committed step `freeze` on: used = R, nothing is observed, R stays
//
// In float32, y equals to the bit what the converter's codes of the same range or weights stand for. So the exported
// network computes what was trained. 16-bit floats are computed in float32, float64 in float64 with the float32
// scale. NaN stays NaN, so that the step is refused; codes would hide it. A range of [0, 0] is not set yet: y = x.
//
// Gradients (straight through; tf.quantization.fake_quant_with_min_max_vars, core/kernels/fake_quant_ops_functor.h),
// with the ends of the nudged range l = s (-128 - z), h = s (127 - z):
//
//   dx     = dy if l <= x <= h, else 0                    dx = dy without a range: nothing is clipped
//   d low += sum dy over x < l,   d high += sum dy over x > h
//
//   dx     = dy / step_c with a step: quantization-aware scaling (QAS; Lin et al. 2022, arXiv:2206.15472, section 2.1).
//            Codes are 1 / step_c times the real weights, so the chain rule gives step_c dy. Relative to the codes,
//            that update is step_c^2 times as large as the learning rate means. QAS multiplies it by step_c^-2, so that
//            SGD moves step_c x as it would move the real weight. Nothing is clipped.
//
//   x any shape;  range float32 [2];  step float32 [1], or [size of axis];  sums float32 [2];  batches float32 [1]
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/absmax.h"
#include "engine/numeric/amax.h"
#include "engine/numeric/int8_range.h"
#include "engine/numeric/small_float.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// The quantizer of a range, with the real values of its lowest and highest code.
struct NudgedRange {
  float scale, low, high;
  int32_t zero;
  bool none;

  static constexpr NudgedRange from(const float* range) {
    const AffineScale affine = affine_of_range(double(range[0]), double(range[1]));
    return {.scale = affine.scale,
            .low = affine.scale * float(-128 - affine.zero),
            .high = affine.scale * float(127 - affine.zero),
            .zero = affine.zero,
            .none = range[0] == 0 && range[1] == 0};
  }
};

struct FakeQuantize {
  int outer, channels, inner;
  uint32_t rule;

  enum Word { kRule = 0, kPerChannel = 1, kAxis = 2 };
  enum Operand { kX, kRange, kStep };
  enum Rule : uint32_t { kStatic, kWeights, kAbsMax8, kAbsMax4, kInt8Codes, kInt32Codes, kRuleCount };

  static constexpr FakeQuantize from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    if (words[kPerChannel] == 0) return {1, 1, x.elements(), words[kRule]};
    const int axis = words.integer(kAxis);
    return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank), words[kRule]};
  }

  template <class T>
  constexpr void forward(const T* x, Optional<const float> range, Optional<const float> step, T* y) const {
    using A = typename Element<T>::Accumulator;
    if (step) return by_codes<A>(x, step.data, y);
    if (range) return by_range<A>(x, NudgedRange::from(range.data), y);
    for (int c : independent(channels)) by_magnitude<A>(x, c, y);
  }

  constexpr uint64_t work() const { return uint64_t(outer) * uint64_t(channels) * uint64_t(inner); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[kRule] >= kRuleCount || words[kPerChannel] > 1) return Code::kAttribute;
    if (words[kPerChannel] == 0 ? words[kAxis] != 0 : words[kAxis] >= uint32_t(operands[kX].rank))
      return Code::kAttributeAxis;
    const bool codes = words[kRule] == kInt8Codes || words[kRule] == kInt32Codes;
    if (codes != operands.has(kStep)) return Code::kAttribute;
    if (codes && !is(operands, kStep, words[kPerChannel] == 0 ? 1 : operands[kX][words.integer(kAxis)]))
      return Code::kShapeScale;
    if (operands.has(kRange)) {
      if (words[kRule] != kStatic || words[kPerChannel] != 0) return Code::kAttribute;
      if (!is(operands, kRange, 2)) return Code::kShapeScale;
    }
    *y = dims_of(operands[kX]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"rule"}, {"per_channel"}, {"axis"}};
  static constexpr const char* kInputs[] = {"x", "range?", "step?"};
  static constexpr const char* kOutputs[] = {"y"};

  static constexpr int step_words(const Words& words, const Operands& operands, int, uint32_t* made) {
    if (!operands.has(kStep)) return 0;
    made[0] = words[kPerChannel];
    made[1] = words[kAxis];
    return 2;
  }
  static constexpr uint8_t kOfX[] = {kX}, kOfRange[] = {kRange};
  static constexpr GradientRead kReadsAll[] = {gradient_of(0), input_of(kX), input_of(kRange), input_of(kStep)};
  static constexpr GradientRead kReadsBoth[] = {gradient_of(0), input_of(kX), input_of(kRange)};
  static constexpr Gradient kGradients[] = {
      {.of = kOfX, .by = Op::kFakeQuantizeGradientX, .reads = kReadsAll, .words = &step_words},
      {.of = kOfRange, .by = Op::kFakeQuantizeGradientScale, .reads = kReadsBoth, .adds = true, .words = &no_words},
  };

 private:
  template <class A, class T>  // A: float or double
  constexpr void by_range(const T* x, const NudgedRange& range, T* y) const {
    const A scale = A(range.scale);
    for (int i : independent(inner)) {
      const A v = A(x[i]);
      const int8_t code = clamp_to_int8(int64_t{round_half_away(v / scale)} + range.zero);
      y[i] = range.none || v != v ? x[i] : T(scale * A(code - range.zero));
    }
  }

  template <class A, class T>
  constexpr void by_codes(const T* x, const float* step, T* y) const {
    const int32_t low = rule == kInt8Codes ? -128 : INT32_MIN, high = rule == kInt8Codes ? 127 : INT32_MAX;
    for (int c : independent(channels))
      each_of(c, [&](int i) {
        const int32_t code = round_half_away(A(x[i]));
        y[i] = by_step(x[i], code < low ? low : code > high ? high : code, A(step[c]));
      });
  }

  template <class A, class T>
  constexpr void by_magnitude(const T* x, int c, T* y) const {
    A amax = 0;
    each_of(c, [&](int i) {
      const A v = A(x[i]), size = v < 0 ? -v : v;
      if (!(size <= amax)) amax = amax != amax ? amax : size;  // NaN stays NaN
    });
    switch (rule) {
      case kStatic: {
        const float scale = symmetric_scale(double(amax));
        return each_of(c, [&](int i) { y[i] = by_step(x[i], symmetric_code(double(x[i]), scale), A(scale)); });
      }
      case kWeights: {
        const float step = float(amax) / 127 > 0 || amax != amax ? float(amax) / 127 : 1;
        return each_of(c, [&](int i) {
          const int32_t code = round_half_away(A(x[i]) / A(step));
          y[i] = by_step(x[i], code < -127 ? -127 : code > 127 ? 127 : code, A(step));
        });
      }
      default: {
        const CodeRange codes = rule == kAbsMax4 ? kInt4Range : kInt8Range;
        const A scale = absmax_scale<A>(amax, codes);
        return each_of(c, [&](int i) { y[i] = T(absmax_value<A>(absmax_code<A>(A(x[i]), scale, codes), scale)); });
      }
    }
  }

  template <class A, class T>
  static constexpr T by_step(T x, int32_t code, A step) {
    return A(x) != A(x) ? x : T(step * A(code));
  }

  template <class F>
  constexpr void each_of(int c, F f) const {  // calls f(index) for the elements of channel c
    for (int o = 0; o < outer; ++o)
      for (int j = 0; j < inner; ++j) f((o * channels + c) * inner + j);
  }
};

// Checks the operands {dy, x, range?, ..} of both gradients.
constexpr Code check_fake_quantize_gradient(const Operands& operands) {
  if (!same(operands[0], operands[1])) return Code::kShapeInput;
  return !operands.has(2) || is(operands, 2, 2) ? Code::kOk : Code::kShapeScale;
}

struct FakeQuantizeGradientX {
  int elements, channels, inner;  // channels and inner: of a step per channel, else 1

  enum Word { kPerChannel = 0, kAxis = 1 };
  enum Operand { kDy, kX, kRange, kStep };

  static constexpr FakeQuantizeGradientX from(const Words& words, const Operands& operands) {
    const Shape dy = operands[kDy];
    if (words[kPerChannel] == 0) return {dy.elements(), 1, 1};
    const int axis = words.integer(kAxis);
    return {dy.elements(), dy[axis], dy.product(axis + 1, dy.rank)};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* x, Optional<const float> range, Optional<const float> step,
                         T* dx) const {
    using A = typename Element<T>::Accumulator;
    if (step) {
      for (int i : independent(elements)) dx[i] = T(A(dy[i]) / A(step.data[i / inner % channels]));
      return;
    }
    const float none[] = {0, 0};
    const NudgedRange nudged = NudgedRange::from(range ? range.data : none);
    const A low = A(nudged.low), high = A(nudged.high);
    for (int i : independent(elements)) {
      const A v = A(x[i]);
      dx[i] = nudged.none || v != v || (v >= low && v <= high) ? dy[i] : T(A(0));
    }
  }

  constexpr uint64_t work() const { return uint64_t(elements); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(check_fake_quantize_gradient(operands));
    if (words[kPerChannel] > 1 || (words[kPerChannel] != 0 && !operands.has(kStep))) return Code::kAttribute;
    if (words[kPerChannel] == 0 ? words[kAxis] != 0 : words[kAxis] >= uint32_t(operands[kDy].rank))
      return Code::kAttributeAxis;
    if (operands.has(kStep)) {
      if (operands.has(kRange)) return Code::kAttribute;
      if (!is(operands, kStep, words[kPerChannel] == 0 ? 1 : operands[kDy][words.integer(kAxis)]))
        return Code::kShapeScale;
    }
    *dx = dims_of(operands[kX]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"per_channel"}, {"axis"}};
  static constexpr const char* kInputs[] = {"dy", "x", "range?", "step?"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct FakeQuantizeGradientRange {
  int elements;

  enum Operand { kDy, kX, kRange, kSum };

  static constexpr FakeQuantizeGradientRange from(const Words&, const Operands& operands) {
    return {operands[kDy].elements()};
  }

  template <class T>  // the range is float32 whatever T is, and so is its gradient
  constexpr void forward(const T* dy, const T* x, const float* range, Update<float> sum) const {
    using A = typename Element<T>::Accumulator;
    const NudgedRange nudged = NudgedRange::from(range);
    if (nudged.none || !in_order()) return;
    A low = 0, high = 0;
    for (int i = 0; i < elements; ++i) {
      const A v = A(x[i]);
      if (v < A(nudged.low)) low += A(dy[i]);
      if (v > A(nudged.high)) high += A(dy[i]);
    }
    sum.data[0] += float(low);
    sum.data[1] += float(high);
  }

  constexpr uint64_t work() const { return uint64_t(elements); }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(check_fake_quantize_gradient(operands));
    return is(operands, kSum, 2) ? Code::kOk : Code::kShapeScale;
  }

  static constexpr const char* kInputs[] = {"dy", "x", "range", "&sum"};
};

struct ObserveRange {
  int elements;
  uint32_t freeze;
  bool widens;

  enum Word { kFreeze = 0, kWiden = 1 };
  enum Operand { kX, kSum, kBatches, kRange, kStep };

  static constexpr ObserveRange from(const Words& words, const Operands& operands) {
    return {operands[kX].elements(), words[kFreeze], words[kWiden] != 0};
  }

  template <class T>
  constexpr void forward(const T* x, Update<float> sum, Update<float> batches) const {
    if (in_order()) add(ends_of(x), sum, batches);
  }

  template <class T>
  constexpr void forward_used(const T* x, Update<float> sum, Update<float> batches, Optional<const float> range,
                              Optional<const uint32_t> step, float* used) const {
    if (!in_order()) return;
    if (frozen(range, step)) return put({range[0], range[1]}, used);
    const Ends ends = ends_of(x);
    add(ends, sum, batches);
    put(used_of(ends, range), used);
  }

  struct Ends {
    float low, high;
  };
  static constexpr void add(Ends ends, Update<float> sum, Update<float> batches) {
    sum.data[0] += ends.low;
    sum.data[1] += ends.high;
    batches.data[0] += 1;
  }
  static constexpr void put(Ends ends, float* used) { used[0] = ends.low, used[1] = ends.high; }
  constexpr Ends used_of(Ends ends, Optional<const float> range) const {
    if (!nacre::is_finite(ends.low) || !nacre::is_finite(ends.high)) return {0, 0};
    if (!widens) return ends;
    return {ends.low < range[0] ? ends.low : range[0], ends.high > range[1] ? ends.high : range[1]};
  }
  constexpr bool frozen(Optional<const float> range, Optional<const uint32_t> step) const {
    return step && step[0] >= freeze && !(range[0] == 0 && range[1] == 0);
  }

  constexpr uint64_t work() const { return uint64_t(elements); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* used) {
    if (!is(operands, kSum, 2) || !is(operands, kBatches, 1)) return Code::kShapeScale;
    if (words[kWiden] > 1 || (words[kFreeze] != 0) != operands.has(kStep)) return Code::kAttribute;
    if ((words[kFreeze] != 0 || words[kWiden] != 0) != operands.has(kRange)) return Code::kAttribute;
    if (operands.has(kStep) && !is(operands, kStep, 1)) return Code::kShapeInput;
    if (operands.has(kRange) && !is(operands, kRange, 2)) return Code::kShapeScale;
    used->push(2);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"freeze"}, {"widen"}};
  static constexpr const char* kInputs[] = {"x", "&sum", "&batches", "range?", "step?"};
  static constexpr const char* kOutputs[] = {"used?"};

 private:
  template <class T>
  constexpr Ends ends_of(const T* x) const {
    float low = float(x[0]), high = low;
    for (int i = 1; i < elements; ++i) {
      const float v = float(x[i]);
      if (!(v >= low)) low = low != low ? low : v;  // NaN stays NaN
      if (!(v <= high)) high = high != high ? high : v;
    }
    return {low, high};
  }
};

inline constexpr OpRule kFakeQuantizeRule = {.op = Op::kFakeQuantize,
                                             .name = "fake_quantize",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &FakeQuantize::shapes,
                                             .attributes = FakeQuantize::kAttributes,
                                             .inputs = FakeQuantize::kInputs,
                                             .outputs = FakeQuantize::kOutputs,
                                             .gradients = FakeQuantize::kGradients,
                                             .parameters = 1u << FakeQuantize::kRange};
inline constexpr OpRule kFakeQuantizeGradientXRule = {.op = Op::kFakeQuantizeGradientX,
                                                      .name = "fake_quantize_gradient_x",
                                                      .numerics = Numerics::kPointwise,
                                                      .shapes = &FakeQuantizeGradientX::shapes,
                                                      .attributes = FakeQuantizeGradientX::kAttributes,
                                                      .inputs = FakeQuantizeGradientX::kInputs,
                                                      .outputs = FakeQuantizeGradientX::kOutputs};
inline constexpr OpRule kFakeQuantizeGradientScaleRule = {.op = Op::kFakeQuantizeGradientScale,
                                                          .name = "fake_quantize_gradient_range",
                                                          .numerics = Numerics::kReduction,
                                                          .shapes = &FakeQuantizeGradientRange::shapes,
                                                          .attributes = {},
                                                          .inputs = FakeQuantizeGradientRange::kInputs,
                                                          .outputs = {}};
inline constexpr OpRule kObserveRangeRule = {.op = Op::kObserveRange,
                                             .name = "observe_range",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &ObserveRange::shapes,
                                             .attributes = ObserveRange::kAttributes,
                                             .inputs = ObserveRange::kInputs,
                                             .outputs = ObserveRange::kOutputs};

}  // namespace nacre::inline NACRE_ISA
