// Policy records as reports show them.
#pragma once

#include <string>

#include "engine/numeric/policy.h"

namespace nacre::tools {

// A policy's name as people write it (policies/policy_text.h): "mixed_float16", "int8/static_from_float32". Records
// of layers that run as a quantized file says have types that no policy has: "int8/static", "int8 (dynamic)".
std::string policy_name(const Policy& policy);

}  // namespace nacre::tools
