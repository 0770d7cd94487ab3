// Training settings and state that a network's file holds, for a training that goes on with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nacre::tools {

// A setting of the file's loss or optimizer that has no form here. Who takes that loss, that optimizer or its rate from
// the file refuses it.
struct RefusedSetting {
  enum class Of : uint8_t { kLoss, kOptimizer, kRate };
  Of of;
  std::string fact;
};

// In the words of nacre tune. "" and 0: the file does not say it.
struct SourceTraining {
  std::string loss, optimizer, schedule;
  std::string output = {};  // of several, the one that the loss is of
  float learning_rate = 0, clip_norm = 0, clip_value = 0;
  std::vector<RefusedSetting> refused = {};
  // By the names of parameters p: what penalties of the file add to the gradient, decay p.
  std::map<std::string, float> decays = {};
  std::map<std::string, float> momenta = {};  // of running means and variances, by their names
  uint32_t steps = 0;                         // that were applied
  float loss_scale = 0;                       // that it came to, after this many finite steps with it
  uint32_t steps_with_scale = 0;
  // The optimizer's state, in the order of the parameter's elements: by the parameter's name, then by its own.
  std::map<std::string, std::map<std::string, std::vector<float>>> moments = {};
  std::map<std::string, std::vector<float>> float8 = {};  // scales and amax histories, by their names in state
};

}  // namespace nacre::tools
