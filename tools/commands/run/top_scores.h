// The classes with the highest scores of each sample, by the names that the model has for them.
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
  std::vector<std::vector<ScoredClass>> samples;  // the highest first, ties by their index; NaN is left out
};

struct NamedOutput {
  std::string name;
  StoredElements elements;
};

// Scores of the output that has as many numbers a sample as the model names classes; without class names, of the only
// output. `most`: how many scores of each sample; none: 5 where classes are named, else nothing. Throws Error where
// `most` is given and there are no scores.
std::optional<TopScores> top_scores(const LoadedModel& model, const std::vector<NamedOutput>& outputs, uint64_t samples,
                                    std::optional<uint64_t> most);

std::string top_text(const LoadedModel& model, const TopScores& top);  // a line a sample, of the first ten
Json top_json(const LoadedModel& model, const TopScores& top);

}  // namespace nacre::tools
