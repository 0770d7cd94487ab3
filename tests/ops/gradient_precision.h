// Bounds on the cost of rounding to an element type, and arrays rounded to it.
#pragma once

#include <cstdint>

#include "tests/gradient_check.h"

namespace nacre::test::gradient_precision {

// Rounding costs at most `half_ulp`, relative, plus `smallest`, half of the smallest subnormal (float64: 0).
struct Precision {
  double half_ulp, smallest;
};
inline Precision precision(ElementType type) {
  switch (type) {
    case ElementType::kFloat16: return {0x1p-11, 0x1p-25};
    case ElementType::kBfloat16: return {0x1p-8, 0x1p-134};
    case ElementType::kFloat32: return {0x1p-24, 0x1p-150};
    default: return {0x1p-53, 0};
  }
}

inline Array converted(const Array& from, ElementType element) {
  Array to = make_array(element, from.dims);
  for (int64_t i = 0; i < from.elements(); ++i) to.set(i, from.real(i));
  return to;
}

}  // namespace nacre::test::gradient_precision
