// ModelSlots keeps two slots for model files in a storage that may lose its power at any moment. A product in the
// field receives another model beside the one that runs. Whatever interrupts the update, a whole file is found
// afterwards.
//
//   ModelSlots slots(storage);                        // on NorFlash (train/nor_flash.h) the model is read in place
//   at start     NACRE_TRY(slots.find(&found)); open {flash.begin + found.offset, found.bytes}, check_weights();
//                if the model is refused, find(&older, &found) and open that one
//   an update    NACRE_TRY(slots.begin(found.slot, bytes)); NACRE_TRY(slots.write(part)) for each part as it arrives;
//                open and check the bytes at slots.offset(), bind and try the model; NACRE_TRY(slots.finish())
//
// Each half of the storage is a slot, in whole sectors: a header, and the file kHeaderBytes after its start. The
// header is programmed last, after the file has been read back. A file without a header does not count. An update
// that is begun and not finished only costs the content of the slot that was not in use. See schema/FORMAT.md, "Slots
// of models".
//
// It uses no heap, a buffer of 256 bytes in the object, and one on the stack. The storage must have one user at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/base/storage.h"

namespace nacre {

class ModelSlots {
 public:
  static constexpr uint32_t kHeaderBytes = 256, kNoSlot = 2;

  struct Found {
    uint32_t slot = kNoSlot;
    uint32_t sequence = 0;  // counts updates; wraps
    uint64_t offset = 0;    // offset of the file in the storage: a multiple of 64
    uint64_t bytes = 0;
  };

  // Copies `storage`. Its context must outlive the ModelSlots.
  explicit ModelSlots(const Storage& storage) : storage_(storage) {}

  const Storage& storage() const { return storage_; }

  // Finds the newest slot, other than `other`, whose file is as it was written. Returns kNoCheckpoint if there is
  // none, or kStorageFailed if a read failed.
  Status find(Found* found, const Found* other = nullptr) const;

  // Erases the slot that is not `keep` for a file of `bytes` bytes; if `keep` is kNoSlot, erases slot 0. Returns
  // kStorageSize if the file does not fit.
  Status begin(uint32_t keep, uint64_t bytes);
  uint64_t offset() const { return base(slot_) + kHeaderBytes; }  // offset of the file that is written
  // Writes the next bytes of the file, any number. Returns kRange if there are more than begin was told.
  Status write(std::span<const std::byte> part);
  // Finishes an update. If all bytes were written and read back correctly, find() finds this slot from now on.
  // Returns kLengthUnder if bytes are missing. Returns kReadBack if they differ; find() then does not find this
  // slot.
  Status finish();

 private:
  struct Header;
  enum class State : uint8_t { kIdle, kWriting };

  Status refuse(Code code, uint32_t slot, uint64_t needed = 0, uint64_t given = 0) const {
    return {code, Table::kFile, slot, needed, given};
  }
  uint64_t slot_bytes() const;
  uint64_t base(uint32_t slot) const { return slot * slot_bytes(); }
  Status check() const;
  bool header(uint32_t slot, Header* header, bool* failed) const;
  bool crc_at(uint64_t at, uint64_t bytes, uint32_t* crc) const;
  bool program_pending();
  bool flush() const { return storage_.flush == nullptr || storage_.flush(storage_.context); }

  Storage storage_;
  State state_ = State::kIdle;
  uint32_t slot_ = 0, sequence_ = 0, crc_ = 0, fill_ = 0;
  uint64_t bytes_ = 0, written_ = 0;
  std::byte pending_[kHeaderBytes] = {};  // bytes of the file that are not programmed yet
};

}  // namespace nacre
