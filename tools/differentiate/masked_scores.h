// Adds steps that keep the part of masked scores that a softmax uses. Training observes and rounds their result.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Appends max(x, peak of its row - mask_depth), with rows along the last axis. Returns the result.
ValueId add_unmasked(Graph& graph, const Node& near, ValueId x);

}  // namespace nacre::tools
