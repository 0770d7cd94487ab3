// Finds the checkpoint of a training's best epoch among those in best/ and those of the training itself. A
// checkpoint's note says which training and epoch it belongs to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/base/error.h"
#include "tools/tuner/position.h"
#include "tools/tuner/saved_slots.h"

namespace nacre::tools {

struct BestCheckpoint {
  SavedCheckpoint saved;
  bool newest = false, older = false;      // it is the newest, or the older one, in best/ with a note of that epoch
  bool ahead = false;                      // its epoch comes after the training's checkpoint
  std::vector<std::string> warnings = {};  // sentences
};

// The checkpoints to search, and the training whose best epoch is wanted.
struct BestSearch {
  const SavedSlots& best;
  const SavedSlots& training;
  const NotedPosition& at;  // the training's position; one of its epochs is the best
  std::string directory;    // best/, for sentences
  bool takes_ahead;         // also takes a best epoch that was saved before its training was cut off
};

// Returns nothing if no intact checkpoint is of that epoch.
std::optional<BestCheckpoint> find_best(const BestSearch& search);

// Returns the refusal for a training whose best epoch find_best does not find.
Error no_best(const std::string& directory, const TunePosition& position);

}  // namespace nacre::tools
