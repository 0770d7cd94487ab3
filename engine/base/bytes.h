// This header has functions on blocks of memory that a caller gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre {

// Returns the size of a block in bytes. A block without an address has size 0, whatever size it states.
inline size_t bytes_in(std::span<const std::byte> block) { return block.data() == nullptr ? 0 : block.size(); }

// Returns whether two blocks have a byte in common. It is not inlined, to save code size.
[[gnu::noinline]] inline bool share_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto at = reinterpret_cast<uintptr_t>(a.data()), other = reinterpret_cast<uintptr_t>(b.data());
  if (a.empty() || b.empty()) return false;
  return at < other ? other - at < a.size() : at - other < b.size();
}

}  // namespace nacre
