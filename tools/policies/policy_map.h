// Rules by the name of a layer, looked up in the manner of Keras's DTypePolicyMap:
//
//   1  a key equal to the name                       is taken, even if it is also a pattern
//   2  keys that match the whole name as patterns    one key is taken; several are an error that names them
//   3  no such key                                   find() returns nullopt, and the default applies
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/policies/pattern.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

inline constexpr size_t kMostRules = 100'000;
inline constexpr size_t kMostPatterns = 500;  // most keys that match more than one name

class PolicyMap {
 public:
  // Inserts a key and returns its index, 0, 1, ... Throws PolicyError: DuplicateKey, BadPattern, TooManyRules.
  size_t insert(const std::string& key, const Place& place);

  // Returns the index of the key for a name. Throws PolicyError "MultipleMatches" naming the layer and up to five of
  // the keys that match.
  std::optional<size_t> find(const std::string& name) const;

  // Returns every key that equals or matches the name, in order of insertion.
  std::vector<size_t> matches(const std::string& name) const;

  size_t size() const { return keys_.size(); }
  int64_t cost() const;  // work per character of a name, in instructions of all patterns together

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
  std::unordered_multimap<std::string, size_t> escaped_;  // index of a pattern that matches only one name, by that name
  std::vector<IndexedPattern> patterns_;
};

}  // namespace nacre::tools
