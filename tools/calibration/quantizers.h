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

// Codes of activations: affine_of_range of engine/numeric/int8_range.h.
Quantizer quantizer_of_range(Range range);

// Codes of weights in [-127, 127], zero 0:  scale_k = symmetric_scale(max |w_k|), k along `axis`.
Quantizer symmetric_quantizer(std::span<const float> w, const std::vector<int64_t>& dims, int axis);

// round(w / scale), half away from zero, saturated to [-127, 127].
std::vector<int8_t> symmetric_codes(std::span<const float> w, const std::vector<int64_t>& dims,
                                    const Quantizer& quantizer);

// round(x / scale) + zero, half away from zero, saturated to [-128, 127]; one scale.
std::vector<int8_t> asymmetric_codes(std::span<const float> x, const Quantizer& quantizer);

// Elements behind `axis` in a tensor of `dims`: element i has the index i / inner % dims[axis] along `axis`.
int64_t inner_elements(const std::vector<int64_t>& dims, int axis);

}  // namespace nacre::tools
