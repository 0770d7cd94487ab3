// State that a trainer has learned: to a directory of checkpoints (tools/files/file_storage.h), and back.
#pragma once

#include <string>
#include <vector>

#include "engine/train/checkpoint.h"
#include "tools/base/json.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

// Throws where the directory cannot be written; then the checkpoint that was there stays.
void save_state(LoadedTrainer& trainer, const std::string& directory);

struct LoadedState {
  Checkpoint::Report report;
  std::string file;                   // the slot's
  std::string where;                  // "epoch 3", "epoch 4 up to step 2"; "": no training of nacre tune saved it
  std::vector<std::string> warnings;  // sentences: a slot that is not whole

  std::string where_text() const { return where.empty() ? "" : ", " + where; }
  Json json() const;  // {"file", "save", "where"}
};

struct LoadOptions {
  bool any_training = false;  // takes what matches in name, type and size: by chance, a network that nobody trained
  bool best = false;          // the best epoch of the training in the directory, else its newest checkpoint
};

// The checkpoint, and what depends on it derived anew. Throws where there is none, or one of another training.
LoadedState load_state(LoadedTrainer& trainer, const std::string& directory, const LoadOptions& options = {});

}  // namespace nacre::tools
