// ModelSlots keeps two slots for model files in a storage that may lose its power at any moment. A product in the
// field receives another model beside the one that runs. Whatever interrupts the update, a whole file is found
// afterwards.
//
// Example:
//   ModelSlots slots(flash.storage());                       // a NorFlash (train/nor_flash.h), read in place
//   const auto open = [&](uint64_t at, uint64_t size) { return model.open({flash.begin + at, size_t(size)}); };
//   ModelSlots::Found found, older;                          // at start
//   NACRE_TRY(slots.find(&found));
//   if (!open(found.offset, found.bytes).ok()) {
//     NACRE_TRY(slots.find(&older, &found));
//     NACRE_TRY(open(older.offset, older.bytes));
//   }
//
// Example:
//   NACRE_TRY(slots.begin(found.slot, file_bytes));          // an update
//   while (receive(&part)) NACRE_TRY(slots.write(part));
//   NACRE_TRY(trial.open({flash.begin + slots.offset(), size_t(file_bytes)}));   // check it and try it, then
//   NACRE_TRY(slots.finish());
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

  // A slot that holds a whole file.
  struct Found {
    uint32_t slot = kNoSlot;  // 0 or 1
    uint32_t sequence = 0;    // counts updates; wraps
    uint64_t offset = 0;      // offset of the file in the storage: a multiple of 64
    uint64_t bytes = 0;       // size of the file
  };

  // Copies `storage`. Its context must outlive the ModelSlots.
  explicit ModelSlots(const Storage& storage) : storage_(storage) {}

  const Storage& storage() const { return storage_; }

  // Finds the newest slot, other than `other`, whose file is as it was written: it reads the file. kNoCheckpoint: there
  // is none. kStorageFailed: there is none and a read failed, or a function is missing. kStorageGranule: the storage's
  // sizes cannot be used. *found then has kNoSlot.
  Status find(Found* found, const Found* other = nullptr) const;

  // Erases the slot that is not `keep` for a file of `bytes` bytes; if `keep` is kNoSlot, erases slot 0. An update that
  // was begun before ends. Returns kStorageSize if the file does not fit, kStorageGranule as find does; nothing is
  // erased then. Returns kStorageFailed if an erase fails: the slot is then lost.
  Status begin(uint32_t keep, uint64_t bytes);
  uint64_t offset() const { return base(slot_) + kHeaderBytes; }  // offset of the file that is written, after begin
  // Writes the next bytes of the file, any number. Returns kNotBound without a begin. Returns kRange if there are more
  // than begin was told; nothing is written then. Returns kStorageFailed if programming fails, which ends the update.
  Status write(std::span<const std::byte> part);
  // Finishes an update. If all bytes were written and read back correctly, find() finds this slot from now on.
  // Returns kNotBound without a begin. Returns kLengthUnder if bytes are missing; write() may go on. Returns kReadBack
  // if bytes differ; find() then does not find this slot. Returns kStorageFailed if the storage fails; find() then
  // finds this slot only if its header became whole. Both end the update.
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
