// The two slots of a directory of checkpoints, one by one: so a slot that is not whole is seen beside the one that is
// taken, and an older checkpoint can be taken by name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "tools/files/file_storage.h"

namespace nacre::tools {

struct SavedCheckpoint {
  Status status = {};  // ok: the rest holds
  Checkpoint::Report report = {};
  std::vector<std::byte> state = {}, note = {};

  uint32_t other_slot() const { return 1 - report.slot; }
};

class SavedSlots {
 public:
  // `files` and `model` must outlive it. `initial`: what tensors keep that a checkpoint of another layout lacks.
  SavedSlots(FileStorage& files, const std::string& directory, const Model& model, std::span<const std::byte> initial);

  SavedCheckpoint newest() const { return read(storage_); }
  SavedCheckpoint only(uint32_t slot) const;  // as if the other slot were erased
  std::string path(uint32_t slot) const;

  // One sentence where the other slot of `taken` is not what two saves in turn leave there: it is not whole, or of
  // another training. Else "". `contradicts`: with the same options, so that nothing says which of the two is meant.
  std::string other_slot_text(const SavedCheckpoint& taken, bool* contradicts = nullptr) const;

 private:
  SavedCheckpoint read(const Storage& storage) const;

  std::string directory_;
  const Model& model_;
  std::vector<std::byte> initial_;
  Storage storage_;
};

}  // namespace nacre::tools
