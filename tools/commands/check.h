// nacre check: everything about a model file that can be checked without other data.
#pragma once

#include <string>

namespace nacre::tools {

struct CheckOptions {
  std::string model;
  bool json = false;
};

void check_model(const CheckOptions& options);

}  // namespace nacre::tools
