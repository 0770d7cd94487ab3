// How a result is rounded to its integer type. It is a field of the step, by which the kernel is chosen.
#pragma once

#include <cstdint>

namespace nacre {

enum class Rounding : uint8_t {
  kNone = 0,       // no integer rounding in this step
  kDouble = 1,     // TFLite: rounding doubling high multiply, then rounding shift (NUMERICS.md eq. 2)
  kSingle = 2,     // one int64 product, one rounding shift (NUMERICS.md eq. 3)
  kFloatEven = 3,  // float32 product, half to even (XNNPACK, ONNX Runtime; NUMERICS.md eq. 4)
  kHalfAway = 4,   // float to integer, half away from zero (TFLite quantize)
  kHalfEven = 5,   // float to integer, half to even (ONNX QuantizeLinear)
  kCount
};

}  // namespace nacre
