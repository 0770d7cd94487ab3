// Rules by name of layer, looked up as Keras's DTypePolicyMap does:
//
//   1  a key that is the name, letter by letter      that one, even if it is also a pattern
//   2  keys that match the whole name as patterns    one: that one; more: an error that names them all
//   3  none                                          nothing: the default applies
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/policies/pattern.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

inline constexpr size_t kMostRules = 100'000;
inline constexpr size_t kMostPatterns = 500;  // keys that match more names than one

class PolicyMap {
 public:
  // The index of the key, 0, 1, ... Throws PolicyError: DuplicateKey, BadPattern, TooManyRules.
  size_t insert(const std::string& key, const Place& place);

  // Throws PolicyError "MultipleMatches" naming the layer and the places of all keys that match it.
  std::optional<size_t> find(const std::string& name) const;

  // Every key that is the name or matches it, in order of insertion.
  std::vector<size_t> matches(const std::string& name) const;

  size_t size() const { return keys_.size(); }
  int64_t cost() const;  // per character of a name, in instructions of all patterns together

 private:
  struct Key {
    std::string text;
    Place place;
  };
  struct IndexedPattern {
    size_t key;
    Pattern pattern;
  };

  std::vector<Key> keys_;
  std::unordered_map<std::string, size_t> exact_;
  std::unordered_multimap<std::string, size_t> escaped_;  // by the only name that the pattern matches
  std::vector<IndexedPattern> patterns_;
};

}  // namespace nacre::tools
