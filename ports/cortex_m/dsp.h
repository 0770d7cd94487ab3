// Instructions that the kernels use, named by what they do: those of ARM's DSP extension (Cortex-M4, -M7, -M55, most
// -M33), and LDRD, LDM and SSAT. Without the extension they are plain C++, so that any little-endian machine runs and
// tests these kernels.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __ARM_FEATURE_DSP
#include <arm_acle.h>
#endif

namespace nacre::cortex_m {

static_assert(std::endian::native == std::endian::little);

using Pair = uint32_t;  // two int16, the first in the low half

constexpr int low_of(Pair pair) { return int16_t(uint16_t(pair)); }
constexpr int high_of(Pair pair) { return int16_t(uint16_t(pair >> 16)); }
constexpr Pair pair_of(int low, int high) { return Pair(uint16_t(low)) | Pair(uint16_t(high)) << 16; }

// Four int16 in two words, {0, 2} and {1, 3}, as SXTB16 makes them from a word of codes. Aligned to 8 bytes.
struct alignas(8) Quad {
  Pair even, odd;
};

// Loads four codes from any address; a single load may be unaligned.
inline uint32_t load_four(const int8_t* at) {
  uint32_t four;
  std::memcpy(&four, at, sizeof four);
  return four;
}
// Loads the first 1 to 3 codes, then fills up with `rest`.
inline uint32_t load_some(const int8_t* at, int count, int8_t rest = 0) {
  uint32_t four = uint32_t(uint8_t(rest)) * 0x01010100 | uint8_t(at[0]);
  if (count > 1) four = (four & 0xFFFF00FF) | uint32_t(uint8_t(at[1])) << 8;
  if (count > 2) four = (four & 0xFF00FFFF) | uint32_t(uint8_t(at[2])) << 16;
  return four;
}

#ifdef __ARM_FEATURE_DSP

// Returns *at and moves `at` to the next quad.
inline Quad next_quad(const Quad*& at) {
  Quad quad;
  asm("ldrd %0, %1, [%2], #8" : "=&r"(quad.even), "=&r"(quad.odd), "+r"(at) : "m"(*at));
  return quad;
}

// Loads two quads by one instruction, which needs its registers in order. clang, which reserves r7, loads two times.
#ifdef __clang__
inline void next_quads(const Quad*& at, Quad& first, Quad& second) { first = next_quad(at), second = next_quad(at); }
#else
[[gnu::always_inline]] inline void next_quads(const Quad*& at, Quad& first, Quad& second) {
  register Pair a asm("r4");
  register Pair b asm("r5");
  register Pair c asm("r6");
  register Pair d asm("r7");
  asm("ldmia %4!, {%0, %1, %2, %3}" : "=r"(a), "=r"(b), "=r"(c), "=r"(d), "+r"(at) : "m"(at[0]), "m"(at[1]));
  first = {a, b}, second = {c, d};
}
#endif

// Adds codes 0 and 2, or codes 1 and 3, of a word of four to a pair.
inline Pair add_even(Pair pair, uint32_t four) { return Pair(__sxtab16(int32_t(pair), int32_t(four))); }
inline Pair add_odd(Pair pair, uint32_t four) {  // from the intrinsic g++ 12 would make two instructions
  Pair sum;
  asm("sxtab16 %0, %1, %2, ror #8" : "=r"(sum) : "r"(pair), "r"(four));
  return sum;
}
inline Pair even_codes(uint32_t four) { return Pair(__sxtb16(int32_t(four))); }
inline Pair odd_codes(uint32_t four) {
  Pair codes;
  asm("sxtb16 %0, %1, ror #8" : "=r"(codes) : "r"(four));
  return codes;
}

// Return sum + a_low b_low + a_high b_high, or sum plus one of these products; the sums wrap.
inline int32_t add_products(int32_t sum, Pair a, Pair b) { return __smlad(int32_t(a), int32_t(b), sum); }
inline int32_t add_low_product(int32_t sum, Pair a, Pair b) { return __smlabb(int32_t(a), int32_t(b), sum); }
inline int32_t add_high_product(int32_t sum, Pair a, Pair b) { return __smlatt(int32_t(a), int32_t(b), sum); }

// Returns 2 v, saturated to int32.
inline int32_t doubled(int32_t v) { return __qadd(v, v); }
// Returns round(a b / 2^32), ties towards +infinity.
inline int32_t high_product(int32_t a, int32_t b) {
  int32_t product;
  asm("smmulr %0, %1, %2" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
inline int32_t saturated_code(int32_t v) { return __ssat(v, 8); }

#else

inline Quad next_quad(const Quad*& at) { return *at++; }
inline void next_quads(const Quad*& at, Quad& first, Quad& second) { first = *at++, second = *at++; }

inline int code_of(uint32_t four, int i) { return int8_t(uint8_t(four >> 8 * i)); }

inline Pair add_even(Pair pair, uint32_t four) {
  return pair_of(low_of(pair) + code_of(four, 0), high_of(pair) + code_of(four, 2));
}
inline Pair add_odd(Pair pair, uint32_t four) { return add_even(pair, std::rotr(four, 8)); }
inline Pair even_codes(uint32_t four) { return add_even(0, four); }
inline Pair odd_codes(uint32_t four) { return add_odd(0, four); }

inline int32_t add_low_product(int32_t sum, Pair a, Pair b) {
  return int32_t(uint32_t(sum) + uint32_t(low_of(a) * low_of(b)));
}
inline int32_t add_high_product(int32_t sum, Pair a, Pair b) {
  return int32_t(uint32_t(sum) + uint32_t(high_of(a) * high_of(b)));
}
inline int32_t add_products(int32_t sum, Pair a, Pair b) { return add_high_product(add_low_product(sum, a, b), a, b); }

inline int32_t doubled(int32_t v) { return v > INT32_MAX / 2 ? INT32_MAX : v < INT32_MIN / 2 ? INT32_MIN : 2 * v; }
inline int32_t high_product(int32_t a, int32_t b) { return int32_t((int64_t{a} * b + (int64_t{1} << 31)) >> 32); }
inline int32_t saturated_code(int32_t v) { return v < -128 ? -128 : v > 127 ? 127 : v; }

#endif

// Returns four codes as a quad, with `add` added to each pair.
inline Quad widened(uint32_t four, Pair add) { return {add_even(add, four), add_odd(add, four)}; }

}  // namespace nacre::cortex_m
