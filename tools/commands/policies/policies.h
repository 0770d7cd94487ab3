// nacre policies: every form of a policy's name, explained, with an example; or what one policy means.
#pragma once

#include <optional>
#include <string>

namespace nacre::tools {

struct PoliciesOptions {
  std::optional<std::string> name;  // nothing: all forms
  bool json = false;
};

void policies(const PoliciesOptions& options);

}  // namespace nacre::tools
