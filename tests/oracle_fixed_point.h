// The fixed-point part of the oracle: exact rationals and 128-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/numeric/rounding.h"

namespace nacre::test {

int64_t exact_multiply(Rounding rounding, int64_t x, int64_t multiplier, int64_t shift);

// Code i of TFLite's int8 softmax of the codes x, from the published fixed-point formulas.
int64_t softmax_code(const std::vector<double>& x, size_t i, Rounding rounding, int64_t multiplier, int64_t shift,
                     int64_t diff_min);

}  // namespace nacre::test
