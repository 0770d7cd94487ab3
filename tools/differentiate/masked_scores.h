// Steps that keep the part of masked scores that a softmax uses: training observes and rounds their result.
#pragma once

#include "tools/graph/graph.h"

namespace nacre::tools {

// Appends max(x, peak of its row - mask_depth), rows along the last axis; returns it.
ValueId add_unmasked(Graph& graph, const Node& near, ValueId x);

}  // namespace nacre::tools
