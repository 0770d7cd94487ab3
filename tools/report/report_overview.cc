#include "tools/report/report_overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tools/base/format.h"
#include "tools/base/option_id.h"
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

// Returns "66.4 % smaller" or "same size".
std::string size_words(uint64_t bytes, uint64_t first) {
  if (bytes == first) return "same size";
  const double change = 100 * (double(bytes) / double(first) - 1);
  return fmt::format("{:.1f} % {}", std::abs(change), change < 0 ? "smaller" : "larger");
}

// Returns the metric's name for readers: "top-1 accuracy", "AUC".
std::string metric_title(const ReportedSet& set) {
  const std::string& name = set.metric_name;
  if (name.starts_with("top")) return fmt::format("top-{} accuracy", name.substr(3));
  if (name == "auc" || name == "mse" || name == "mae") return name == "auc" ? "AUC" : name == "mse" ? "MSE" : "MAE";
  return name;
}

struct Latency {
  double us;
  RanBy by;
  const char* per;  // "run" if profiled, else "sample": the median over the samples of the evaluation
};

// Returns nothing if the model was neither profiled nor evaluated, or the page leaves latency out.
std::optional<Latency> latency_of(const std::vector<ReportedModel>& models, const ReportedSet& set, size_t i) {
  if (models[i].profile != nullptr) return Latency{models[i].profile->us, models[i].by, "run"};
  if (set.evaluation == nullptr || set.leaves_latency_out) return std::nullopt;
  const Judgement& j = set.evaluation->models[i];
  return Latency{j.median_us, j.by, "sample"};
}

// Returns "avx2, 1 thread".
std::string kernels_and_threads(const RanBy& by) {
  return fmt::format("{}, {}", by.kernels, counted(uint64_t(by.threads), "thread"));
}

std::string score_words(const Judgement& j, const ReportedSet& set, const Judgement& first) {
  std::string words = fmt::format("{} {}", metric_title(set), value_text(set.metric, j.score.value));
  if (set.metric.counts()) words += fmt::format(" ({} of {} correct)", j.score.right, j.score.total);
  if (&j == &first) return words;
  const int64_t lost = int64_t(first.score.right) - int64_t(j.score.right);
  if (!set.metric.counts()) return words + fmt::format(", drop {:.4g}", j.drop);
  return words +
         (lost == 0 ? ", no drop" : fmt::format(", {} {} correct", std::abs(lost), lost > 0 ? "fewer" : "more"));
}

// Returns the layers with the lowest SQNR, each once.
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
  if (parts.empty()) return "every layer's output equals the reference's";
  return "lowest SQNR in " + fmt::format("{}", fmt::join(parts, ", "));
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
    if (const std::optional<Latency> l = latency_of(models, set, i))
      line += fmt::format("; latency {:.1f} us per {} with kernels {}", l->us, l->per, l->by.text());
    if (m.against_first != nullptr) line += "; " + worst_words(m, models.front());
    if (const size_t count = fallbacks_of(m.program->loaded()).size(); count > 0)
      line += "; " + counted(count, "precision fallback");
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
  ScatterPlot bytes, times;  // times has no point if the page has no latency
};

Plots plots_of(const std::vector<ReportedModel>& models, const ReportedSet& set) {
  ScatterPlot plot = {.label = fmt::format("{} against file size, by model", metric_title(set)),
                      .x_name = "file size, bytes",
                      .y_name = metric_title(set),
                      .percent = set.metric.counts(),
                      .higher_is_better = set.metric.higher_is_better(),
                      .y_least = 0,
                      // shares and areas under curves are at most 1
                      .y_most = set.metric.higher_is_better() ? 1 : kUnbounded,
                      .points = {}};
  Plots plots = {plot, plot};
  plots.times.label = fmt::format("{} against latency, by model", metric_title(set));
  for (size_t i = 0; i < models.size(); ++i) {
    const Judgement& j = set.evaluation->models[i];
    const std::string& name = models[i].name;
    const std::string score = fmt::format("{}: {} {}", name, metric_title(set), value_text(set.metric, j.score.value));
    plots.bytes.points.push_back({.name = name,
                                  .x = double(j.file_bytes),
                                  .y = j.score.value,
                                  .title = fmt::format("{}, {} bytes", score, grouped(j.file_bytes))});
    const std::optional<Latency> l = latency_of(models, set, i);
    if (!l) continue;
    plots.times.x_name = fmt::format("latency, us per {}", l->per);
    plots.times.points.push_back(
        {.name = name, .x = l->us, .y = j.score.value, .title = fmt::format("{}, {:.1f} us", score, l->us)});
  }
  return plots;
}

void add_points(Html& page, const Plots& plots) {
  page.open_flow();
  page.figure(scatter_plot(plots.bytes),
              fmt::format("Trade-off of {} and file size. Filled circles, joined by the line, are the Pareto front: no "
                          "other model is as small and as good. Squares are models that another model dominates",
                          plots.bytes.y_name));
  if (!plots.times.points.empty())
    page.figure(scatter_plot(plots.times),
                fmt::format("Trade-off of {} and latency on this machine, with its Pareto front", plots.times.y_name));
  page.close_flow();
}

