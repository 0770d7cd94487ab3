// TFLite's affine int8 quantizer: real = (q - zero) scale. NUMERICS.md sections 1 and 5.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"

namespace nacre::inline NACRE_ISA {

constexpr int8_t clamp_to_int8(int64_t v) { return int8_t(v < -128 ? -128 : v > 127 ? 127 : v); }

// Returns saturate(round_half_away(x / scale) + zero). NaN gives `zero`.
constexpr int8_t affine_code(float x, float scale, int32_t zero) {
  return clamp_to_int8(int64_t{round_half_away(x / scale)} + zero);
}

constexpr float affine_value(int8_t q, float scale, int32_t zero) { return scale * float(wrapping_sub(q, zero)); }

}  // namespace nacre::inline NACRE_ISA
