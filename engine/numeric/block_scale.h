// Makes scales that blocks share: MXFP8 (32 elements, E8M0) and NVFP4 (16 elements, E4M3, and one float32 per
// tensor). NUMERICS.md section 11. Functions take the amax of a block: a magnitude or NaN. Q is the format of an
// element: Float8E4M3, Float8E5M2 or Float4E2M1.
//
// Example:
//   const std::span<const float> x(pixels.data(), kMxBlock);                    // one block of 32 numbers
//   const Float8E8M0 shared = mx_scale<Float8E4M3>(amax_value(amax_bits(x)));   // stored once for the block
//   Float8E4M3 q[kMxBlock];
//   for (int i = 0; i < kMxBlock; ++i) q[i] = mx_code<Float8E4M3>(x[size_t(i)], shared);
//   const float first = mx_value(q[0], shared);                                 // x[0], rounded
//   std::printf("%g\n", double(first));
//
// Example:
//   const float whole = nvfp4_tensor_scale(amax_value(amax_bits(pixels)));      // S, once for the tensor
//   const std::span<const float> x = pixels.first(kNvfp4Block);
//   const Float8E4M3 shared = nvfp4_block_scale(amax_value(amax_bits(x)), whole);
//   const Float4E2M1 code = nvfp4_code(x[0], nvfp4_multiplier(shared, whole));
//   std::printf("%g\n", double(nvfp4_value(code, shared, whole)));
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

inline constexpr int kMxBlock = 32, kNvfp4Block = 16;  // elements that share a scale

// Returns the largest value of the format, to which a block's amax is scaled.
template <class Q>
constexpr float largest_of() {
  return float(Q::of_bits(decltype(Q::bits)(Q::kMax)));
}

// NUMERICS.md eq. 34, TransformerEngine. Returns the least power of two not below amax / max, so that no element
// saturates. An amax of 0 gives code 0, infinity the largest code.
template <class Q>
constexpr Float8E8M0 mx_scale(float amax) {
  constexpr float kReciprocal = 1 / largest_of<Q>();
  return Float8E8M0::rounded_up(amax * kReciprocal);
}

// NUMERICS.md eq. 35, OCP Microscaling Formats 1.0, 6.3. Returns 2^(floor(log2 amax) - emax), clamped to the range of
// E8M0. Elements between max and 2^(emax + 1) saturate. The standard does not define it for amax 0 (here code 0) and
// for an amax that is not finite (here NaN).
template <class Q>
constexpr Float8E8M0 mx_scale_floor(float amax) {
  if (amax == 0) return Float8E8M0::of_bits(0);
  if (!is_finite(amax) || amax < 0) return Float8E8M0::of_bits(Float8E8M0::kNan);
  const int code = exponent_of(amax) - exponent_of(largest_of<Q>()) + 127;
  return Float8E8M0::of_bits(uint8_t(code < 0 ? 0 : code));  // the code is at most 254
}

// Returns q = saturated(x 2^(127 - code)). A NaN scale gives NaN.
template <class Q>
constexpr Q mx_code(float x, Float8E8M0 scale) {
  return Q::saturated(scale.bits == Float8E8M0::kNan ? float(scale) : x * power_of_two(127 - scale.bits));
}
// Returns the number that a code means: q 2^(code of scale - 127).
template <class Q>
constexpr float mx_value(Q q, Float8E8M0 scale) {
  return float(q) * float(scale);
}

// NVFP4, NUMERICS.md eq. 36: x ~ q s_b / S, with q E2M1, s_b E4M3, S float32.
//
// Returns S = 448 * 6 / amax of the tensor, at most the largest float32; 1 if amax is 0 or infinite. NaN counts as
// tiny, as in TransformerEngine, whose minimum ignores NaN.
constexpr float nvfp4_tensor_scale(float amax) {
  const float scale = largest_of<Float8E4M3>() * largest_of<Float4E2M1>() / amax;
  const float capped = scale < kLargest ? scale : kLargest;
  return amax == 0 || capped == 0 ? 1 : capped;
}

// Returns s_b = saturated(block_amax (S / 6)), the scale that a block of 16 elements stores.
constexpr Float8E4M3 nvfp4_block_scale(float block_amax, float tensor_scale) {
  constexpr float kReciprocal = 1 / largest_of<Float4E2M1>();
  return Float8E4M3::saturated(block_amax * (tensor_scale * kReciprocal));
}

// Returns the factor by which x is multiplied: 1 / (s_b (1 / S)), at most the largest float32.
constexpr float nvfp4_multiplier(Float8E4M3 block_scale, float tensor_scale) {
  const float multiplier = 1 / (float(block_scale) * (1 / tensor_scale));
  return multiplier < kLargest ? multiplier : kLargest;
}

// Returns q, to nearest, ties to even. Numbers beyond 6 become 6: E2M1 has no infinity.
constexpr Float4E2M1 nvfp4_code(float x, float multiplier) { return Float4E2M1(x * multiplier); }

// Returns the number that a code means: q s_b / S.
constexpr float nvfp4_value(Float4E2M1 q, Float8E4M3 block_scale, float tensor_scale) {
  return float(q) * float(block_scale) * (1 / tensor_scale);
}

}  // namespace nacre::inline NACRE_ISA
