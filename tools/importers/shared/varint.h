// Reads varints, the numbers of a protocol buffer in base 128 with the low digits first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre::tools {

// Reads the number at `at` into `value` and moves `at` past it. Returns false if the bytes end, or if the number has
// more than ten bytes.
//
inline bool read_varint(std::span<const uint8_t> bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at >= bytes.size()) return false;
    const uint8_t byte = bytes[at++];
    value |= uint64_t{byte & 0x7Fu} << (shift < 64 ? shift : 63);
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace nacre::tools
