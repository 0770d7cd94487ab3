// The parts of the verifier share these limits and small functions. Private to engine/model/verify*.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/tensor.h"

namespace nacre {

// Bounds a dimension: enough for any network that has been seen, and so small that no sum of the verifier overflows.
inline constexpr int32_t kMaxDim = 1 << 28;
// Bounds the bytes of a region, bank, segment or tensor, and its offset. The sum of all is far below 2^64; on a 32-bit
// machine the sum of two is below 2^32.
inline constexpr uint64_t kMaxFileBytes = sizeof(size_t) == 4 ? uint64_t{INT32_MAX} : uint64_t{1} << 48;

// Returns whether a sum of two such numbers fits in 32 bits. A uint64_t always passes: the checks that follow bound it.
constexpr bool computable(uint64_t) { return true; }
constexpr bool computable(const LowWord& bytes) { return bytes.high == 0 && bytes.low <= INT32_MAX; }

template <class V>
uint32_t size_of(const V* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Returns whether first + count <= limit, without overflow.
constexpr bool in_range(size_t first, size_t count, size_t limit) { return count <= limit && first <= limit - count; }

inline bool all_zero(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i)
    if (p[i] != 0) return false;
  return true;
}

}  // namespace nacre
