// Compares our reading of Keras's policy names, JSON and map lookups with Keras's own:
// tests/peers/keras_language.json.
#pragma once

#include <string>

namespace nacre::tools {

struct LanguageCheck {
  int cases = 0, agreed = 0;
  std::string first_difference;  // "": none
  std::string versions;          // of what made the table: "keras 3.15.1, jax backend"
};

LanguageCheck check_keras_language(const std::string& path);  // throws std::exception if it cannot be read

}  // namespace nacre::tools
