// What a trainer has learned, in a directory of checkpoints (tools/files/file_storage.h), and back.
#pragma once

#include <string>

#include "engine/train/checkpoint.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

// Throws where the directory cannot be written; then the checkpoint that was there stays.
void save_state(LoadedTrainer& trainer, const std::string& directory);

// The newest checkpoint, and what depends on it derived anew. One of another training only with `any_training`, which
// takes what matches in name, type and size: tensors that match by chance make a network that nobody trained.
Checkpoint::Report load_state(LoadedTrainer& trainer, const std::string& directory, bool any_training = false);

}  // namespace nacre::tools
