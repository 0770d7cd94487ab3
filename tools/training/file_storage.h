// FileStorage: the two slots of a checkpoint as two files, slot0.checkpoint and slot1.checkpoint, of one directory.
//
//   FileStorage files(directory);                       // made where it is missing
//   Checkpoint checkpoint(files.storage());
//
// A slot is as long as it needs to be. What flush() has returned for survives a loss of power: files and directory are synced.
// Two processes must not save to one directory: the second is refused. Failures inside a save are Status; problem() says more.
#pragma once

#include <cstdint>
#include <string>

#include "engine/train/checkpoint.h"

namespace nacre::tools {

class FileStorage {
 public:
  explicit FileStorage(const std::string& directory);
  ~FileStorage();
  FileStorage(const FileStorage&) = delete;
  FileStorage& operator=(const FileStorage&) = delete;

  Storage storage();

  // The last failure in words, or empty.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr uint64_t kSlotBytes = uint64_t{1} << 40;  // more than any state: a slot's place in the storage
  static constexpr uint32_t kEraseBytes = 1u << 31;

  bool read(uint64_t offset, std::span<std::byte> to);
  bool program(uint64_t offset, std::span<const std::byte> from);
  bool erase(uint64_t offset);
  bool flush();
  bool write_at(uint32_t slot, uint64_t offset, std::span<const std::byte> from);
  void close_all();
  bool fail(uint32_t slot, const char* what);

  std::string paths_[2];
  int files_[2] = {-1, -1};
  int directory_ = -1;
  std::string problem_;
};

}  // namespace nacre::tools
