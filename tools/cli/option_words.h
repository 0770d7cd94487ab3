// Tells what kind of value a CLI11 option takes, by its type name: "auto|reference", "FILE", "NAME=FILE".
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nacre::tools {

// Returns the words of a type name such as "auto|reference"; none if the type name is no such list.
inline std::vector<std::string> words_of_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::vector<std::string> words;
  if (type.find('|') == std::string::npos || type.find_first_of("=[ ,") != std::string::npos) return words;
  for (size_t at = 0; at <= type.size();) {
    const size_t end = std::min(type.find('|', at), type.size());
    words.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

inline bool names_file(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* word : {"FILE", "DIR", "MODEL", "NETWORK"})
    if (type.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace nacre::tools
