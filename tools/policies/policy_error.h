// Errors of the policy language, for the person who wrote a wrong policy. An error has the place where the policy was
// written, the fact, the remedy, and a label for the kind of fact. Tests and other programs compare the label, because
// the sentences may change.
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

// The place where a policy was written: "--set 'dense.*=int8'", "F.json: $.layers.fc1". Errors begin with the place.
struct Place {
  std::string text = "policy";
  ExitCode code = kUsage;  // kBadInput if the place is in a file, kUnsupported if a valid policy cannot be made

  [[noreturn]] void refuse(const std::string& label, const std::string& fact, const std::string& remedy = "") const {
    throw PolicyError(label, code, text, fact, remedy);
  }
  Place of(const std::string& key) const;  // "$.layers" -> "$.layers.fc1"
  Place of(size_t index) const;            // "$.only" -> "$.only[0]"
};

// Throws PolicyError "UnknownField" if the object has a key that is not in `allowed`.
void check_keys(const Json& object, const std::vector<std::string>& allowed, const Place& place);

}  // namespace nacre::tools
