// Makes an inference model from a trainer's learned state, and checks it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/tuner/tuner.h"

namespace nacre::tools {

// Returns the model's bytes. `metadata` is added to the training model's. Throws if a weight is not finite. Throws if
// the outputs for seeded inputs are not those of the trainer's own inference, to the bit.
std::vector<uint8_t> tuned_model(LoadedTrainer& trainer,
                                 const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace nacre::tools
