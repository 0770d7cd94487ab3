// Makes quantizers like TensorFlow Lite's converter for full-integer int8. Activations are asymmetric per tensor.
// Weights are symmetric, per output channel or per tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/calibration/statistics.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr int kPerTensor = -1;

// Returns the quantizer of activations with this range: affine_of_range of engine/numeric/int8_range.h.
Quantizer quantizer_of_range(Range range);

// Returns the quantizer of weights with codes in [-127, 127], zero 0 and scale_k = symmetric_scale(max |w_k|), k along
// `axis`. For kPerTensor it has one scale.
Quantizer symmetric_quantizer(std::span<const float> w, const std::vector<int64_t>& dims, int axis);

// Returns round(w / scale), half away from zero, saturated to [-127, 127].
std::vector<int8_t> symmetric_codes(std::span<const float> w, const std::vector<int64_t>& dims,
                                    const Quantizer& quantizer);

// Returns round(x / scale) + zero, half away from zero, saturated to [-128, 127], for a quantizer of one scale.
std::vector<int8_t> asymmetric_codes(std::span<const float> x, const Quantizer& quantizer);

// Returns the product of the dims after `axis`. Element i of a tensor has the index i / inner % dims[axis] along
// `axis`.
int64_t inner_elements(const std::vector<int64_t>& dims, int axis);

}  // namespace nacre::tools
