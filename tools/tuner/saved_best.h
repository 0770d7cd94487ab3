// The checkpoint of a training's best epoch: which of those in best/, or beside it, is that of the epoch that the
// training itself names. Its note says of which training and epoch it is.
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
  bool newest = false, older = false;      // of best/; neither: it is not recorded there
  bool ahead = false;                      // of an epoch after the training's checkpoint
  std::vector<std::string> warnings = {};  // sentences
};

// The slots that are searched, and the training whose best epoch they shall hold.
struct BestSearch {
  const SavedSlots& best;
  const SavedSlots& training;
  const NotedPosition& at;  // the training's; one of its epochs is the best
  std::string directory;    // best/, for sentences
  bool takes_ahead;         // a best epoch that was saved before its training was cut off counts too
};

// Nothing: no whole checkpoint is of that epoch.
std::optional<BestCheckpoint> find_best(const BestSearch& search);

// The refusal of a training whose best epoch find_best does not find.
Error no_best(const std::string& directory, const TunePosition& position);

}  // namespace nacre::tools
