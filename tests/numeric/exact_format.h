// Number formats by their definition, for comparisons. A format's values are listed as exact float64 numbers. A
// float32 is rounded by comparing it with the midpoints between them, which are exact in float64. No arithmetic on
// bits is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::test {

enum class Kind { kIeee, kFn, kFnuz, kFinite };

struct ExactFormat {
  ExactFormat(int exponents, int mantissas, int exponent_bias, Kind special);

  int exponent_bits, mantissa_bits, bias;
  Kind kind;
  uint32_t sign_bit;              // of a code
  std::vector<double> values;     // of codes 0, 1, ..: finite, not negative, increasing
  std::vector<double> midpoints;  // [i]: between values i and i + 1; last: the overflow threshold

  uint32_t max_code() const { return uint32_t(values.size()) - 1; }
  uint32_t infinity_code() const;  // of magnitude; for formats without one that of NaN
  bool nan(uint32_t code) const;
  double value(uint32_t code) const;  // not for NaN

  // Returns the code of a number that is not NaN. `cursor` is the code of a smaller magnitude, and moves up to the
  // result.
  uint32_t encode(float v, bool saturate, uint32_t* cursor) const;
  uint32_t encode(float v, bool saturate) const;
};

// Returns every midpoint, its two float32 neighbours, and their negatives.
std::vector<float> ties(const ExactFormat& format);

// Returns sample `prefix` of 2^24 float32 patterns. The upper 24 bits take every value; the low byte is their hash.
constexpr uint32_t sampled_pattern(uint32_t prefix) {
  uint32_t hash = prefix * 0x9E3779B1u;  // 2^32 / golden ratio
  hash ^= hash >> 15;
  return prefix << 8 | (hash * 0x85EBCA77u >> 24);  // a multiplier of xxHash32
}

}  // namespace nacre::test
