// A slot of a checkpoint: its header and mark, the facts found while it is read, and the writer that programs it.
// Private to checkpoint.cc. schema/FORMAT.md, "Checkpoints".
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/base/bytes.h"
#include "engine/base/check_storage.h"
#include "engine/base/crc32c.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_magic.h"
#include "engine/train/state_table.h"

namespace nacre {

inline constexpr size_t kBufferBytes = kMostProgramBytes;
inline constexpr char kMarkMagic[4] = {'N', 'C', 'K', 'C'};
inline constexpr uint16_t kCheckpointVersion = 1;
inline constexpr uint32_t kPendingFlag = 1;

struct Mark {  // programmed by confirm
  char magic[4];
  uint32_t generation, header_crc;  // generation and crc of the checkpoint that is confirmed
  uint32_t crc;                     // CRC-32C of the 12 bytes before this field
};
static_assert(sizeof(Mark) == 16);

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

struct Checkpoint::Header {
  char magic[4];
  uint16_t version, byte_order;
  uint32_t generation, flags;
  uint64_t layout;  // state_layout of the model
  uint64_t state_bytes;
  uint64_t model;  // first 8 bytes of the model file's hash
  uint32_t records, note_bytes;
  uint32_t program_bytes;
  uint32_t payload_crc;  // CRC-32C of generation, table, state and note
  uint32_t reserved;
  uint32_t crc;  // CRC-32C of the 60 bytes before this field

  // Offsets in the slot: header, mark, table, state and note start at whole granules.
  uint64_t mark() const { return round_up(sizeof(Header), program_bytes); }
  uint64_t table() const { return mark() + round_up(sizeof(Mark), program_bytes); }
  uint64_t state() const { return table() + round_up(records * uint64_t{sizeof(StateRow)}, program_bytes); }
  uint64_t note() const { return state() + round_up(state_bytes, program_bytes); }
  uint64_t end() const { return note() + round_up(note_bytes, program_bytes); }
  uint32_t own_crc() const { return crc32c(bytes_of(*this).first(sizeof(Header) - 4)); }
};

// One of the two slots, as it is read now.
struct Checkpoint::Slot {
  uint32_t index = 0;
  uint64_t base = 0, bytes = 0;
  Header header = Header();
  bool failed = false;  // could not be read
  bool blank = false;   // as if never programmed: only selects which refusal is reported
  bool valid = false;   // the header is valid; after find(), the payload too
  bool counts = false;  // the checkpoint is not pending, or was confirmed
};

struct Checkpoint::Slots {
  Slot slot[2];
  int newest = -1;
  int keep = -1;  // the slot that a save must not write over
};

struct Checkpoint::Found {
  uint32_t learned = 0, of_update = 0, parameters = 0;
};

// Programs bytes from the start of a granule on, and computes their CRC.
class Checkpoint::Writer {
 public:
  Writer(const Storage& storage, uint64_t at, uint32_t crc, std::byte* buffer)
      : storage_(storage), at_(at), buffer_(buffer), crc_(crc) {}

  bool append(std::span<const std::byte> bytes) {
    crc_ = crc32c(bytes, crc_);
    while (!bytes.empty()) {
      size_t count = bytes.size() & ~(kBufferBytes - 1);
      if (fill_ == 0 && count != 0) {  // straight from the caller's memory
        if (!program(bytes.first(count))) return false;
      } else {
        count = std::min(bytes.size(), kBufferBytes - fill_);
        std::memcpy(buffer_ + fill_, bytes.data(), count);
        fill_ += count;
        if (fill_ == kBufferBytes && !pad()) return false;
      }
      bytes = bytes.subspan(count);
    }
    return true;
  }

  // Fills the rest of the last granule with ones, the value of erased bytes, and programs the granule.
  bool pad() {
    if (fill_ == 0) return true;
    const auto end = size_t(round_up(fill_, storage_.program_bytes));
    std::memset(buffer_ + fill_, 0xFF, end - fill_);
    fill_ = 0;
    return program({buffer_, end});
  }

  uint32_t crc() const { return crc_; }

 private:
  bool program(std::span<const std::byte> bytes) {
    const uint64_t at = at_;
    at_ += bytes.size();
    return storage_.program(storage_.context, at, bytes);
  }

  const Storage& storage_;
  uint64_t at_;
  std::byte* buffer_;  // kBufferBytes
  uint32_t crc_;
  size_t fill_ = 0;
};

}  // namespace nacre
