// Storage: a flash or a file, as the caller knows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre {

// Functions, supplied by the caller, over a flash, a file, or anything else that keeps bytes (train/checkpoint.h,
// model/model_slots.h). Each returns whether it succeeded; the protocol that calls it deals with the bytes that a
// failed call left behind.
struct Storage {
  void* context = nullptr;
  uint32_t program_bytes = 1;  // programmed at once, and once only between two erases: a power of two, at most 256
  uint32_t erase_bytes = 1;    // erased at once: a power of two, at least program_bytes
  uint64_t bytes = 0;          // of the storage; each slot has half, rounded down to erase_bytes
  // Bytes that a loss of power left half programmed or erased may read as anything, but reading should not fail (with
  // error correction: give any bytes). save is refused while one slot is unreadable and the other has no checkpoint.
  bool (*read)(void* context, uint64_t offset, std::span<std::byte> to) = nullptr;
  // Offset and size are multiples of program_bytes, the bytes are erased. Any number of granules.
  bool (*program)(void* context, uint64_t offset, std::span<const std::byte> from) = nullptr;
  // Erases the erase_bytes at `offset`, a multiple of erase_bytes: all of them are 0xFF afterwards.
  bool (*erase)(void* context, uint64_t offset) = nullptr;
  // Returns when all bytes programmed so far survive a loss of power. Null: they survive once program() has returned.
  bool (*flush)(void* context) = nullptr;
  // Returns where the last granule that was programmed since the erase of the slot at `offset` ends, counted from the
  // start of the slot. For a storage that offers more bytes than it holds, such as files. A header that describes
  // bytes beyond this end is not valid, so these bytes are never read. Null: a whole slot.
  uint64_t (*filled)(void* context, uint64_t offset) = nullptr;
};

}  // namespace nacre
