#include "tools/calibration/method_rules.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/policies/pattern.h"

namespace nacre::tools {
namespace {

std::string rule_text(const std::pair<std::string, RangeMethod>& rule) {
  return fmt::format("{range} '{}={}'", rule.first, name_of(rule.second), fmt::arg("range", option("range")));
}

}  // namespace

MethodRules::MethodRules(const Graph& graph, const CalibrationOptions& options) : options_(options) {
  for (const auto& rule : options.overrides) {
    RE2::Options quiet;
    quiet.set_log_errors(false);
    patterns_.push_back(std::make_unique<RE2>(rule.first, quiet));
    const size_t i = patterns_.size() - 1;
    const bool exact = std::ranges::any_of(graph.layers, [&](const Layer& l) { return l.name == rule.first; }) ||
                       std::ranges::any_of(graph.inputs, [&](const Binding& b) { return b.name == rule.first; });
    if (exact) continue;
    require_pattern(rule.first, {rule_text(rule)});
    const bool any = std::ranges::any_of(graph.layers, [&](const Layer& l) { return matches(i, l.name); }) ||
                     std::ranges::any_of(graph.inputs, [&](const Binding& b) { return matches(i, b.name); });
    if (!any)
      throw Error(kUsage, rule_text(rule), "matches no layer and no input of the network",
                  "a pattern must match the whole name");
  }
}

MethodRules::~MethodRules() = default;

bool MethodRules::matches(size_t rule, const std::string& name) const {
  return patterns_[rule]->ok() && RE2::FullMatch(name, *patterns_[rule]);
}

RangeMethod MethodRules::method(const std::string& name) const {
  const auto exact = std::ranges::find(options_.overrides, name, &std::pair<std::string, RangeMethod>::first);
  if (exact != options_.overrides.end()) return exact->second;
  std::optional<size_t> hit;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!matches(i, name)) continue;
    if (hit && options_.overrides[*hit].second != options_.overrides[i].second)
      throw Error(
          kUsage, name,
          fmt::format("{} and {} both match", rule_text(options_.overrides[*hit]), rule_text(options_.overrides[i])),
          "make one of them narrower");
    hit = i;
  }
  return hit ? options_.overrides[*hit].second : options_.method;
}

}  // namespace nacre::tools
