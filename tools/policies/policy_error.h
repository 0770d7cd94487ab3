// Errors of the policy language for whoever gave a wrong policy: the place, the fact, the remedy, and a label for the
// kind of fact. Tests and peers compare the label: the sentence may change, the label does not.
#pragma once

#include <string>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/json.h"

namespace nacre::tools {

struct PolicyError : Error {
  PolicyError(const std::string& kind, ExitCode exit_code, const std::string& place, const std::string& fact,
              const std::string& remedy = "")
      : Error(exit_code, place, fact, remedy), label(kind) {}
  std::string label;  // "CannotConvert", "NotAPair", ...
};

// Place where a policy was written: "--set 'dense.*=int8'", "F.json: $.layers.fc1". Errors start with it.
struct Place {
  std::string text = "policy";
  ExitCode code = kUsage;  // kBadInput for files

  [[noreturn]] void refuse(const std::string& label, const std::string& fact, const std::string& remedy = "") const {
    throw PolicyError(label, code, text, fact, remedy);
  }
  Place of(const std::string& key) const;  // "$.layers" -> "$.layers.fc1"
  Place of(size_t index) const;            // "$.only" -> "$.only[0]"
};

// Throws UnknownField for a key that is not among those `allowed`.
void check_keys(const Json& object, const std::vector<std::string>& allowed, const Place& place);

}  // namespace nacre::tools
