// nacre eval: models on a labelled set, side by side; a check that none is worse than allowed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct EvalOptions {
  std::vector<std::string> models;  // the first is the one that drops are measured against
  SetOptions set;
  std::string output;              // the output that is judged; "": the only one
  std::string target;              // of several programs, the ones for this target
  std::optional<double> max_drop;  // in units of the metric: 0.01 is one point of accuracy
  Running running;
  bool cast_inputs = false;
  bool json = false;
};

// Throws Error(kFailed) after printing where a drop exceeds max_drop.
void eval(const EvalOptions& options);

}  // namespace nacre::tools
