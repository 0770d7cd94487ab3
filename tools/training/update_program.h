// The program `update`: decides whether a step counts, and commits it. Steps, in order: verdict, optimizers, running statistics,
// what other passes add (scales, ranges), step count; all guarded by the verdict. Last, unguarded, the loss scale.
#pragma once

#include <vector>

#include "tools/training/differentiate.h"

namespace nacre::tools {

// Adds nodes that commit what a quantizer observed; their guard is set by the caller.
using CommitNodes = std::vector<Node>;

// `commits`: nodes over values of `values`, by name, that run under the guard, after the statistics.
struct Commit {
  std::vector<Value> values;  // state and step values; ids in `nodes` are indices here
  std::vector<Node> nodes;
};

Graph update_program(const Differentiated& differentiated, const TrainingOptions& options, const Commit& commit = {});

}  // namespace nacre::tools
