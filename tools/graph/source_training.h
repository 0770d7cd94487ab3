// Training settings and state that a network's file holds. A training that continues from the file reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nacre::tools {

// A setting of the file's training that Nacre does not implement. `of` says to what it belongs: the loss, the optimizer
// or its rate. A command that takes that from the file refuses with `fact`.
struct RefusedSetting {
  enum class Of : uint8_t { kLoss, kOptimizer, kRate };
  Of of;
  std::string fact;
};

// Settings under the names that nacre tune uses. "" or 0 if the file does not give one.
struct SourceTraining {
  std::string loss, optimizer, schedule;
  std::string output = {};  // the output that the loss is for, if there are several
  float learning_rate = 0, clip_norm = 0, clip_value = 0;
  std::vector<RefusedSetting> refused = {};
  // By the name of parameter p: the decay d of a penalty in the file, which adds d p to the gradient.
  std::map<std::string, float> decays = {};
  std::map<std::string, float> momenta = {};  // for running means and variances, by name
  uint32_t steps = 0;                         // optimizer steps already applied
  // The current loss scale, and the number of finite steps already made with it.
  float loss_scale = 0;
  uint32_t steps_with_scale = 0;
  // The optimizer's state, by the parameter's name, then by the state's own name. Its order is that of the parameter's
  // elements.
  std::map<std::string, std::map<std::string, std::vector<float>>> moments = {};
  std::map<std::string, std::vector<float>> float8 = {};  // scales and amax histories, by their names in the state
};

}  // namespace nacre::tools
