#include "tools/report/search_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/evaluate/evaluation.h"

namespace nacre::tools {
namespace {

// Returns the drop of a counting metric in samples, and of any other in units of the metric.
std::string drop_text(double drop, const SearchWords& words) {
  if (!std::isfinite(drop)) return "-";
  if (!words.metric.counts()) return fmt::format("{:.4g}", drop == 0 ? 0.0 : drop);
  return fmt::format("{:.0f} of {}", drop * double(words.samples) + 0.0, words.samples);
}

// Returns the metric with its usual sign: searches maximise, so an error was negated.
double plain(double metric, const SearchWords& words) { return words.metric.higher_is_better() ? metric : -metric; }

Json trial_json(const Trial& t, double drop, const SearchWords& words) {
  return {{"bytes", finite_or_null(t.bytes)},
          {words.metric_name, finite_or_null(plain(t.metric, words))},
          {"drop", finite_or_null(drop)},
          {"damage", finite_or_null(t.damage)},
          {"microseconds", finite_or_null(t.microseconds)}};
}

Json map_json(const PolicyChoice& choice, const SearchWords& words) {
  Json map = Json::object();
  for (size_t layer = 0; layer < choice.size(); ++layer)
    map[words.layers[layer]] = words.policies[size_t(choice[layer])];
  return map;
}

}  // namespace

std::vector<std::string> short_names(const std::vector<std::string>& policies) {
  std::vector<std::string> names;
  for (const std::string& policy : policies) names.push_back(policy.substr(0, policy.find("_from_")));
  for (size_t i = 0; i < names.size(); ++i)
    if (std::ranges::count(names, names[i]) > 1) return policies;
  return names;
}

std::string choice_text(const PolicyChoice& choice, const SearchWords& words) {
  const std::vector<std::string> names = short_names(words.policies);
  std::vector<std::pair<int, int>> counts;  // -count, policy
  for (int policy = 0; policy < int(words.policies.size()); ++policy)
    if (const auto count = std::ranges::count(choice, policy); count > 0) counts.emplace_back(-int(count), policy);
  std::ranges::sort(counts);
  if (counts.size() == 1) return names[size_t(counts[0].second)] + " everywhere";
  std::string text;
  for (const auto& [negative, policy] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -negative, names[size_t(policy)]);
  return text;
}

std::string search_text(const SearchResult& result, const SearchWords& words) {
  Table table({{"", Align::kLeft},
               {"file bytes", Align::kRight},
               {"predicted", Align::kRight},
               {words.metric_name, Align::kRight},
               {"drop", Align::kRight},
               {"predicted", Align::kRight},
               {"damage", Align::kRight},
               {"predicted", Align::kRight},
               {"us/sample", Align::kRight},
               {"layers", Align::kLeft, 24}});
  for (const size_t i : pareto_front(result.rows)) {
    const SearchRow& row = result.rows[i];
    const bool known = std::isfinite(row.predicted.bytes);
    table.add({result.best == i ? "*"
               : row.meets      ? "+"
                                : " ",
               grouped(uint64_t(row.measured.bytes)), known ? grouped(uint64_t(row.predicted.bytes)) : "-",
               value_text(words.metric, plain(row.measured.metric, words)), drop_text(row.measured_drop, words),
               drop_text(row.predicted_drop, words), fmt::format("{:.3g}", row.measured.damage),
               known ? fmt::format("{:.3g}", row.predicted.damage) : "-",
               fmt::format("{:.1f}", row.measured.microseconds), choice_text(row.choice, words)});
  }
  return table.text(terminal_width());
}

std::string sensitivity_text(const SearchResult& result, const SearchWords& words) {
  const std::vector<std::string> names = short_names(words.policies);
  std::vector<Column> columns = {{"layer alone", Align::kLeft, 12, true}};
  for (size_t policy = 1; policy < words.policies.size(); ++policy) columns.push_back({names[policy], Align::kRight});
  Table table(std::move(columns));
  for (size_t layer = 0; layer < words.layers.size(); ++layer) {
    std::vector<std::string> cells = {words.layers[layer]};
    for (size_t policy = 1; policy < words.policies.size(); ++policy) {
      const std::optional<Trial>& t = result.alone[layer][policy];
      cells.push_back(t ? fmt::format("{} {:+.0f} {:.2g}", drop_text(result.base.metric - t->metric, words),
                                      t->bytes - result.base.bytes, t->damage)
                        : "-");
    }
    table.add(std::move(cells));
  }
  return table.text(terminal_width());
}

Json search_json(const SearchResult& result, const SearchWords& words) {
  const std::vector<size_t> front = pareto_front(result.rows);
  Json rows = Json::array(), alone = Json::array();
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const SearchRow& row = result.rows[i];
    rows.push_back({{"map", map_json(row.choice, words)},
                    {"measured", trial_json(row.measured, row.measured_drop, words)},
                    {"predicted", trial_json(row.predicted, row.predicted_drop, words)},
                    {"meets_limits", row.meets},
                    {"pareto", std::ranges::find(front, i) != front.end()},
                    {"proposed", result.best == i}});
  }
  for (size_t layer = 0; layer < words.layers.size(); ++layer)
    for (size_t policy = 0; policy < words.policies.size(); ++policy)
      if (const std::optional<Trial>& t = result.alone[layer][policy])
        alone.push_back({{"layer", words.layers[layer]},
                         {"policy", words.policies[policy]},
                         {"measured", trial_json(*t, result.base.metric - t->metric, words)}});
  return {{"metric", words.metric_name},
          {"samples", words.samples},
          {"measurements", result.measurements},
          {"reference", trial_json(result.base, 0, words)},
          {"sensitivity", alone},
          {"rows", rows}};
}

}  // namespace nacre::tools
