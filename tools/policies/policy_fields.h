// Accesses the fields of a Policy record by name. Nacre's own JSON, the suffixes of a name (";margin=1") and
// --emit-policy use the names. One table serves reading, writing and comparing.
#pragma once

#include <span>
#include <string>

#include "engine/numeric/policy.h"
#include "tools/base/print.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

struct PolicyField {
  const char* key;
  const char* expected;  // the valid values in words, for errors
  Json (*get)(const Policy& policy);
  bool (*set)(Policy& policy, const Json& value);  // returns false for an invalid value
};

// Returns the fields in the order in which they are written.
std::span<const PolicyField> policy_fields();

// Sets a field. Throws an error that names `key`, the value and the valid values.
void set_policy_field(Policy& policy, const std::string& key, const Json& value, const Place& place);

// Sets a field by the suffix "margin=1". A value that is a number is set as one; any other is a word.
void set_policy_field(Policy& policy, const std::string& assignment, const Place& place);

// Throws unless the fields fit together. For example, margin and amax_history_length need float8 with a history.
void check_policy(const Policy& policy, const Place& place);

bool equal(const Policy& a, const Policy& b);  // true if every field of policy_fields() is equal
bool floating(ElementType type);               // true for float32, float16, bfloat16 and float64
bool fit_bits(int bits);                       // true if codes of fitted weights may have this many bits: 2, 3, 4 or 8
bool narrow(ElementType type);                 // true for a 16-bit type

}  // namespace nacre::tools
