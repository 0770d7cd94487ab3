// nacre policies: explains every form of a policy's name with an example, or what one policy means.
#pragma once

#include <optional>
#include <string>

namespace nacre::tools {

struct PoliciesOptions {
  std::optional<std::string> name;  // empty: all forms
  bool json = false;
};

void policies(const PoliciesOptions& options);

}  // namespace nacre::tools
