// Storage describes a flash or a file to the engine. train/nor_flash.h and ports/files/checkpoint_files.h make one.
//
// Example:
//   alignas(8) static std::byte flash[2 * 4096];   // RAM in place of a flash, for a test
//   const Storage ram = {
//       .program_bytes = 8, .erase_bytes = 4096, .bytes = sizeof flash,
//       .read = [](void*, uint64_t at, std::span<std::byte> to) {
//         return std::memcpy(to.data(), flash + at, to.size()) != nullptr; },
//       .program = [](void*, uint64_t at, std::span<const std::byte> from) {
//         return std::memcpy(flash + at, from.data(), from.size()) != nullptr; },
//       .erase = [](void*, uint64_t at) { return std::memset(flash + at, 0xFF, 4096) != nullptr; }};
//   Checkpoint checkpoint(ram);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre {

// The caller supplies these functions over a flash, a file, or anything else that keeps bytes (train/checkpoint.h,
// model/model_slots.h). All but filled return whether they succeeded. The protocol that calls them handles the bytes
// that a failed call left. Offsets count from the start of the storage, in bytes. Spans that a function gets are only
// valid during the call, and may begin at any address. The functions run on the thread that calls the protocol.
struct Storage {
  void* context = nullptr;     // first argument of each function, for the caller
  uint32_t program_bytes = 1;  // the unit of programming, once between two erases: a power of two, at most 256
  uint32_t erase_bytes = 1;    // the unit of erasing: a power of two, at least program_bytes
  uint64_t bytes = 0;          // size of the storage; each slot has half, rounded down to erase_bytes (ModelSlots: and
                               // to 64)
  // Reads to.size() bytes. A loss of power may leave bytes half programmed or erased. They may read as anything, but
  // reading should not fail; a storage with error correction should give any bytes. save is refused while one slot is
  // unreadable and the other has no checkpoint.
  bool (*read)(void* context, uint64_t offset, std::span<std::byte> to) = nullptr;
  // Programs any number of granules. Offset and size are multiples of program_bytes; the bytes are erased. `from` may
  // lie in the caller's state block, so it need not be aligned.
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
