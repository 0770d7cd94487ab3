// Keras' grouped int4 gives every group of `block` weights a step and a zero point. NUMERICS.md section 7.
//
//   x ~ (q - zero) scale,   -8 <= q, zero <= 7
//
// Codes and zero points of another width, 2 <= bits <= 8, are in [-2^(bits - 1), 2^(bits - 1) - 1].
//
// It computes in float32, as the numpy path of Keras (`to_numpy`), which quantizes kernels.
//
// Example:
//   const std::span<const float> weights = pixels.first(32);
//   const Group group = group_of(weights, 32, GroupRange::kWithZero);
//   const int8_t code = group_code(weights[0], group);           // -8 to 7
//   std::printf("%g\n", double(group_value(code, group)));       // weights[0], rounded
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/absmax.h"
#include "engine/numeric/policy.h"

namespace nacre::inline NACRE_ISA {

// The step and the zero point of a group.
struct Group {
  float scale;
  int8_t zero;  // a code
};

// Returns the step and zero point of a group. The range of a group's codes is
//
//   kWithZero   [min(min x, 0), max(max x, 0)]: 0 has a code
//   kKeras      [min x, max x]: a group of one sign saturates (Keras 3.15)
//
// x holds the values of a group. If `block` > x.size(), zeros follow, because Keras pads its last group.
// `bits`: width of a code, 2 to 8. scale = (high - low + 1e-7) / (2^bits - 1).
constexpr Group group_of(std::span<const float> x, size_t block, GroupRange range, int bits = 4) {
  float low = 0, high = 0;
  const bool zero_counts = range == GroupRange::kWithZero || block > x.size() || x.empty();
  if (!zero_counts) low = high = x[0];
  for (const float v : x) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  const int half = 1 << (bits - 1);
  const float scale = (high - low + float(kAbsMaxEpsilon)) / float(2 * half - 1);
  const int64_t zero = int64_t{round_half_even(-low / scale)} - half;  // for a constant group `zero` may exceed int32
  return {scale, int8_t(zero < -half ? -half : zero >= half ? half - 1 : zero)};
}

// Returns clip(round_half_even(x / scale) + zero, low, high); low = -8, high = 7 for 4 bits. NaN gives `zero`.
constexpr int8_t group_code(float x, Group group, int bits = 4) {
  const int half = 1 << (bits - 1);
  const int64_t code = int64_t{round_half_even(x / group.scale)} + group.zero;
  return int8_t(code < -half ? -half : code >= half ? half - 1 : code);
}

// Returns the number that a code means: (q - zero) scale.
constexpr float group_value(int8_t q, Group group) { return float(q - group.zero) * group.scale; }

}  // namespace nacre::inline NACRE_ISA
