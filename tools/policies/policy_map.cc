#include "tools/policies/policy_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/nearest.h"

namespace nacre::tools {

size_t PolicyMap::insert(const std::string& key, const Place& place) {
  const auto taken = exact_.find(key);
  if (taken != exact_.end())
    place.refuse("DuplicateKey",
                 fmt::format("{} has a policy already, from {}", in_quotes(key), keys_[taken->second].place.text));
  if (keys_.size() == kMostRules) place.refuse("TooManyRules", fmt::format("more than {} rules", kMostRules));
  const size_t index = keys_.size();
  if (const std::optional<std::string> name = only_match(key); name && *name != key) {
    escaped_.emplace(*name, index);
  } else if (!name) {
    if (patterns_.size() == kMostPatterns)
      place.refuse("TooManyRules", fmt::format("more than {} patterns", kMostPatterns),
                   "name layers without wildcards");
    patterns_.push_back({index, Pattern(key, place)});
  }
  exact_.emplace(key, index);
  keys_.push_back({key, place});
  return index;
}

std::vector<size_t> PolicyMap::matches(const std::string& name) const {
  std::vector<size_t> hits;
  for (const IndexedPattern& p : patterns_)
    if (p.pattern.matches(name)) hits.push_back(p.key);
  const auto [first, last] = escaped_.equal_range(name);
  for (auto at = first; at != last; ++at) hits.push_back(at->second);
  const auto found = exact_.find(name);
  if (found != exact_.end() && std::ranges::find(hits, found->second) == hits.end()) hits.push_back(found->second);
  std::ranges::sort(hits);
  return hits;
}

std::optional<size_t> PolicyMap::find(const std::string& name) const {
  const auto found = exact_.find(name);
  if (found != exact_.end()) return found->second;
  const std::vector<size_t> hits = matches(name);
  if (hits.empty()) return std::nullopt;
  if (hits.size() == 1) return hits[0];
  std::vector<std::string> places;
  for (const size_t hit : hits)
    places.push_back(fmt::format("{} ({})", in_quotes(keys_[hit].text), keys_[hit].place.text));
  keys_[hits[0]].place.refuse(
      "MultipleMatches", fmt::format("layer {} matches {} rules: {}", in_quotes(name), hits.size(), listed(places)),
      "make them disjoint, or give the layer a rule with its exact name");
}

int64_t PolicyMap::cost() const {
  int64_t sum = 0;
  for (const IndexedPattern& p : patterns_) sum += p.pattern.cost();
  return sum;
}

}  // namespace nacre::tools
