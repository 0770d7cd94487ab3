// FileStorage: the two slots of a checkpoint as two files, slot0.checkpoint and slot1.checkpoint, of one directory.
//
//   FileStorage files(directory);                           // to save to: made where it is missing, parents too
//   FileStorage files(directory, FileStorage::Use::kRead);  // to load from: nothing is made or need be writable
//   Checkpoint checkpoint(files.storage(model));
//
// What was made to save to, and into which nothing was saved, is removed again. A slot is as long as it needs to be.
// What flush() has returned for survives a loss of power: files and directory are synced. Two processes must not save
// to one directory: the second is refused, and so is one that reads meanwhile. Failures inside a save are Status;
// problem() says more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/train/checkpoint.h"
#include "tools/files/output_files.h"

namespace nacre::tools {

class FileStorage {
 public:
  enum class Use { kSave, kRead };

  explicit FileStorage(const std::string& directory, Use use = Use::kSave);
  ~FileStorage();
  FileStorage(const FileStorage&) = delete;
  FileStorage& operator=(const FileStorage&) = delete;

  // For checkpoints that `model` is to load. A file may claim a length that takes no room on its disk: of such a slot
  // no more is read than twice what a checkpoint of this model takes, or 16 MiB.
  nacre::Storage storage(const Model& model);

  // The last failure in words, or empty.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr uint64_t kSlotBytes = uint64_t{1} << 40;  // more than any state: a slot's place in the storage
  static constexpr uint32_t kEraseBytes = 1u << 31;

  void open_slot(int slot, Use use);
  bool read(uint64_t offset, std::span<std::byte> to);
  bool program(uint64_t offset, std::span<const std::byte> from);
  bool erase(uint64_t offset);
  bool flush();
  uint64_t filled(uint64_t offset) const;
  bool write_at(uint32_t slot, uint64_t offset, std::span<const std::byte> from);
  void require_own(int slot) const;
  void close_all();
  bool fail(uint32_t slot, const char* what);

  std::unique_ptr<NewDirectories> made_directories_;
  std::string paths_[2];
  int files_[2] = {-1, -1};  // -1: to read from, and not there
  bool made_[2] = {};        // by this object
  bool heads_ = false;       // a header was programmed: with the next flush() a checkpoint is there
  bool saved_ = false;
  int directory_ = -1;
  uint64_t plausible_bytes_ = 0;  // of a slot, whatever room it takes
  std::string problem_;
};

}  // namespace nacre::tools
