// Makes lines and JSON of nacre tune: about an epoch, about what is trained, about the time that is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/json.h"
#include "tools/differentiate/trained_constants.h"
#include "tools/model/loaded_model.h"
#include "tools/tuner/history.h"

namespace nacre::tools {

std::string percent_text(double share);  // "   98.67 %"; "" for NaN
std::string epoch_line(const EpochRecord& e, uint32_t epochs);
Json epoch_json(const EpochRecord& e);
Json trained_json(const std::vector<TrainedConstant>& constants);
std::vector<TrainedConstant> trained_of(const LoadedModel& training);  // its trainable tensors
std::string clock_text(double seconds);                                // "1:02:03", "2:03"

}  // namespace nacre::tools
