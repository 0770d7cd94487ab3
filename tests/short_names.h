// Short names of element types and of float32's special values.
#pragma once

#include <limits>

#include "engine/base/tensor.h"

namespace nacre::test {

inline constexpr ElementType kF32 = ElementType::kFloat32, kF16 = ElementType::kFloat16, kBf16 = ElementType::kBfloat16,
                             kF64 = ElementType::kFloat64, kE4M3 = ElementType::kFloat8E4M3, kI4 = ElementType::kInt4,
                             kI8 = ElementType::kInt8, kI32 = ElementType::kInt32, kU32 = ElementType::kUint32;
inline constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace nacre::test
