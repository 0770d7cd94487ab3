// CodeEnds is the range of the codes of an integer type.
#pragma once

#include <cstdint>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct CodeEnds {
  int32_t low, high;
};

// Returns the least and the greatest code of an integer type of at most 32 bits.
constexpr CodeEnds code_ends(ElementType codes) {
  const int64_t count = int64_t{1} << element_bits(codes);
  const int64_t low = codes == ElementType::kUint8 || codes == ElementType::kUint4 ? 0 : -count / 2;
  return {int32_t(low), int32_t(low + count - 1)};
}

}  // namespace nacre::tools
