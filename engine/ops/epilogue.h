// What dense and the convolutions share beside their sums: operands, attributes, and what is made of a sum.
//
//   form         operands after x, w, bias       y
//
//   float        none                            clamp(sum + b)
//   int8         scale                           requantized: NUMERICS.md eq. 1
//   weight-only  scale [1 | out]                 clamp(sum s + b), or clamp(sum / s + b) with form = reciprocal
//   grouped      scale, zero [out, groups]       clamp(sum + b), w = s_g (q - z_g), g = i / block for term i
//   dynamic      scale [1 | out], x_scale        clamp(sum / (s t) + b), every operation rounded: Keras' int8
//   hybrid       scale [1 | out], x_scale, zero  clamp(sum s t + b): TFLite, NUMERICS.md eq. 13
//   float8       scale [1 | out], x_scale        clamp(sum s t + b); with a third, y_scale u: saturated(that / u)
//
// The types of the operands tell the forms apart. x_scale has one value t for each row that dynamic_quantize sees (of
// dense the leading dims of x, of a convolution [batch]), or one for all; of hybrid, one per row of axis 0. Sums of 16-bit
// floats are float32; scales, bias and clamp come before the one rounding to the type of y.
#pragma once

#include "engine/numeric/policy.h"
#include "engine/numeric/rounded.h"
#include "engine/ops/parameters.h"

namespace nacre {

// Element i in the type of a sum.
template <class A, class W>
constexpr A element(const W* w, int i) {
  if constexpr (std::is_same_v<W, Int4Pair>) return A(int4_code(w, i));
  else return A(w[i]);
}

// v as a T, then as a Y: a fused cast rounds as the two steps would.
template <class T, class Y, class A>
constexpr Y rounded(A v) {
  if constexpr (std::is_same_v<T, Y>) return T(v);
  else return Y(A(T(v)));
}

// A sum of codes times a step, or over a reciprocal.
template <class A>
constexpr A scaled(A sum, A scale, uint32_t form) {
  return form == uint32_t(ScaleForm::kReciprocal) ? sum / scale : sum * scale;
}

// sum / (scale x_scale) as Keras' int8 layers compute it. The sum becomes a T by way of float32, as in Eigen and
// ml_dtypes.
template <class T>
constexpr Rounded<T> quotient(int32_t sum, T scale, T x_scale) {
  return Rounded<T>(T(typename Rounded<T>::Wide(sum))) / (Rounded<T>(scale) * Rounded<T>(x_scale));
}

struct Epilogue {
  enum Operand { kX, kW, kBias, kScale, kXScale, kXZeroPoint, kZero = kXScale, kYScale = kXZeroPoint };

  int channels;  // of y
  int terms;     // of each sum
  int rows;      // leading axes of x whose every index is a row
  int clamp;     // first word of {clamp, low, high, x_zero, y_zero}
  int form;      // first word of {form, block}

  Code check(const Words& words, const Operands& operands) const {
    const bool scaled = operands.has(kScale), more = scaled && operands.has(kXScale);
    const bool grouped = more && operands.element(kZero) == ElementType::kInt8;
    const bool weight_only = scaled && !more && operands.element(kX) != ElementType::kInt8;
    if (words[form] > (weight_only ? 1u : 0u)) return Code::kAttribute;
    if (operands.has(kBias) && !is(operands, kBias, channels)) return Code::kShapeBias;
    if (!grouped && words[form + 1] != 0) return Code::kAttribute;
    if (grouped) TRY_CODE(check_groups(words[form + 1], operands));
    else if (scaled && !scales_fit(operands)) return Code::kShapeScale;
    TRY_CODE(check_terms(operands, terms));
    const ElementType codes = more ? ElementType::kNone : operands.element(kX);
    TRY_CODE(check_zero(words.integer(clamp + 3), codes));
    TRY_CODE(check_zero(words.integer(clamp + 4), codes));
    return check_clamp(words, clamp, codes);
  }

 private:
  Code check_groups(uint32_t block, const Operands& operands) const {
    if (block < 1 || block > 1u << 28) return Code::kAttribute;
    const int groups = int(uint32_t(terms - 1) / block) + 1;
    const bool fit = is(operands, kScale, channels, groups) && is(operands, kZero, channels, groups);
    return fit ? Code::kOk : Code::kShapeScale;
  }

  // scale: [1 | channels], as requantization pairs [1 | channels, 2].
  bool scales_fit(const Operands& operands) const {
    const int pair = operands.element(kScale) == ElementType::kInt32 ? 2 : 0;
    if (!is(operands, kScale, 1, pair) && !is(operands, kScale, channels, pair)) return false;
    return !operands.has(kXScale) || x_scale_fits(operands);
  }

  bool x_scale_fits(const Operands& operands) const {
    const Shape x = operands[kX], scale = operands[kXScale];
    const bool last = operands.has(kXZeroPoint);
    const bool hybrid = last && operands.element(kXZeroPoint) == ElementType::kInt32;
    const int last_size = hybrid && rows > 0 ? x[0] : 1;  // of x_zero, of y_scale
    if (last && !is(operands, kXZeroPoint, last_size)) return false;
    if (is(operands, kXScale, last_size)) return true;
    bool fit = !hybrid && rows > 0 && scale.rank == rows;
    for (int axis = 0; fit && axis < rows; ++axis) fit = scale[axis] == x[axis];
    return fit;
  }
};

}  // namespace nacre
