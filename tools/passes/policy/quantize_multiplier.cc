#include "tools/passes/policy/quantize_multiplier.h"

#include <cmath>

namespace nacre::tools {

FixedPoint quantize_multiplier(double real) {
  if (real == 0) return {0, 0};
  int shift = 0;
  auto multiplier = int64_t(std::round(std::frexp(real, &shift) * double(int64_t{1} << 31)));
  if (multiplier == int64_t{1} << 31) {
    multiplier /= 2;
    ++shift;
  }
  if (shift < -31) return {0, 0};
  if (shift > 30) return {INT32_MAX, 30};
  return {int32_t(multiplier), shift};
}

}  // namespace nacre::tools
