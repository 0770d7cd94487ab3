// Computes the largest magnitude of a tensor as an integer. The bits of |x| are ordered as the magnitudes are, with
// infinity above every number and NaN above infinity. So one maximum tells the amax and whether all is finite, and
// the maxima of parts can be combined.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

inline constexpr uint32_t kInfinityBits = 0x7F800000u;

// Returns the bits of |v|.
constexpr uint32_t magnitude_bits(float v) { return std::bit_cast<uint32_t>(v) & 0x7FFFFFFFu; }

// Returns the larger of `amax` and max_i |x_i|, as bits. T is float or converts to it exactly.
template <class T>
constexpr uint32_t amax_bits(std::span<const T> x, uint32_t amax = 0) {
  for (const T& v : x) {
    const uint32_t bits = magnitude_bits(float(v));
    amax = bits > amax ? bits : amax;
  }
  return amax;
}

constexpr float amax_value(uint32_t bits) { return std::bit_cast<float>(bits); }  // NaN if any x was NaN

constexpr bool is_finite(float v) { return magnitude_bits(v) < kInfinityBits; }
constexpr bool is_infinite(float v) { return magnitude_bits(v) == kInfinityBits; }
constexpr bool is_nan(float v) { return magnitude_bits(v) > kInfinityBits; }

}  // namespace nacre::inline NACRE_ISA
