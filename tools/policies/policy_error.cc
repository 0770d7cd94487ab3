#include "tools/policies/policy_error.h"

#include <algorithm>
#include <cctype>

#include "tools/base/nearest.h"

namespace nacre::tools {

Place Place::of(const std::string& key) const {
  const bool plain = !key.empty() && key.size() <= 80 && std::ranges::all_of(key, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return {text + (plain ? "." + key : "[" + in_quotes(key) + "]"), code};
}

Place Place::of(size_t index) const { return {text + "[" + std::to_string(index) + "]", code}; }

void check_keys(const Json& object, const std::vector<std::string>& allowed, const Place& place) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(allowed, key) == allowed.end())
      place.of(key).refuse("UnknownField", "is not expected here", "allowed are " + listed(allowed, allowed.size()));
}

}  // namespace nacre::tools
