// Result of a search, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "tools/base/print.h"
#include "tools/evaluate/metrics.h"
#include "tools/evaluate/policy_search.h"

namespace nacre::tools {

struct SearchWords {  // names of what the result counts by index
  std::vector<std::string> layers, policies;
  Metric metric;
  std::string metric_name;
  uint64_t samples = 0;
};

// The front of what was measured, smallest file first: predicted and measured; the map that is proposed is marked.
std::string search_text(const SearchResult& result, const SearchWords& words);

// Costs of each policy for each layer alone: drop of the metric, and bytes saved.
std::string sensitivity_text(const SearchResult& result, const SearchWords& words);

Json search_json(const SearchResult& result, const SearchWords& words);

// Names for tables: without "_from_S" where they differ all the same.
std::vector<std::string> short_names(const std::vector<std::string>& policies);

// "3 int8/weights, 2 float32": how often each policy stands in a choice, the most frequent first.
std::string choice_text(const PolicyChoice& choice, const SearchWords& words);

}  // namespace nacre::tools
