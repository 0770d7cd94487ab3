// Compiles a network in memory under several policies, for nacre report.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/evaluate/calibration_set.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct NetworkUnderPolicies {
  std::string network;
  std::vector<std::string> shapes;    // for axes that it leaves open
  std::vector<std::string> ignored;   // settings of its file to ignore
  std::vector<std::string> policies;  // "source": the file's own types
  std::string calibrate;              // samples for ranges; "": taken from the set (calibration_set.h)
  bool cast_inputs = false;
};

struct ModelsUnderPolicies {
  std::vector<std::unique_ptr<LoadedModel>> models;
  std::string calibrated;  // source of the ranges; "": no policy reads samples
};

// Makes one model per policy, as nacre convert --policy does, with equal bytes if the policy reads no samples. Other
// policies read samples of `calibrate` or of `set`. Samples of `set` are left out when it judges, and metadata do not
// name them. Throws Error if there are none.
ModelsUnderPolicies compile_under(const NetworkUnderPolicies& wanted, const SetOptions& from,
                                  std::optional<LabelledSet>& set);

}  // namespace nacre::tools
