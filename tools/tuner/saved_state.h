// Saves the state that a trainer has learned to a directory of checkpoints (tools/files/file_storage.h), and loads
// it.
#pragma once

#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "tools/base/json.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

// Saves. Throws if the directory cannot be written; the checkpoint in it then stays.
void save_state(LoadedTrainer& trainer, const std::string& directory);

struct LoadedState {
  Checkpoint::Report report;
  std::string file;                   // path of the slot
  std::string where;                  // "epoch 3", "epoch 4 up to step 2"; "" if nacre tune did not save it
  std::vector<std::string> warnings;  // sentences, such as about a damaged slot

  std::string where_text() const { return where.empty() ? "" : ", " + where; }
  Json json() const;  // {"file", "save", "where"}
};

struct LoadOptions {
  bool any_training = false;  // takes tensors of equal name, type and size from another training's checkpoint too
  bool best = false;          // true: loads the best epoch of the directory's training; false: its newest checkpoint
};

// Loads the checkpoint, and derives again the tensors that depend on it. Throws Error if there is none, or if it is of
// another training and `any_training` is false.
LoadedState load_state(LoadedTrainer& trainer, const std::string& directory, const LoadOptions& options = {});

}  // namespace nacre::tools
