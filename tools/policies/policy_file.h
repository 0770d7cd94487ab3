// Reading a policy file's JSON without trusting it: at most 16 MiB, 32 levels, 10,000 keys per object, 400,000 values,
// and no key twice (most readers take the last one silently). Whatever the bytes, the end comes in bounded time.
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
Json read_policy_json(const std::string& path);                            // the same of a file, and Error(kIo)

}  // namespace nacre::tools
