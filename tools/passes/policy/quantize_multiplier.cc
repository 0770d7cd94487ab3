#include "tools/passes/policy/quantize_multiplier.h"

#include <cmath>
#include <cstdint>

namespace nacre::tools {

FixedPoint quantize_multiplier(double real) {
  if (real == 0) return {0, 0};
  int shift = 0;
  auto magnitude = int64_t(std::round(std::frexp(std::fabs(real), &shift) * double(int64_t{1} << 31)));
  if (magnitude == int64_t{1} << 31) {
    magnitude /= 2;
    ++shift;
  }
  if (shift < -31) return {0, 0};
  if (shift > 30) magnitude = INT32_MAX, shift = 30;
  return {int32_t(real < 0 ? -magnitude : magnitude), shift};
}

}  // namespace nacre::tools
