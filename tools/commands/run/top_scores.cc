#include "tools/commands/run/top_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/base/error.h"
#include "tools/base/format.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kUsual = 5;
constexpr size_t kShownSamples = 10;

size_t class_count(const LoadedModel& model) {
  uint32_t count = 0;
  while (!model.model().label(count).empty()) ++count;
  return count;
}

size_t elements_of(const NamedOutput& output) {
  size_t count = 1;
  for (const int64_t d : output.elements.dims) count *= size_t(d);
  return count;
}

std::vector<ScoredClass> highest(const std::vector<double>& scores, size_t first, size_t width, size_t most) {
  std::vector<ScoredClass> all;
  for (size_t i = 0; i < width; ++i)
    if (!std::isnan(scores[first + i])) all.push_back({i, scores[first + i]});
  std::ranges::stable_sort(all, std::ranges::greater(), &ScoredClass::score);
  all.resize(std::min(most, all.size()));
  return all;
}

std::string class_name(const LoadedModel& model, size_t index) {
  const std::span<const char> label = model.model().label(uint32_t(index));
  return label.empty() ? fmt::format("class {}", index) : escaped({label.data(), label.size()});
}

}  // namespace

std::optional<TopScores> top_scores(const LoadedModel& model, const std::vector<NamedOutput>& outputs, uint64_t samples,
                                    std::optional<uint64_t> most) {
  const size_t classes = class_count(model);
  const uint64_t shown = most.value_or(classes != 0 ? kUsual : 0);
  if (shown == 0 || samples == 0) return std::nullopt;
  const auto found = classes != 0          ? std::ranges::find(outputs, classes * samples, elements_of)
                     : outputs.size() == 1 ? outputs.begin()
                                           : outputs.end();
  if (found == outputs.end()) {
    if (!most) return std::nullopt;
    throw Error(kUsage, "--top", "no output of the model holds scores of its classes",
                "leave it out, or name the classes with nacre convert --labels FILE");
  }
  const std::vector<double> scores = decode(found->elements);
  const size_t width = scores.size() / samples;
  TopScores top = {found->name, {}};
  for (uint64_t i = 0; i < samples; ++i) top.samples.push_back(highest(scores, i * width, width, shown));
  return top;
}

std::string top_text(const LoadedModel& model, const TopScores& top) {
  std::string text;
  for (size_t i = 0; i < std::min(kShownSamples, top.samples.size()); ++i) {
    std::string line;
    for (const ScoredClass& s : top.samples[i])
      line += fmt::format("{}{} {:.4g}", line.empty() ? "" : ", ", class_name(model, s.index), s.score);
    text += top.samples.size() == 1 ? fmt::format("    {}\n", line) : fmt::format("    sample {}: {}\n", i, line);
  }
  if (top.samples.size() > kShownSamples)
    text += fmt::format("    and {} more (--json)\n", counted(top.samples.size() - kShownSamples, "sample"));
  return text;
}

Json top_json(const LoadedModel& model, const TopScores& top) {
  Json samples = Json::array();
  for (const std::vector<ScoredClass>& sample : top.samples) {
    Json list = Json::array();
    for (const ScoredClass& s : sample)
      list.push_back({{"class", s.index}, {"name", class_name(model, s.index)}, {"score", s.score}});
    samples.push_back(std::move(list));
  }
  return {{"output", top.output}, {"samples", samples}};
}

}  // namespace nacre::tools
