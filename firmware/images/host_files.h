// Files of the host that an image reads and writes as it fine-tunes: data, test samples, and an emulated flash.
#pragma once

#include "engine/nacre.h"
#include "firmware/images/host.h"

namespace nacre::firmware {

constinit inline int g_data = -1, g_test = -1, g_flash = -1;  // open files

inline bool open_files(const char* data, const char* test, const char* flash) {
  g_data = semihosting::open(data, semihosting::Mode::kRead);
  g_test = semihosting::open(test, semihosting::Mode::kRead);
  g_flash = semihosting::open(flash, semihosting::Mode::kUpdate);
  return g_data >= 0 && g_test >= 0 && g_flash >= 0;
}

inline bool read_data(uint64_t offset, std::span<std::byte> bytes) { return read_at(g_data, offset, bytes); }
inline bool read_test(uint64_t offset, std::span<std::byte> bytes) { return read_at(g_test, offset, bytes); }

constexpr uint32_t kProgramBytes = 8, kEraseBytes = 2048;  // as the STM32L4's flash

inline bool flash_read(void*, uint64_t offset, std::span<std::byte> to) { return read_at(g_flash, offset, to); }
inline bool flash_program(void*, uint64_t offset, std::span<const std::byte> from) {
  return write_at(g_flash, offset, from);
}
inline bool flash_erase(void*, uint64_t offset) {
  std::byte erased[64];
  for (std::byte& b : erased) b = std::byte{0xFF};
  for (uint32_t at = 0; at < kEraseBytes; at += sizeof erased)
    if (!write_at(g_flash, offset + at, erased)) return false;
  return true;
}

inline Storage host_flash() {
  return {.context = nullptr,
          .program_bytes = kProgramBytes,
          .erase_bytes = kEraseBytes,
          .bytes = uint64_t(semihosting::length(g_flash)),
          .read = flash_read,
          .program = flash_program,
          .erase = flash_erase};
}

inline uint32_t number(const char* text) {
  uint32_t value = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9'; ++text) value = value * 10 + uint32_t(*text - '0');
  return value;
}
inline uint32_t at_least_one(const char* text) { return number(text) == 0 ? 1 : number(text); }

}  // namespace nacre::firmware
