// nacre report of a network: the models that it becomes under several policies, compiled in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/evaluate/calibration_set.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct NetworkUnderPolicies {
  std::string network;
  std::vector<std::string> shapes;    // of axes that it leaves open
  std::vector<std::string> ignored;   // settings of its file that are gone on without
  std::vector<std::string> policies;  // "source": as the file has it
  std::string calibrate;              // samples for ranges; "": some of the set (calibration_set.h)
  bool cast_inputs = false;
};

struct ModelsUnderPolicies {
  std::vector<std::unique_ptr<LoadedModel>> models;
  std::string calibrated;  // where ranges are from; "": no policy reads samples
};

// One model per policy, each as nacre convert --policy makes it: the same bytes where the policy reads no samples.
// Others take those of `calibrate` or of `set`, which then judges without them, and which their metadata do not name;
// throws Error where there are none.
ModelsUnderPolicies compile_under(const NetworkUnderPolicies& wanted, const SetOptions& from,
                                  std::optional<LabelledSet>& set);

}  // namespace nacre::tools