// Returns "size, latency": the plots in which a model is on the Pareto front, or "-".
std::string fronts_text(bool of_bytes, bool of_times) {
  if (of_bytes && of_times) return "size, latency";
  return of_bytes ? "size" : of_times ? "latency" : "-";
}

void add_models(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  std::vector<std::string> titles = {"model"}, names;
  EvalCells evaluated;
  if (set.evaluation != nullptr) {
    evaluated = evaluation_cells(*set.evaluation, set.metric, metric_title(set));
    // Bytes follow below for all models, also without labels.
    const auto end = std::ranges::find(evaluated.titles, "file bytes") - evaluated.titles.begin();
    titles.assign(evaluated.titles.begin(), evaluated.titles.begin() + end);
    std::ranges::replace(titles, std::string("right"), std::string("correct"));
  }
  const size_t scores = titles.size();
  for (const char* title : {"file bytes", "weight bytes", "arena bytes"}) titles.emplace_back(title);
  if (const std::optional<Latency> l = latency_of(models, set, 0))
    titles.insert(titles.end(), {fmt::format("latency, us per {}", l->per), "kernels, threads"});
  for (const char* title : {"MACs", "steps", "fallbacks"}) titles.emplace_back(title);
  std::vector<bool> small, fast;  // repeats in words the fronts that the plots show
  if (set.evaluation != nullptr) {
    const Plots plots = plots_of(models, set);
    small = pareto_points(plots.bytes), fast = pareto_points(plots.times);
    titles.emplace_back("Pareto front of");
  }
  std::vector<CellRow> rows;
  for (const ReportedModel& m : models) names.push_back(m.name);
  const std::vector<Cell> cells = name_cells(names, 48);
  for (size_t i = 0; i < models.size(); ++i) {
    const Statistics s = statistics_of(models[i]);
    CellRow row = {cells[i]};
    const auto add = [&](const std::string& text) { row.push_back({.text = text}); };
    for (size_t c = 1; c < scores; ++c) add(evaluated.rows[i][c]);
    for (const uint64_t bytes : {s.file_bytes, s.weight_bytes, s.arena_bytes}) add(grouped(bytes));
    if (const std::optional<Latency> l = latency_of(models, set, i))
      add(fmt::format("{:.1f}", l->us)), add(kernels_and_threads(l->by));
    add(grouped(s.multiply_accumulates)), add(grouped(s.steps));
    add(grouped(fallbacks_of(models[i].program->loaded()).size()));
    if (!small.empty()) add(fronts_text(small[i], !fast.empty() && fast[i]));
    rows.push_back(std::move(row));
  }
  page.table(titles, rows, {.caption = "Models. The first is the reference; the arena holds all activations"});
}

void add_facts(Html& page, const ReportedModel& model, const ReportedSet& set) {
  const Statistics s = statistics_of(model);
  std::vector<std::pair<std::string, std::string>> facts;
  if (set.evaluation != nullptr)
    facts.emplace_back(metric_title(set), value_text(set.metric, set.evaluation->models.front().score.value));
  if (const std::optional<Latency> l = latency_of({model}, set, 0)) {
    facts.emplace_back(fmt::format("latency per {}", l->per), fmt::format("{:.1f} us", l->us));
    facts.emplace_back("kernels, threads", kernels_and_threads(l->by));
  }
  facts.insert(facts.end(), {{"file", grouped(s.file_bytes) + " bytes"},
                             {"weights", grouped(s.weight_bytes) + " bytes"},
                             {"arena (activations)", grouped(s.arena_bytes) + " bytes"},
                             {"MACs", grouped(s.multiply_accumulates)},
                             {"layers", grouped(s.layers)},
                             {"steps (kernel calls)", grouped(s.steps)}});
  page.facts(facts);
}

// Adds the samples, the kernels and the sources of the numbers.
void add_conditions(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  const bool one = models.size() == 1;
  if (set.evaluation != nullptr) {
    page.paragraph(fmt::format("{}, evaluated {}{}.", counted(set.evaluation->samples, "sample"),
                               kernels_words(ran_by(models, set)), one ? "" : "; drops are against the reference"),
                   "page-note");
    page.list(set.evaluation->notes);
  } else if (const std::vector<RanBy> by = ran_by(models, set); !by.empty()) {
    page.paragraph(fmt::format("Compared {}.", kernels_words(by)), "page-note");
  }
  if (!latency_of(models, set, 0))
    page.paragraph(set.leaves_latency_out
                       ? "This page leaves latency out."
                       : "Latency was not measured: nacre report measures it with labels or " + option("profile") + ".",
                   "page-note");
  if (!set.calibrated.empty()) page.paragraph("Calibration: " + set.calibrated + ".", "page-note");
}

}  // namespace

void add_overview(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set) {
  const bool one = models.size() == 1;
  page.open_section("Summary");
  if (one) add_facts(page, models.front(), set);
  else add_models(page, models, set);
  if (set.evaluation != nullptr && !one) add_points(page, plots_of(models, set));
  // A single model gets findings only if the facts do not contain them.
  if (!one || set.evaluation != nullptr || !fallbacks_of(models.front().program->loaded()).empty())
    page.named_list(findings(models, set));
  add_conditions(page, models, set);
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
  page.open_section("Confusion matrix");
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
