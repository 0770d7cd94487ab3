#include "tools/report/report_overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/model/program_cost.h"
#include "tools/report/confusion_table.h"
#include "tools/report/eval_table.h"
#include "tools/report/picture/style.h"
#include "tools/report/plots/scatter_plot.h"
#include "tools/report/report_layers.h"

namespace nacre::tools {
namespace {

Statistics statistics_of(const ReportedModel& model) {
  return statistics(model.program->loaded(), model.program->program());
}

// Returns "66.4 % smaller" or "as large".
std::string size_words(uint64_t bytes, uint64_t first) {
  if (bytes == first) return "as large";
  const double change = 100 * (double(bytes) / double(first) - 1);
  return fmt::format("{:.1f} % {}", std::abs(change), change < 0 ? "smaller" : "larger");
}

std::string score_words(const Judgement& j, const ReportedSet& set, const Judgement& first) {
  std::string words = fmt::format("{} {}", set.metric_name, value_text(set.metric, j.score.value));
  if (set.metric.counts()) words += fmt::format(" ({} of {})", j.score.right, j.score.total);
  if (&j == &first) return words;
  const int64_t lost = int64_t(first.score.right) - int64_t(j.score.right);
  if (!set.metric.counts()) return words + fmt::format(", drop {:.4g}", j.drop);
  return words + (lost == 0 ? ", no drop" : fmt::format(", {} {}", std::abs(lost), lost > 0 ? "fewer" : "more"));
}

// Returns the names of the layers that lose most, each once.
std::string worst_words(const ReportedModel& model, const ReportedModel& first) {
  constexpr size_t kMost = 3, kShown = 40;
  std::vector<std::string> parts, names;
  const Comparison& comparison = *model.against_first;
  for (const size_t i : worst_first(comparison)) {
    const std::string name = compared_name(*first.program, comparison.tensors[i]);
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    parts.push_back(fmt::format("{} ({})", shorten(name, kShown), decibel_text(comparison.tensors[i].error)));
    if (parts.size() == kMost) break;
  }
  if (parts.empty()) return "every layer's result equals the first's";
  return "loses most in " + fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::pair<std::string, std::string>> findings(const std::vector<ReportedModel>& models,
                                                          const ReportedSet& set) {
  std::vector<std::pair<std::string, std::string>> lines;
  const Statistics first = statistics_of(models.front());
  for (size_t i = 0; i < models.size(); ++i) {
    const ReportedModel& m = models[i];
    const Statistics s = statistics_of(m);
    std::string line;
    if (set.evaluation != nullptr)
      line += score_words(set.evaluation->models[i], set, set.evaluation->models.front()) + "; ";
    line += grouped(s.file_bytes) + " bytes";
    if (i > 0) line += ", " + size_words(s.file_bytes, first.file_bytes);
    if (m.profile != nullptr) line += fmt::format("; {:.1f} us a run with kernels {}", m.profile->us, m.by.text());
    if (m.against_first != nullptr) line += "; " + worst_words(m, models.front());
    if (const size_t count = fallbacks_of(m.program->loaded()).size(); count > 0)
      line += fmt::format("; {} in another type than {} policy says",
                          counted(count, "step") + (count == 1 ? " runs" : " run"), count == 1 ? "its" : "the");
    lines.emplace_back(m.name, line + ".");
  }
  return lines;
}

// Returns "with kernels avx2", or if models have different kernels, the kernels of each.
std::string kernels_words(const std::vector<RanBy>& models) {
  const auto same = [&](const RanBy& by) { return by == models.front(); };
  if (std::ranges::all_of(models, same)) return "with kernels " + models.front().text();
  std::vector<std::string> each;
  for (const RanBy& by : models) each.push_back(by.text());
  return fmt::format("with kernels {}, by model", fmt::join(each, ", "));
}

// Returns the kernels and threads with which the models were judged or compared; none if nothing was run.
std::vector<RanBy> ran_by(const std::vector<ReportedModel>& models, const ReportedSet& set) {
  std::vector<RanBy> all;
  if (set.evaluation != nullptr)
    for (const Judgement& j : set.evaluation->models) all.push_back(j.by);
  if (!all.empty()) return all;
  for (const ReportedModel& m : models) {
    if (m.against_first == nullptr) continue;
    if (all.empty()) all.push_back(m.against_first->by_a);
    all.push_back(m.against_first->by_b);
  }
  return all;
}

struct Plots {
  ScatterPlot bytes, times;  // times has no point if no model was timed
};

Plots plots_of(const std::vector<ReportedModel>& models, const ReportedSet& set) {
  ScatterPlot plot = {.label = fmt::format("{} over bytes of the file, by model", set.metric_name),
                      .x_name = "bytes of the file",
                      .y_name = set.metric_name,
                      .percent = set.metric.counts(),
                      .higher_is_better = set.metric.higher_is_better(),
                      .y_least = 0,
                      // shares and areas under curves are at most 1
                      .y_most = set.metric.higher_is_better() ? 1 : kUnbounded,
                      .points = {}};
  Plots plots = {plot, plot};
  plots.times.label = fmt::format("{} over the time of a run, by model", set.metric_name);
  plots.times.x_name = "microseconds of a run";
  for (size_t i = 0; i < models.size(); ++i) {
    const Judgement& j = set.evaluation->models[i];
    const std::string& name = models[i].name;
    const std::string score = fmt::format("{}: {} {}", name, set.metric_name, value_text(set.metric, j.score.value));
    plots.bytes.points.push_back({.name = name,
                                  .x = double(j.file_bytes),
                                  .y = j.score.value,
                                  .title = fmt::format("{}, {} bytes", score, grouped(j.file_bytes))});
    if (models[i].profile == nullptr) continue;
    const double us = models[i].profile->us;
    plots.times.points.push_back(
        {.name = name, .x = us, .y = j.score.value, .title = fmt::format("{}, {:.1f} us", score, us)});
  }
  return plots;
}

void add_points(Html& page, const Plots& plots) {
  page.raw("<div class=\"page-pair\">\n");
  page.figure(scatter_plot(plots.bytes),
              "Filled circles, joined by the line: no other model is as small and as good (the Pareto front). Squares: "
              "another model is at least as good in both");
  if (!plots.times.points.empty())
    page.figure(scatter_plot(plots.times), "The same by the time of a run on this machine");
  page.raw("</div>\n");
}

void add_models(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  std::vector<std::string> titles = {"model"};
  EvalCells evaluated;
  if (set.evaluation != nullptr) {
    evaluated = evaluation_cells(*set.evaluation, set.metric, set.metric_name);
    // Bytes follow below for all models, also without labels. Times are shown only with --profile.
    const auto end = std::ranges::find(evaluated.titles, "file bytes") - evaluated.titles.begin();
    titles.assign(evaluated.titles.begin(), evaluated.titles.begin() + end);
  }
  const size_t scores = titles.size();
  for (const char* title : {"file bytes", "weights", "arena", "steps", "multiply-accumulates", "fall-backs"})
    titles.emplace_back(title);
  const bool timed = std::ranges::any_of(models, [](const ReportedModel& m) { return m.profile != nullptr; });
  if (timed) titles.insert(titles.end(), {"us a run", "kernels"});
  std::vector<std::vector<bool>> fronts;  // marks in words the fronts that the plots show
  if (set.evaluation != nullptr && models.size() > 1) {
    const Plots plots = plots_of(models, set);
    fronts.push_back(pareto_points(plots.bytes));
    titles.emplace_back("on the front of bytes");
    if (timed) fronts.push_back(pareto_points(plots.times)), titles.emplace_back("of time");
  }
  std::vector<CellRow> rows;
  std::vector<std::string> names;
  for (const ReportedModel& m : models) names.push_back(m.name);
  const std::vector<Cell> cells = name_cells(names, 48);
  for (size_t i = 0; i < models.size(); ++i) {
    const Statistics s = statistics_of(models[i]);
    CellRow row = {cells[i]};
    for (size_t c = 1; c < scores; ++c) row.push_back({.text = evaluated.rows[i][c]});
    for (const uint64_t number : {s.file_bytes, s.weight_bytes, s.arena_bytes, uint64_t(s.steps),
                                  s.multiply_accumulates, uint64_t(fallbacks_of(models[i].program->loaded()).size())})
      row.push_back({.text = grouped(number)});
    if (timed)
      for (const std::string& text : {fmt::format("{:.1f}", models[i].profile->us), models[i].by.text()})
        row.push_back({.text = text});
    for (const std::vector<bool>& front : fronts) row.push_back({.text = front[i] ? "yes" : "no"});
    rows.push_back(std::move(row));
  }
  page.table(titles, rows, {.caption = "The models"});
}

void add_facts(Html& page, const ReportedModel& model) {
  const Statistics s = statistics_of(model);
  page.facts({{"file", grouped(s.file_bytes) + " bytes"},
              {"weights", grouped(s.weight_bytes) + " bytes"},
              {"arena", grouped(s.arena_bytes) + " bytes"},
              {"multiply-accumulates", grouped(s.multiply_accumulates)},
              {"layers", grouped(s.layers)},
              {"steps", grouped(s.steps)}});
}

}  // namespace

void add_overview(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  const bool one = models.size() == 1;
  page.open_section(one ? "The model" : "What stands out");
  if (one) add_facts(page, models.front());
  // A single model gets findings only if the facts do not contain them.
  if (!one || set.evaluation != nullptr || !fallbacks_of(models.front().program->loaded()).empty())
    page.named_list(findings(models, set));
  if (set.evaluation != nullptr && !one) add_points(page, plots_of(models, set));
  if (set.evaluation != nullptr) {
    page.paragraph(fmt::format("{}, judged {}{}.", counted(set.evaluation->samples, "sample"),
                               kernels_words(ran_by(models, set)), one ? "" : "; drops are against the first model"),
                   "page-note");
    page.list(set.evaluation->notes);
  } else if (const std::vector<RanBy> by = ran_by(models, set); !by.empty()) {
    page.paragraph(fmt::format("Compared {}.", kernels_words(by)), "page-note");
  }
  if (!set.calibrated.empty()) page.paragraph("Calibration: " + set.calibrated + ".", "page-note");
  if (!one) add_models(page, models, set);
  page.close_section();
}

namespace {

std::vector<std::string> names_of_classes(const ReportedModel& model) {
  const Model& file = model.program->loaded().model();
  std::vector<std::string> names;
  for (uint32_t i = 0; !file.label(i).empty(); ++i) names.emplace_back(file.label(i).data(), file.label(i).size());
  return names;
}

}  // namespace

void add_confusions(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  if (set.evaluation == nullptr || set.evaluation->models.front().confusion.classes == 0) return;
  page.open_section("What is taken for what");
  page.open_tabs("Confusion matrices by model");
  for (size_t i = 0; i < models.size(); ++i) {
    page.open_tab(models[i].name);
    add_confusion(page, set.evaluation->models[i].confusion, models[i].name, names_of_classes(models[i]));
    page.close_tab();
  }
  page.close_tabs();
  page.close_section();
}

}  // namespace nacre::tools
