// Limits and small questions that the parts of the verifier share. Private to engine/model/verify*.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nacre {

// Enough for any network that has been seen, small enough that no sum of the verifier overflows.
inline constexpr int32_t kMaxDim = 1 << 28;
inline constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 48;  // of a region or bank: the sum of all is far from 2^64

template <class V>
uint32_t size_of(const V* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// first + count <= limit, without overflow.
constexpr bool in_range(uint64_t first, uint64_t count, uint64_t limit) {
  return count <= limit && first <= limit - count;
}

inline bool all_zero(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i)
    if (p[i] != 0) return false;
  return true;
}

}  // namespace nacre
