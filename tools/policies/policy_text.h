// Policy records as names that parse_policy reads back.
#pragma once

#include <string>

#include "engine/numeric/policy.h"

namespace nacre::tools {

// The canonical name: "int8_from_mixed_bfloat16", "int4/32_from_float32", "float8/16_from_float32", or, where no name
// says it, "params=float32,compute=bfloat16,output=float32"; a field that differs from what the name means follows:
// "float8_from_float32;margin=1". parse_policy(policy_text(p)) is p for every p that check_policy accepts.
std::string policy_text(const Policy& policy);

bool is_mixed_float16(const Policy& policy);  // the types of mixed_float16, not quantized

}  // namespace nacre::tools
