// Converts between real numbers and codes: real = scale (code - zero), per tensor or per index of `axis`.
//
//   quantize          q = saturate(round(x / scale) + zero)           round: half away from zero, or half to even
//                     q = saturated(x / scale)                        float8, half to even; with x and scale of a
//                                                                     16-bit T the quotient is rounded to T first
//   dequantize        y = scale (q - zero)                            float8: y = scale q
//                     with form = reciprocal x scale and (q - zero) / scale
//   requantize        y = saturate(zero_y + (x - zero_x) M)           int8, uint8, int16, int32: NUMERICS.md eq. 8
//   cast              y = x in another element type: real to integer truncates and saturates, NaN gives 0; integer to a
//                     narrower integer keeps the low bits; to bool: x != 0
//   dynamic_quantize  scale and zero point come from each row's values; a row shares the dims before `axis`
//                     TFLite       NUMERICS.md eq. 13; with `onnx`, ONNX's DynamicQuantizeLinear
//                     Keras        s = 127 / (max |x| + 1e-7),  q = clip(round_half_even(x s), -127, 127): absmax.h
//                     float8       f = current_scale(max |x|),  q = saturated(x f),  scale = 1 / f: float8_scale.h
//
//   scale, zero [1] or [size of axis];  dynamic: the dims of x before `axis`, or [1]; zero only for TFLite and ONNX
#pragma once

#include <limits>

#include "engine/base/isa.h"
#include "engine/numeric/absmax.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/policy.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// Returns v saturated to the range of T.
template <class T>
constexpr T saturate(int64_t v) {
  constexpr int64_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  return T(v < kLow ? kLow : v > kHigh ? kHigh : v);
}

struct Quantize {  // serves quantize and dequantize
  int outer, channels, inner;
  bool per_channel;
  uint32_t form;

  enum Word { kAxis = 0, kForm = 1 };
  enum Operand { kX, kScale, kZero };

  static constexpr Quantize from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    if (operands[kScale][0] == 1) return {1, 1, x.elements(), false, words[kForm]};
    const int axis = words.integer(kAxis);
    return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank), true, words[kForm]};
  }

  template <Rounding kRounding, class Q>
  constexpr void forward(const float* x, const float* scale, Optional<const int32_t> zero, Q* q) const {
    each_element([&](int i, int c) {
      q[i] = saturate<Q>(int64_t{round_to_integer<kRounding>(coded(x[i], scale[c]))} + (zero ? zero[c] : 0));
    });
  }

  template <class Q>  // a float8 type
  constexpr void forward_float8(const float* x, const float* scale, Q* q) const {
    each_element([&](int i, int c) { q[i] = Q::saturated(coded(x[i], scale[c])); });
  }

  template <class Q, class T>
  constexpr void forward_float8_each(const T* x, const T* scale, Q* q) const {
    each_element([&](int i, int c) { q[i] = Q::saturated(float(T(coded(float(x[i]), float(scale[c]))))); });
  }

  template <class Q>
  constexpr void backward(const Q* q, const float* scale, Optional<const int32_t> zero, float* x) const {
    each_element([&](int i, int c) { x[i] = decoded(float(wrapping_sub(q[i], zero ? zero[c] : 0)), scale[c]); });
  }

  template <class Q>
  constexpr void backward_float8(const Q* q, const float* scale, float* x) const {
    each_element([&](int i, int c) { x[i] = decoded(float(q[i]), scale[c]); });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], scale = operands[kScale];
    if (scale.rank != 1) return Code::kShapeScale;
    if (words[kForm] > 1) return Code::kAttribute;
    if (scale[0] != 1) {
      if (words[kAxis] >= uint32_t(x.rank)) return Code::kAttributeAxis;
      if (scale[0] != x[words.integer(kAxis)]) return Code::kShapeScale;
    }
    if (operands.has(kZero) && (operands[kZero].rank != 1 || operands[kZero][0] != scale[0])) return Code::kShapeScale;
    *y = dims_of(x);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"axis"}, {"form"}};
  static constexpr const char* kInputs[] = {"x", "scale", "zero?"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  constexpr float coded(float x, float scale) const {
    return form == uint32_t(ScaleForm::kReciprocal) ? x * scale : x / scale;
  }
  constexpr float decoded(float code, float scale) const {
    return form == uint32_t(ScaleForm::kReciprocal) ? code / scale : code * scale;
  }

  template <class F>
  constexpr void each_element(F f) const {  // calls f(index, channel)
    each_independent(1, outer, channels, inner, [&](int, int, int c, int, int e) { f(e, per_channel ? c : 0); });
  }
};

