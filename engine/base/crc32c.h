// Computes CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, initial value and final XOR 0xFFFFFFFF (RFC 3720,
// appendix B.4). crc32c("123456789") = 0xE3069283. It uses a table of 16 entries with two look-ups a byte: 64 bytes
// of flash instead of 1024.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre {

// Returns the CRC of `bytes`, which may be empty. `crc` is the result of an earlier call to continue.
constexpr uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0) {
  constexpr uint32_t kNibble[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
                                    0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                    0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc ^= uint32_t(byte);
    crc = (crc >> 4) ^ kNibble[crc & 15];
    crc = (crc >> 4) ^ kNibble[crc & 15];
  }
  return ~crc;
}

}  // namespace nacre
