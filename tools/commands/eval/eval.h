// nacre eval: runs models on a labelled set, side by side, and checks that none is worse, larger or slower than
// allowed.
#pragma once

#include <cstdint>
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
  // Limits of each model but the first, which is the reference, or of the only one.
  std::optional<uint64_t> max_bytes;  // of the file
  std::optional<double> max_time_us;  // median per sample, on this machine
  Running running;
  bool cast_inputs = false;
  bool json = false;
};

// Prints the results. Throws Error(kFailed) if a model exceeds a limit.
void eval(const EvalOptions& options);

}  // namespace nacre::tools
