// Makes the tables and the JSON of a profile: the times per step and per op.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/model/profile.h"

namespace nacre::tools {

std::string profile_text(const LoadedModel& model, uint32_t program, const Profile& profile, size_t width);
Json profile_json(const LoadedModel& model, uint32_t program, const Profile& profile);

}  // namespace nacre::tools
