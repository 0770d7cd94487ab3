// Makes exact powers of two in float32, without libm.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

// Returns 2^exponent; infinity above 2^127, 0 below 2^-149.
constexpr float power_of_two(int exponent) {
  if (exponent > 127) return std::bit_cast<float>(0x7F800000u);
  if (exponent >= -126) return std::bit_cast<float>(uint32_t(exponent + 127) << 23);
  return exponent >= -149 ? std::bit_cast<float>(1u << (exponent + 149)) : 0.0f;
}

// Returns floor(log2 v) of a positive, finite v.
constexpr int exponent_of(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return bits >= 0x00800000u ? int(bits >> 23) - 127 : 31 - std::countl_zero(bits) - 149;
}

// Returns v with its mantissa cleared: the largest power of two not above a normal v; 0 for a subnormal v.
constexpr float cut_to_power_of_two(float v) { return std::bit_cast<float>(std::bit_cast<uint32_t>(v) & 0xFF800000u); }

}  // namespace nacre::inline NACRE_ISA
