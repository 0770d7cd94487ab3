// Points of the sigmoid's curve on int16 codes (engine/ops/curve.h), equal to those of LiteRT's reference kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::tools {

// Returns 2^16 sigmoid(i / 24), i < 256, each corrected for interpolation.
std::vector<int32_t> sigmoid_points();

}  // namespace nacre::tools
