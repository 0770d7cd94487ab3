// The fixed-point part of the oracle, in integers of 128 bits if the compiler has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/numeric/rounding.h"

namespace nacre::test {

int64_t exact_multiply(Rounding rounding, int64_t x, int64_t multiplier, int64_t shift);

// Scales a 64-bit sum by a multiplier rounded to 16 bits: engine/numeric/NUMERICS.md eq. 23.
int64_t exact_wide_multiply(int64_t x, int64_t multiplier, int64_t shift);

// Returns code i, with `bits` bits, of TFLite's softmax of the int8 codes x, by the published fixed-point formulas.
struct SoftmaxCodes {
  int64_t multiplier, shift, diff_min;
  int bits = 8;
};
int64_t softmax_code(const std::vector<double>& x, size_t i, Rounding rounding, const SoftmaxCodes& codes);

}  // namespace nacre::test
