// All policies that have a short name, for remedies and for `nacre policies`.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

// Every source alone, then every mode from every source it goes with, with usual block and history lengths.
const std::vector<std::string>& policy_names();

// Remedy for an unknown name: "did you mean a, b or c?", or examples where nothing is near.
std::string nearest_policies(const std::string& wrong);

struct PolicyForm {
  const char* system;   // whose language it is
  const char* form;     // the grammar of it, capital words vary
  const char* meaning;  // one sentence
  const char* example;  // a policy that parses; "" where the form is no policy of its own
};
std::span<const PolicyForm> policy_forms();

}  // namespace nacre::tools
