// Reads the two slots of a directory of checkpoints one by one. So a damaged slot is noticed besides the one that is
// taken, and the older checkpoint can be taken.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "tools/files/file_storage.h"

namespace nacre::tools {

struct SavedCheckpoint {
  Status status = {};  // ok: the other members are set
  Checkpoint::Report report = {};
  std::vector<std::byte> state = {}, note = {};

  uint32_t other_slot() const { return 1 - report.slot; }
};

class SavedSlots {
 public:
  // `files` and `model` must outlive it. `initial`: the state for tensors that a checkpoint of another layout lacks.
  SavedSlots(FileStorage& files, const std::string& directory, const Model& model, std::span<const std::byte> initial);

  SavedCheckpoint newest() const { return read(storage_); }
  SavedCheckpoint only(uint32_t slot) const;  // as if the other slot were erased
  std::string path(uint32_t slot) const;

  // Returns one sentence if the other slot is not what saving in turn leaves: it is damaged, or of another training.
  // Else returns "". `contradicts` is set if that training has the same options, so that nothing says which of the
  // two is meant.
  std::string other_slot_text(const SavedCheckpoint& taken, bool* contradicts = nullptr) const;

 private:
  SavedCheckpoint read(const Storage& storage) const;

  std::string directory_;
  const Model& model_;
  std::vector<std::byte> initial_;
  Storage storage_;
};

}  // namespace nacre::tools