struct Requantize {
  int elements, x_zero, y_zero;

  enum Word { kXZero = 0, kYZero = 1 };

  static constexpr Requantize from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.integer(kXZero), words.integer(kYZero)};
  }

  template <Rounding kRounding, class X, class Y>
  constexpr void forward(const X* x, const int32_t* requant, Y* y) const {
    for (int i : independent(elements))
      y[i] =
          saturate<Y>(wrapping_add(multiply<kRounding>(wrapping_sub(x[i], x_zero), {requant[0], requant[1]}), y_zero));
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const ElementType x = operands.element(0);  // y may be of another type, which this rule does not see
    const bool wide = x == ElementType::kInt16 || x == ElementType::kInt32;
    for (const int word : {kXZero, kYZero}) {
      const int zero = words.integer(word);
      if (wide ? !is_code(zero, ElementType::kInt16) : zero < -128 || zero > 255) return Code::kAttributeZero;
    }
    NACRE_TRY_CODE(check_pairs(operands, 1, 1));
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"x_zero"}, {"y_zero"}};
  static constexpr const char* kInputs[] = {"x", "requant"};
  static constexpr const char* kOutputs[] = {"y"};
};

struct Cast {
  int elements;

  static constexpr Cast from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class From, class To>
  constexpr void forward(const From* x, To* y) const {
    for (int i : independent(elements)) y[i] = convert<To>(value(x[i]));
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  template <class From>
  static constexpr auto value(From x) {
    if constexpr (std::is_same_v<From, Bool>) return int32_t(x.byte != 0);
    else if constexpr (std::is_arithmetic_v<From>) return x;
    else return float(x);
  }

  template <class To, class From>
  static constexpr To convert(From x) {
    if constexpr (std::is_same_v<To, Bool>) {
      return {uint8_t(x != 0)};
    } else if constexpr (std::is_floating_point_v<From> && std::numeric_limits<To>::is_integer) {
      constexpr From kPast = From(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;  // max + 1, exact
      if (x != x) return 0;
      if (x >= kPast) return std::numeric_limits<To>::max();
      return x > From(std::numeric_limits<To>::min()) ? To(x) : std::numeric_limits<To>::min();
    } else {
      return To(x);
    }
  }
};

struct DynamicQuantize {
  int rows, width;
  bool symmetric, onnx;

  enum Word { kAxis = 0, kSymmetric = 1, kOnnx = 2 };

  static constexpr DynamicQuantize from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    const int axis = words.integer(kAxis);
    return {x.product(0, axis), x.product(axis, x.rank), words[kSymmetric] != 0, words[kOnnx] != 0};
  }

  constexpr void forward(const float* x, int8_t* q, float* scale, int32_t* zero) const {
    for (int r : independent(rows)) {
      const float* from = x + r * width;
      int8_t* to = q + r * width;
      float low = 0, high = 0;
      for (int i = 0; i < width; ++i) {
        low = from[i] < low ? from[i] : low;
        high = from[i] > high ? from[i] : high;
      }
      if (symmetric) quantize_symmetric(from, -low > high ? -low : high, to, scale + r, zero + r);
      else if (onnx) quantize_as_onnx(from, low, high, to, scale + r, zero + r);
      else quantize_asymmetric(from, low, high, to, scale + r, zero + r);
    }
  }

  template <class T>
  constexpr void forward_abs_max(const T* x, int8_t* q, T* scale) const {
    const auto size = size_t(width);
    for (int r : independent(rows))
      scale[r] =
          absmax_quantize(std::span<const T>(x + r * width, size), std::span<int8_t>(q + r * width, size), kInt8Range);
  }

  constexpr void forward_float8(const float* x, Float8E4M3* q, float* scale) const {
    constexpr CurrentScaling kRule = {.format_max = 448};
    for (int r : independent(rows)) {
      const float* from = x + r * width;
      const float amax = amax_value(amax_bits(std::span<const float>(from, size_t(width))));
      const float factor = current_scale(amax, kRule).scale;
      scale[r] = 1 / factor;
      for (int i = 0; i < width; ++i) q[r * width + i] = Float8E4M3::saturated(from[i] * factor);
    }
  }

  constexpr uint64_t work() const { return uint64_t(rows) * uint64_t(width); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    const Shape x = operands[0];
    if (words[kAxis] > uint32_t(x.rank)) return Code::kAttributeAxis;
    if (words[kSymmetric] > 1 || words[kOnnx] > 1 || words[kSymmetric] + words[kOnnx] > 1) return Code::kAttribute;
    outputs[0] = dims_of(x);
    for (int axis = 0; axis < words.integer(kAxis); ++axis) outputs[1].push(x[axis]);
    if (words[kAxis] == 0) outputs[1].push(1);
    outputs[2] = outputs[1];  // `zero`, if there is one
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"axis"}, {"symmetric"}, {"onnx"}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"q", "scale", "zero?"};

