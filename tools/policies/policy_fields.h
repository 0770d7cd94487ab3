// The fields of a Policy record by name: in Nacre's own JSON, in the suffixes of a name (";margin=1"), in what
// --emit-policy writes. One table serves reading, writing and comparing.
#pragma once

#include <span>
#include <string>

#include "engine/numeric/policy.h"
#include "tools/base/print.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

struct PolicyField {
  const char* key;
  const char* expected;  // in words, for errors
  Json (*get)(const Policy& policy);
  bool (*set)(Policy& policy, const Json& value);  // false: not such a value
};

// In the order in which they are written.
std::span<const PolicyField> policy_fields();

// Sets a field, or throws naming `key`, the value and what is expected.
void set_policy_field(Policy& policy, const std::string& key, const Json& value, const Place& place);

// "margin=1" of a suffix: numbers are numbers, all else is a word.
void set_policy_field(Policy& policy, const std::string& assignment, const Place& place);

// Throws unless the fields go together: a block only with int4, a history only with float8, four types that layers
// compute in.
void check_policy(const Policy& policy, const Place& place);

bool equal(const Policy& a, const Policy& b);  // in every field
bool floating(ElementType type);               // a type that layers compute in
bool fit_bits(int bits);                       // of the codes of a fit: 2, 3, 4 or 8
bool narrow(ElementType type);                 // one of 16 bits

}  // namespace nacre::tools
