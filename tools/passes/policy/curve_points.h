// Points of the sigmoid's curve on int16 codes (engine/ops/curve.h), those of LiteRT's reference kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::tools {

// 2^16 sigmoid(i / 24), i < 256.
std::vector<int32_t> sigmoid_points();

}  // namespace nacre::tools