 private:
  constexpr void quantize_symmetric(const float* x, float amax, int8_t* q, float* scale, int32_t* zero) const {
    *zero = 0;
    *scale = amax == 0 ? 1 : amax / 127;
    const float inverse = amax == 0 ? 0 : 127 / amax;
    for (int i = 0; i < width; ++i) {
      const int32_t code = round_half_away(x[i] * inverse);
      q[i] = int8_t(code < -127 ? -127 : code > 127 ? 127 : code);
    }
  }

  // Quantizes with a zero point. It is computed from the end of the range with the smaller magnitude, which loses
  // less in rounding.
  constexpr void quantize_asymmetric(const float* x, float low, float high, int8_t* q, float* scale,
                                     int32_t* zero) const {
    *scale = 1;
    *zero = 0;
    if (low != high) {
      const double step = (double(high) - double(low)) / 255;
      const double below = -double(low) / step, above = double(high) / step;
      *zero = saturate<int8_t>(round_half_away(128 + below < 127 + above ? below - 128 : 127 - above));
      *scale = float(step);
    }
    const float inverse = 1 / *scale;
    for (int i = 0; i < width; ++i) q[i] = saturate<int8_t>(round_half_away(float(*zero) + x[i] * inverse));
  }

  // Does DynamicQuantizeLinear, with codes and zero point lower by 128, all in float32, as onnxruntime's
  // core/util/qmath.h, GetQuantizationParameter, and core/mlas/lib/quantize.cpp. A step that underflows to 0 becomes
  // 1; onnxruntime divides by 0 there.
  constexpr void quantize_as_onnx(const float* x, float low, float high, int8_t* q, float* scale, int32_t* zero) const {
    const float step = (high - low) / 255;
    *scale = step > 0 ? step : 1;
    const float start = -low / *scale;
    *zero = round_half_even(start > 255 ? 255 : start) - 128;
    for (int i = 0; i < width; ++i) q[i] = saturate<int8_t>(int64_t{round_half_even(x[i] / *scale)} + *zero);
  }
};

inline constexpr OpRule kQuantizeRule = {.op = Op::kQuantize,
                                         .name = "quantize",
                                         .numerics = Numerics::kPointwise,
                                         .shapes = &Quantize::shapes,
                                         .attributes = Quantize::kAttributes,
                                         .inputs = Quantize::kInputs,
                                         .outputs = Quantize::kOutputs};
inline constexpr OpRule kDequantizeRule = {.op = Op::kDequantize,
                                           .name = "dequantize",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &Quantize::shapes,
                                           .attributes = Quantize::kAttributes,
                                           .inputs = Quantize::kInputs,
                                           .outputs = Quantize::kOutputs};
inline constexpr OpRule kRequantizeRule = {.op = Op::kRequantize,
                                           .name = "requantize",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &Requantize::shapes,
                                           .attributes = Requantize::kAttributes,
                                           .inputs = Requantize::kInputs,
                                           .outputs = Requantize::kOutputs};
inline constexpr OpRule kCastRule = {.op = Op::kCast,
                                     .name = "cast",
                                     .numerics = Numerics::kPointwise,
                                     .shapes = &Cast::shapes,
                                     .attributes = {},
                                     .inputs = Cast::kInputs,
                                     .outputs = Cast::kOutputs};
inline constexpr OpRule kDynamicQuantizeRule = {.op = Op::kDynamicQuantize,
                                                .name = "dynamic_quantize",
                                                .numerics = Numerics::kPointwise,
                                                .shapes = &DynamicQuantize::shapes,
                                                .attributes = DynamicQuantize::kAttributes,
                                                .inputs = DynamicQuantize::kInputs,
                                                .outputs = DynamicQuantize::kOutputs};

}  // namespace nacre::inline NACRE_ISA
