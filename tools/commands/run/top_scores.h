// Finds the classes with the highest scores of each sample, with the class names of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/base/json.h"
#include "tools/evaluate/decode.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct ScoredClass {
  size_t index;
  double score;
};

struct TopScores {
  std::string output;
  std::vector<std::vector<ScoredClass>> samples;  // highest first, equal ones by index; NaN is left out
};

struct NamedOutput {
  std::string name;
  StoredElements elements;
};

// Reads the scores of the output that has as many numbers per sample as the model names classes; without class names,
// of the only output. `most`: how many scores per sample; if not given, 5 if classes are named, else none. If no output
// fits, returns nothing, or throws Error if `most` is given.
std::optional<TopScores> top_scores(const LoadedModel& model, const std::vector<NamedOutput>& outputs, uint64_t samples,
                                    std::optional<uint64_t> most);

std::string top_text(const LoadedModel& model, const TopScores& top);  // a line per sample, for the first ten
Json top_json(const LoadedModel& model, const TopScores& top);

}  // namespace nacre::tools
