// NorFlash: sectors of a flash that the processor reads by address, as the Storage of checkpoints. Functions of the
// vendor's library program and erase them:
//
// Example:
//   static const NorFlash flash = {.begin = reinterpret_cast<const std::byte*>(uintptr_t{0x08060000}),
//                                  .bytes = 64 * 1024, .program_bytes = 8, .erase_bytes = 4096,
//                                  .program = [](uintptr_t at, const void* granule) { return write_8(at, granule); },
//                                  .erase = [](uintptr_t at) { return erase_sector(at); }};
//   Checkpoint checkpoint(flash.storage());   // `flash` outlives it
//   NACRE_TRY(checkpoint.save(model, trainer.state()));
//
// NorFlash does not handle caches. If the processor reads flash through a cache, program and erase must discard the
// cache lines of the bytes that they change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/train/checkpoint.h"

namespace nacre {

// Describes sectors that follow each other. All fields must be set. `Succeeded` is what the functions of the flash
// return: bool, or C's int (train/c_api_nor_flash.cc).
template <class Succeeded>
struct NorFlashOf {
  const std::byte* begin;  // start of a sector, as the processor reads it
  uint32_t bytes;          // whole sectors, at least two
  // Bytes that are programmed at once, with their error correction: a power of two, at most 256. Bytes of a sector,
  // which is erased at once.
  uint32_t program_bytes, erase_bytes;
  // Return whether the flash succeeded, and only when it has finished. `address` is begin plus an offset: of a granule,
  // or of a sector. `granule` has program_bytes, at a multiple of 8, in RAM.
  Succeeded (*program)(uintptr_t address, const void* granule);
  Succeeded (*erase)(uintptr_t address);

  // Returns a Storage that calls these functions; the NorFlash must outlive it. An erase also checks that the sector is
  // blank, and fails if it is not.
  Storage storage() const {
    return {.context = const_cast<NorFlashOf*>(this),
            .program_bytes = program_bytes,
            .erase_bytes = erase_bytes,
            .bytes = bytes,
            .read = [](void* f, uint64_t at, std::span<std::byte> to) { return of(f).read(at, to); },
            .program = [](void* f, uint64_t at, std::span<const std::byte> from) { return of(f).write(at, from); },
            .erase = [](void* f, uint64_t at) { return of(f).clear(at); }};
  }

 private:
  static const NorFlashOf& of(void* context) { return *static_cast<const NorFlashOf*>(context); }

  bool holds(uint64_t at, size_t size) const { return at <= bytes && size <= bytes - at; }
  uintptr_t address(uint64_t at) const { return reinterpret_cast<uintptr_t>(begin + at); }

  bool read(uint64_t at, std::span<std::byte> to) const {
    if (!holds(at, to.size())) return false;
    if (!to.empty()) std::memcpy(to.data(), begin + at, to.size());
    return true;
  }

  // Programs one granule at a time, from an aligned copy: a parameter of float16 may begin anywhere.
  bool write(uint64_t at, std::span<const std::byte> from) const {
    alignas(8) std::byte granule[256];
    if (!holds(at, from.size()) || program_bytes > sizeof granule || from.size() % program_bytes != 0) return false;
    for (; !from.empty(); from = from.subspan(program_bytes), at += program_bytes) {
      std::memcpy(granule, from.data(), program_bytes);
      if (!program(address(at), granule)) return false;
    }
    return true;
  }

  // Erases a sector and checks that it is blank: a sector that is worn out or protected does not become blank.
  bool clear(uint64_t at) const {
    if (!holds(at, erase_bytes) || !erase(address(at))) return false;
    for (uint32_t i = 0; i < erase_bytes; ++i)
      if (begin[at + i] != std::byte{0xFF}) return false;
    return true;
  }
};

using NorFlash = NorFlashOf<bool>;

}  // namespace nacre
