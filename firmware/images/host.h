// Exchanges numbers by name, refusals and whole files between an image and its host. Everything is in this header, so
// an image pays only for the functions that it uses, inlined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "firmware/board/print.h"
#include "firmware/board/semihosting.h"

namespace nacre::firmware {

inline bool read_all(int file, std::span<std::byte> bytes) {
  return semihosting::read(file, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}) == bytes.size();
}

inline bool write_all(int file, std::span<const std::byte> bytes) {
  return semihosting::write(file, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}) == bytes.size();
}

inline void report_word(const char* name, uint32_t value) {
  print(name);
  print(" ");
  print_unsigned(value);
  print("\n");
}
// Prints "name value", with the lower 32 bits of the value.
inline void report(const char* name, auto value) { report_word(name, uint32_t(value)); }

// Both print the refusal and return the exit status.
inline int refuse(const Status& status) {
  print("refused: ");
  print(sentence(status.code));
  report("\n  code", uint32_t(status.code));
  report("  table", uint32_t(status.table));
  report("  index", status.index);
  report("  needed", status.needed);
  report("  given", status.given);
  return 1;
}

inline int complain(const char* what, const char* path) {
  print(what);
  print(path);
  print("\n");
  return 2;
}

// Reads a file that must have exactly so many bytes.
inline bool read_file(const char* path, std::span<std::byte> bytes) {
  const int file = semihosting::open(path, semihosting::Mode::kRead);
  if (file < 0) return false;
  const bool fits = semihosting::length(file) == int(bytes.size());
  const bool whole = read_all(file, bytes);
  return semihosting::close(file) && fits && whole;
}

inline bool write_file(const char* path, std::span<const std::byte> bytes) {
  const int file = semihosting::open(path, semihosting::Mode::kWrite);
  if (file < 0) return false;
  const bool whole = write_all(file, bytes);
  return semihosting::close(file) && whole;
}

// Reads `bytes` of an open file from byte `offset` on. Returns false if the file ends before.
inline bool read_at(int file, uint64_t offset, std::span<std::byte> bytes) {
  return semihosting::seek(file, uint32_t(offset)) && read_all(file, bytes);
}

inline bool write_at(int file, uint64_t offset, std::span<const std::byte> bytes) {
  return semihosting::seek(file, uint32_t(offset)) && write_all(file, bytes);
}

}  // namespace nacre::firmware
