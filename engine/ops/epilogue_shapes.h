// The shape rule of an epilogue. It says which operands and attributes beside x and w make a form of epilogue.h, and
// checks their shapes.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct EpilogueShapes {
  enum Operand { kX, kW, kBias, kScale, kXScale, kXZeroPoint, kZero = kXScale, kYScale = kXZeroPoint };

  int channels;  // channels of y
  int terms;     // terms of each sum
  int rows;      // leading axes of x whose every index is a row
  int clamp;     // first word of {clamp, low, high, x_zero, y_zero}
  int form;      // first word of {form, block}

  constexpr Code check(const Words& words, const Operands& operands) const {
    const bool scaled = operands.has(kScale), more = scaled && operands.has(kXScale);
    const bool grouped = more && operands.element(kZero) == ElementType::kInt8;
    const bool weight_only = scaled && !more && !holds_codes(operands.element(kX));
    if (words[form] > (weight_only ? 1u : 0u)) return Code::kAttribute;
    if (operands.has(kBias) && !is(operands, kBias, channels)) return Code::kShapeBias;
    if (!grouped && words[form + 1] != 0) return Code::kAttribute;
    if (grouped) NACRE_TRY_CODE(check_groups(words[form + 1], operands));
    else if (scaled && !scales_fit(operands)) return Code::kShapeScale;
    NACRE_TRY_CODE(check_terms(operands, terms));
    const ElementType codes = more ? ElementType::kNone : operands.element(kX);
    NACRE_TRY_CODE(check_zero(words.integer(clamp + 3), codes));
    NACRE_TRY_CODE(check_zero(words.integer(clamp + 4), codes));
    return check_clamp(words, clamp, codes);
  }

 private:
  constexpr Code check_groups(uint32_t block, const Operands& operands) const {
    if (block < 1 || block > 1u << 28) return Code::kAttribute;
    const int groups = int(uint32_t(terms - 1) / block) + 1;
    const bool fit = is(operands, kScale, channels, groups) && is(operands, kZero, channels, groups);
    return fit ? Code::kOk : Code::kShapeScale;
  }

  // Checks the scale: [1 | channels], or as requantization pairs [1 | channels, 2].
  constexpr bool scales_fit(const Operands& operands) const {
    const int pair = operands.element(kScale) == ElementType::kInt32 ? 2 : 0;
    if (!is(operands, kScale, 1, pair) && !is(operands, kScale, channels, pair)) return false;
    return !operands.has(kXScale) || x_scale_fits(operands);
  }

  constexpr bool x_scale_fits(const Operands& operands) const {
    const Shape x = operands[kX], scale = operands[kXScale];
    const bool last = operands.has(kXZeroPoint);
    const bool hybrid = last && operands.element(kXZeroPoint) == ElementType::kInt32;
    const int last_size = hybrid && rows > 0 ? x[0] : 1;  // elements of x_zero, or of y_scale
    if (last && !is(operands, kXZeroPoint, last_size)) return false;
    if (is(operands, kXScale, last_size)) return true;
    bool fit = !hybrid && rows > 0 && scale.rank == rows;
    for (int axis = 0; fit && axis < rows; ++axis) fit = scale[axis] == x[axis];
    return fit;
  }
};

}  // namespace nacre::inline NACRE_ISA
