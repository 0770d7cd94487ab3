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

// Makes one model per policy, as nacre convert --policy does, with equal bytes if the policy reads no samples. A policy
// that reads samples gets those of `calibrate`, else some of the data of `set`, which are then removed from `set`
// (calibration_set.h). Throws Error if a policy reads samples and there is neither. Metadata do not name the samples.
ModelsUnderPolicies compile_under(const NetworkUnderPolicies& wanted, const SetOptions& from,
                                  std::optional<LabelledSet>& set);

}  // namespace nacre::tools
