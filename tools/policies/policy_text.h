// Writes policy records as names. parse_policy reads back those of floating-point policies.
#pragma once

#include <string>

#include "engine/numeric/policy.h"

namespace nacre::tools {

// Returns the canonical name: "int8_from_mixed_bfloat16", "int4/32_from_float32", "float8/16_from_float32". If no name
// fits, returns "params=float32,compute=bfloat16,output=float32". Fields that differ from what the name means follow:
// "float8_from_float32;margin=1". parse_policy(policy_text(p)) is p if check_policy accepts p and its types are floats.
std::string policy_text(const Policy& policy);

bool is_mixed_float16(const Policy& policy);  // true if it has the types of mixed_float16 and no quantization

}  // namespace nacre::tools
