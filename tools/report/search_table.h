// Writes the result of a search as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/base/print.h"
#include "tools/evaluate/metrics.h"
#include "tools/evaluate/policy_search.h"

namespace nacre::tools {

struct SearchWords {  // names for the indices in the result
  std::vector<std::string> layers, policies;
  Metric metric;
  std::string metric_name;
  uint64_t samples = 0;
};

// Returns the Pareto front of the measured maps, smallest file first: predicted and measured. The proposed map is
// marked.
std::string search_text(const SearchResult& result, const SearchWords& words);

// Returns a table of each policy in each layer alone: drop of the metric, and bytes added to the file (below 0: saved).
std::string sensitivity_text(const SearchResult& result, const SearchWords& words);

Json search_json(const SearchResult& result, const SearchWords& words);

// Returns the policies' names for tables, without "_from_S" if they still differ.
std::vector<std::string> short_names(const std::vector<std::string>& policies);

// Returns "3 int8/weights, 2 float32": how often each policy occurs in a choice, the most frequent first.
std::string choice_text(const PolicyChoice& choice, const SearchWords& words);

}  // namespace nacre::tools
