// Packs int4: two codes of -8 .. 7 per byte, the lower index in the low bits. If their number is odd, the last half
// byte is 0.
//
// Example:
//   const int8_t codes[] = {-8, 7, 3};
//   Int4Pair packed[int4_bytes(3)];                     // 2 bytes
//   pack_int4(codes, packed);
//   if (int4_at(packed, 1) != 7) stop();
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

// Return a code of a pair, or code i of an array of pairs, -8 to 7.
constexpr int8_t int4_low(Int4Pair pair) { return int8_t(((pair.bits & 0xF) ^ 8) - 8); }
constexpr int8_t int4_high(Int4Pair pair) { return int8_t((pair.bits >> 4 ^ 8) - 8); }
constexpr int8_t int4_at(const Int4Pair* pairs, size_t i) {
  return (i & 1) != 0 ? int4_high(pairs[i >> 1]) : int4_low(pairs[i >> 1]);
}

// Makes a pair. Only the low four bits of a code count.
constexpr Int4Pair int4_pair(int8_t low, int8_t high) { return {uint8_t((low & 0xF) | (high & 0xF) << 4)}; }

// Returns the bytes that so many codes take.
constexpr size_t int4_bytes(size_t codes) { return (codes + 1) / 2; }

// Pack all codes, and unpack codes.size() of them. `packed` must have int4_bytes(codes.size()) bytes.
constexpr void pack_int4(std::span<const int8_t> codes, std::span<Int4Pair> packed) {
  for (size_t i = 0; i < codes.size(); i += 2)
    packed[i / 2] = int4_pair(codes[i], i + 1 < codes.size() ? codes[i + 1] : int8_t{0});
}
constexpr void unpack_int4(std::span<const Int4Pair> packed, std::span<int8_t> codes) {
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = int4_at(packed.data(), i);
}

}  // namespace nacre::inline NACRE_ISA
