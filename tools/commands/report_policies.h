// nacre report of a network: the models that it becomes under several policies, compiled in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct NetworkUnderPolicies {
  std::string network;
  std::vector<std::string> shapes;    // of axes that it leaves open
  std::vector<std::string> ignored;   // settings of its file that are gone on without
  std::vector<std::string> policies;  // "source": as the file has it
  bool cast_inputs = false;
};

// One model per policy, each as nacre convert --policy makes it: the same bytes where the policy reads no samples.
// Others take those of `data`, which their metadata do not name; throws Error where there are none.
std::vector<std::unique_ptr<LoadedModel>> compile_under(const NetworkUnderPolicies& wanted, const NpzArrays& data);

}  // namespace nacre::tools
