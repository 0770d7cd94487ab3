// Storage describes a flash or a file to the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre {

// The caller supplies these functions over a flash, a file, or anything else that keeps bytes (train/checkpoint.h,
// model/model_slots.h). All but filled return whether they succeeded. The protocol that calls them handles the bytes
// that a failed call left.
struct Storage {
  void* context = nullptr;
  uint32_t program_bytes = 1;  // the unit of programming, once between two erases: a power of two, at most 256
  uint32_t erase_bytes = 1;    // the unit of erasing: a power of two, at least program_bytes
  uint64_t bytes = 0;          // size of the storage; each slot has half, rounded down to erase_bytes
  // Reads bytes. A loss of power may leave bytes half programmed or erased. They may read as anything, but reading
  // should not fail; a storage with error correction should give any bytes. save is refused while one slot is
  // unreadable and the other has no checkpoint.
  bool (*read)(void* context, uint64_t offset, std::span<std::byte> to) = nullptr;
  // Programs any number of granules. Offset and size are multiples of program_bytes; the bytes are erased.
  bool (*program)(void* context, uint64_t offset, std::span<const std::byte> from) = nullptr;
  // Erases the erase_bytes at `offset`, a multiple of erase_bytes. All of them are 0xFF afterwards.
  bool (*erase)(void* context, uint64_t offset) = nullptr;
  // Returns when all bytes programmed so far survive a loss of power. If null, they survive as soon as program()
  // returns.
  bool (*flush)(void* context) = nullptr;
  // Returns the end of the last granule programmed since the erase of the slot at `offset`, counted from the start of
  // the slot. It is for a storage that offers more bytes than it holds, such as files. A header that describes bytes
  // beyond this end is not valid, so these bytes are never read. Null means a whole slot.
  uint64_t (*filled)(void* context, uint64_t offset) = nullptr;
};

}  // namespace nacre
