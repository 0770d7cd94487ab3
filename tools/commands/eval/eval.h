// nacre eval: runs models on a labelled set, side by side, and checks that none is worse than allowed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct EvalOptions {
  std::vector<std::string> models;  // drops are measured against the first
  SetOptions set;
  std::string output;              // the output to judge; "": the only one
  std::string target;              // the target of the programs, if there are several
  std::optional<double> max_drop;  // in units of the metric: 0.01 is one point of accuracy
  Running running;
  bool cast_inputs = false;
  bool json = false;
};

// Prints the results. Throws Error(kFailed) if a drop exceeds max_drop.
void eval(const EvalOptions& options);

}  // namespace nacre::tools
