// Bytes of an inference model with a trainer's learned state, checked before anyone sees them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/tuner/tuner.h"

namespace nacre::tools {

// `metadata` is added to the training model's. Throws where a weight is not finite, or where the model does not compute
// what the trainer's own inference does, to the bit, on inputs drawn from a seed.
std::vector<uint8_t> tuned_model(LoadedTrainer& trainer,
                                 const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace nacre::tools
