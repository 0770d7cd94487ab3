// Makes the quantizers of int8 tensors from their values, as TensorFlow Lite's converter does. Both the converter and
// training that simulates quantization use these functions.
//
// Activations have codes -128 .. 127. The range is widened to contain 0, and 0 gets a code of its own:
//
//   scale = (high - low) / 255,   zero = round(-128 - low / scale), half away from zero
//
// These are computed in float64; the scale is stored in float32: GetAsymmetricQuantizationParams
// (lite/tools/optimize/quantization_utils.cc) and getNudgedScaleAndZeroPoint
// (mlir/Dialect/Quant/FakeQuantSupport.cc), which solves for the zero point at the end with the smaller magnitude. A
// range below 1e-6 is widened to 1e-6 around 0, so no scale is 0 (ExpandVerySmallRange,
// mlir/quantization/common/quantization_lib/quantization_utils.cc).
//
// Weights have codes -127 .. 127 and zero point 0: scale = max |w| / 127, q = round(w / scale), half away from zero,
// in float64.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/affine.h"

namespace nacre::inline NACRE_ISA {

struct AffineScale {  // real = scale (code - zero)
  float scale;
  int32_t zero;
};

inline constexpr double kSmallestRange = 1e-6;  // kNearZeroTolerance of quantization_utils.h

// Returns the quantizer of any range: low and high may both be on one side of 0, or in reverse order. If one is not
// finite, the scale is not.
constexpr AffineScale affine_of_range(double low, double high) {
  low = low > 0 ? 0 : low;
  high = high < 0 ? 0 : high;
  if (high - low <= kSmallestRange) {
    low = low < -kSmallestRange / 2 ? low : -kSmallestRange / 2;
    high = high > kSmallestRange / 2 ? high : kSmallestRange / 2;
  }
  const double scale = (high - low) / 255;
  const bool from_low = 128 - low / scale < 127 + high / scale;
  return {float(scale), clamp_to_int8(round_half_away(from_low ? -128 - low / scale : 127 - high / scale))};
}

constexpr float symmetric_scale(double amax) {
  return float((amax < kSmallestRange / 2 ? kSmallestRange / 2 : amax) / 127);
}

// Returns the code of w. NaN gives 0.
constexpr int8_t symmetric_code(double w, float scale) {
  const int32_t code = round_half_away(w / double(scale));
  return int8_t(code < -127 ? -127 : code > 127 ? 127 : code);
}

}  // namespace nacre::inline NACRE_ISA
