// Policy records as people write and read them.
#pragma once

#include <string>

#include "engine/numeric/policy.h"

namespace nacre::tools {

// "float32", "mixed float16", "int8/static", "int8 (dynamic)", "int4/64", "float8/1024": the fields
// that differ from what such a policy usually has follow in words.
std::string policy_name(const Policy& policy);

}  // namespace nacre::tools
