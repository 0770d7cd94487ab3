// Quantizers as TensorFlow Lite's converter makes them for full-integer int8: activations asymmetric per tensor,
// weights symmetric per output channel or per tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/calibration/statistics.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr int kPerTensor = -1;

// Codes of activations. The range is widened to hold 0, and 0 gets a code of its own:
//
//   scale = (high - low) / 255,   zero = round(-128 - low / scale), half away from zero
//
// in float64, the scale stored in float32: GetAsymmetricQuantizationParams
// (lite/tools/optimize/quantization_utils.cc) and getNudgedScaleAndZeroPoint
// (mlir/Dialect/Quant/FakeQuantSupport.cc), which solves for the zero point at the end with the smaller magnitude. A
// range below 1e-6 is widened to 1e-6 around 0 (ExpandVerySmallRange, mlir/quantization/common/
// quantization_lib/quantization_utils.cc): no scale is 0.
Quantizer quantizer_of_range(Range range);

// Codes of weights in [-127, 127], zero 0:  scale_k = max |w_k| / 127, k along `axis`; at least 5e-7 / 127, as above.
Quantizer symmetric_quantizer(std::span<const float> w, const std::vector<int64_t>& dims, int axis);

// round(w / scale), half away from zero, saturated to [-127, 127].
std::vector<int8_t> symmetric_codes(std::span<const float> w, const std::vector<int64_t>& dims,
                                    const Quantizer& quantizer);

// round(x / scale) + zero, half away from zero, saturated to [-128, 127]; one scale.
std::vector<int8_t> asymmetric_codes(std::span<const float> x, const Quantizer& quantizer);

// Of a tensor of `dims`, the index along `axis` of element i is i / inner % dims[axis].
int64_t inner_elements(const std::vector<int64_t>& dims, int axis);

}  // namespace nacre::tools
