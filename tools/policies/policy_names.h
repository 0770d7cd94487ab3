// Lists all policies that have a short name, for remedies and for `nacre policies`.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

// Returns four plain and two mixed policies, then every mode from each of them that it goes with, then short words like
// "half". Blocks and history lengths have usual values.
const std::vector<std::string>& policy_names();

// Returns the remedy for an unknown name: "did you mean a, b or c?", or examples if no name is near.
std::string nearest_policies(const std::string& wrong);

struct PolicyForm {
  const char* system;   // the system whose language this is
  const char* form;     // its grammar; words in capitals stand for a value
  const char* meaning;  // one sentence
  const char* example;  // a policy that parses; "" if no policy of this form can be made
};
std::span<const PolicyForm> policy_forms();

}  // namespace nacre::tools
