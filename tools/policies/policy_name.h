// Names of policy records in reports.
#pragma once

#include <string>

#include "engine/numeric/policy.h"

namespace nacre::tools {

// Returns a policy's name as people write it (policies/policy_text.h): "mixed_float16", "int8/static_from_float32". A
// layer that runs as a quantized file says may have no such name. It is called "int8/static" or "int16x8", for example.
std::string policy_name(const Policy& policy);

}  // namespace nacre::tools
