// Reads a policy file's JSON without trusting it. Accepts at most 16 MiB, 32 levels, 10,000 keys per object and 400,000
// keys, values and ends of values. Refuses a key that an object has twice. Takes bounded time for any bytes.
#pragma once

#include <string>

#include "tools/base/print.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

inline constexpr size_t kMostPolicyFileBytes = 16 << 20;
inline constexpr int kDeepestPolicyFile = 32;
inline constexpr size_t kMostPolicyFileKeys = 10'000;  // of one object
inline constexpr size_t kMostPolicyFileValues = 400'000;

Json parse_policy_json(const std::string& text, const std::string& name);  // throws PolicyError "BadJson"
Json read_policy_json(const std::string& path);                            // also throws Error(kIo)

}  // namespace nacre::tools
