// Packs int4: two codes of -8 .. 7 per byte, the lower index in the low bits. If their number is odd, the last half
// byte is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

constexpr int8_t int4_low(Int4Pair pair) { return int8_t(((pair.bits & 0xF) ^ 8) - 8); }
constexpr int8_t int4_high(Int4Pair pair) { return int8_t((pair.bits >> 4 ^ 8) - 8); }
constexpr int8_t int4_at(const Int4Pair* pairs, size_t i) {
  return (i & 1) != 0 ? int4_high(pairs[i >> 1]) : int4_low(pairs[i >> 1]);
}

// Only the low four bits of a code count.
constexpr Int4Pair int4_pair(int8_t low, int8_t high) { return {uint8_t((low & 0xF) | (high & 0xF) << 4)}; }

constexpr size_t int4_bytes(size_t codes) { return (codes + 1) / 2; }

// `packed` must have int4_bytes(codes.size()) bytes.
constexpr void pack_int4(std::span<const int8_t> codes, std::span<Int4Pair> packed) {
  for (size_t i = 0; i < codes.size(); i += 2)
    packed[i / 2] = int4_pair(codes[i], i + 1 < codes.size() ? codes[i + 1] : int8_t{0});
}
constexpr void unpack_int4(std::span<const Int4Pair> packed, std::span<int8_t> codes) {
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = int4_at(packed.data(), i);
}

}  // namespace nacre::inline NACRE_ISA
