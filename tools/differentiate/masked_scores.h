// What a softmax uses of scores that a mask was added to, as steps: what training observes and rounds.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Appends max(x, peak of its row - mask_depth), rows along the last axis; returns it.
ValueId add_unmasked(Graph& graph, const Node& near, ValueId x);

}  // namespace nacre::tools
