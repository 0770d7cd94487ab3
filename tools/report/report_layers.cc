#include "tools/report/report_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {

std::string decibel_text(const ErrorMeasure& e) {
  if (e.equal()) return "equal";
  return e.not_finite() > 0 ? "not finite" : fmt::format("{:.1f} dB", e.sqnr_db());
}

std::string compared_name(const ProgramReport& program, const ComparedTensor& t) {
  const uint32_t layer = program.steps()[t.step].layer;
  return layer == kNoIndex ? program.loaded().tensor_name(t.a) : program.layers()[layer].name;
}

std::vector<size_t> worst_first(const Comparison& comparison) {
  std::vector<size_t> order;
  for (size_t i = 0; i < comparison.tensors.size(); ++i)
    if (!comparison.tensors[i].error.equal()) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const ErrorMeasure& e = comparison.tensors[i].error;
    return e.not_finite() > 0 ? -kInfinity : e.sqnr_db();
  });
  return order;
}

double full_bar_decibels(const Comparison& comparison) {
  double most = 0;
  for (const ComparedTensor& t : comparison.tensors)
    if (!t.error.equal() && t.error.not_finite() == 0 && std::isfinite(t.error.sqnr_db()))
      most = std::max(most, t.error.sqnr_db());
  return std::clamp(std::ceil(most / 20) * 20, 40.0, 160.0);
}

namespace {

void add_outputs(Html& page, const ReportedModel& first, const ReportedModel& model) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedOutput& o : model.against_first->outputs)
    rows.push_back({first.program->names().outputs[o.a], decibel_text(o.error),
                    fmt::format("{:.4g}", o.error.largest()), fmt::format("{:.4g}", o.error.relative()),
                    fmt::format("{:.6f}", o.error.cosine()),
                    o.rows == 0 ? "-" : fmt::format("{} of {}", o.same_best, o.rows)});
  page.table({"output", "SQNR", "max abs error", "max relative error", "cosine similarity", "same argmax"}, rows);
}

void add_layer_errors(Html& page, const ReportedModel& first, const ReportedModel& model) {
  const ProgramReport &a = *first.program, &b = *model.program;
  const Comparison& comparison = *model.against_first;
  std::vector<std::string> names;
  for (const ComparedTensor& t : comparison.tensors) names.push_back(compared_name(a, t));
  const std::vector<Cell> cells = name_cells(names);
  std::vector<size_t> order = worst_first(comparison);
  const size_t different = order.size();
  for (size_t i = 0; i < comparison.tensors.size(); ++i)
    if (comparison.tensors[i].error.equal()) order.push_back(i);
  const double full = full_bar_decibels(comparison);
  std::vector<CellRow> rows;
  for (const size_t i : order) {
    const ComparedTensor& t = comparison.tensors[i];
    const ErrorMeasure& e = t.error;
    const uint32_t layer = b.steps()[t.step_b].layer;
    const double bar = e.equal() ? 1 : e.not_finite() > 0 ? 0 : e.sqnr_db() / full;
    rows.push_back({cells[i],
                    {.text = std::to_string(t.step)},
                    {.text = a.steps()[t.step].op_name},
                    {.text = layer == kNoIndex ? "-" : policy_name(b.layers()[layer].policy)},
                    {.text = decibel_text(e), .bar = bar},
                    {.text = fmt::format("{:.4g}", e.largest())},
                    {.text = fmt::format("{:.4g}", e.relative())},
                    {.text = fmt::format("{:.6f}", e.cosine())},
                    {.text = fmt::format("{:.3f} %", 100 * t.saturated_share())}});
  }
  page.table({"layer", "step", "op", "policy", "SQNR", "max abs error", "max relative error", "cosine similarity",
              "saturated"},
             rows,
             {.numbers_from = 4,
              .caption = fmt::format("{} against {}: {} of {} layer outputs differ, lowest SQNR first", model.name,
                                     first.name, different, comparison.tensors.size())});
  page.paragraph(
      fmt::format(
          "SQNR, the signal-to-quantization-noise ratio, is 10 log10(sum a^2 / sum (a - b)^2), with a from the "
          "reference {}. A full bar is {:.0f} dB, and 6 dB are about one bit. The max relative error is the max "
          "abs error divided by the reference's max magnitude. Saturated values are at the type's limits.",
          first.name, full),
      "page-note");
}

// Adds the SQNR of every layer's result under every model, which shows the layers in which several models lose.
void add_errors_side_by_side(Html& page, const std::vector<ReportedModel>& models) {
  if (models.size() < 3) return;
  const ReportedModel& first = models.front();
  std::vector<std::string> titles = {"layer"}, names;
  std::vector<std::vector<std::string>> columns;
  std::map<uint32_t, size_t> rows_of;  // by tensor of the first
  for (const ReportedModel& model : models) {
    if (model.against_first == nullptr) continue;
    for (const ComparedTensor& t : model.against_first->tensors)
      if (rows_of.emplace(t.a, names.size()).second) names.push_back(compared_name(*first.program, t));
  }
  for (const ReportedModel& model : models) {
    if (model.against_first == nullptr) continue;
    titles.push_back(model.name);
    columns.emplace_back(names.size(), "-");
    for (const ComparedTensor& t : model.against_first->tensors)
      columns.back()[rows_of.at(t.a)] = decibel_text(t.error);
  }
  std::vector<CellRow> rows;
  const std::vector<Cell> cells = name_cells(names);
  for (size_t i = 0; i < names.size(); ++i) {
    rows.push_back({cells[i]});
    for (const std::vector<std::string>& column : columns) rows.back().push_back({.text = column[i]});
  }
  page.table(titles, rows, {.caption = fmt::format("SQNR by layer and model; {} is the reference", first.name)});
}

}  // namespace

void add_errors(Html& page, const std::vector<ReportedModel>& models) {
  if (std::ranges::none_of(models, [](const ReportedModel& m) { return m.against_first != nullptr; })) return;
  page.open_section("Quantization error by layer");
  add_errors_side_by_side(page, models);
  page.open_tabs("Models compared with the reference");
  for (const ReportedModel& model : models) {
    if (model.against_first == nullptr) continue;
    page.open_tab(model.name);
    page.list(model.against_first->notes);
    add_outputs(page, models.front(), model);
    add_layer_errors(page, models.front(), model);
    page.close_tab();
  }
  page.close_tabs();
  page.close_section();
}

namespace {

// Returns the sum over the steps of a layer.
double sum_of(const ReportLayer& layer, const Profile& profile, double StepProfile::*time) {
  double us = 0;
  for (const uint32_t step : layer.steps) us += profile.steps[step].*time;
  return us;
}

double sum_of_steps(const Profile& profile) {
  double us = 0;
  for (const StepProfile& step : profile.steps) us += step.us;
  return us;
}

// Returns the kernels that ran the layer's steps, each once.
std::string kernels_of(const ReportLayer& layer, const Profile& profile) {
  std::vector<std::string> names;
  for (const uint32_t step : layer.steps)
    if (std::ranges::find(names, profile.steps[step].kernel) == names.end())
      names.push_back(profile.steps[step].kernel);
  return fmt::format("{}", fmt::join(names, ", "));
}

Cell share_cell(double us, double whole) {
  const double share = whole > 0 ? us / whole : 0;
  return {.text = fmt::format("{:.1f} %", 100 * share), .bar = share};
}

void add_policy_times(Html& page, const std::vector<ReportedModel>& models) {
  struct Sum {
    double us = 0;
    size_t layers = 0;
    uint64_t macs = 0;
  };
  std::vector<CellRow> rows;
  std::vector<double> times;  // by row
  for (const ReportedModel& model : models) {
    std::map<std::string, Sum> policies;
    for (const ReportLayer& layer : model.program->layers()) {
      if (layer.steps.empty()) continue;
      Sum& sum = policies[policy_name(layer.policy)];
      sum.us += sum_of(layer, *model.profile, &StepProfile::us);
      sum.macs += layer.multiply_accumulates;
      ++sum.layers;
    }
    const double whole = sum_of_steps(*model.profile);
    for (const auto& [policy, sum] : policies) {
      times.push_back(sum.us);
      rows.push_back({{.text = model.name},
                      {.text = policy},
                      {.text = std::to_string(sum.layers)},
                      {.text = grouped(sum.macs)},
                      {.text = fmt::format("{:.2f}", sum.us)},
                      {.text = fmt::format("{:.1f} %", whole > 0 ? 100 * sum.us / whole : 0)}});
    }
  }
  const double most = times.empty() ? 0 : *std::ranges::max_element(times);
  for (size_t i = 0; i < rows.size() && most > 0; ++i) rows[i][4].bar = times[i] / most;
  page.table({"model", "policy", "layers", "MACs", "latency, us", "share of model"}, rows,
             {.numbers_from = 2, .caption = "Latency by policy"});
}

void add_layer_times(Html& page, const ReportedModel& model) {
  const Profile& profile = *model.profile;
  const double sum = sum_of_steps(profile);
  std::vector<std::string> names;
  for (const ReportLayer& layer : model.program->layers()) names.push_back(layer.name);
  const std::vector<Cell> cells = name_cells(names);
  std::vector<CellRow> rows;
  for (size_t i = 0; i < cells.size(); ++i) {
    const ReportLayer& layer = model.program->layers()[i];
    if (layer.steps.empty()) continue;
    const double us = sum_of(layer, profile, &StepProfile::us), least = sum_of(layer, profile, &StepProfile::least_us),
                 macs = double(layer.multiply_accumulates);
    rows.push_back({cells[i],
                    {.text = layer.source_op},
                    {.text = policy_name(layer.policy)},
                    {.text = kernels_of(layer, profile)},
                    {.text = fmt::format("{:.2f}", us)},
                    share_cell(us, sum),
                    {.text = macs > 0 && us > 0 ? fmt::format("{:.1f}", macs / us / 1000) : "-"},
                    {.text = least > 0 && us > 0 ? fmt::format("{:.0f} %", 100 * least / us) : "-"}});
  }
  page.table({"layer", "op", "policy", "kernels", "latency, us", "share of run", "GMAC/s", "of roofline"}, rows,
             {.numbers_from = 4, .caption = "Latency by layer, in execution order"});
}

// Adds a table of times by the layers' names in the first model, with a column for each timed model.
void add_times_side_by_side(Html& page, const std::vector<ReportedModel>& models) {
  std::vector<std::string> titles = {"layer"}, names;
  std::vector<std::map<std::string, double>> columns;
  for (const ReportLayer& layer : models.front().program->layers())
    if (std::ranges::find(names, layer.name) == names.end()) names.push_back(layer.name);
  for (const ReportedModel& model : models) {
    titles.push_back(model.name);
    columns.emplace_back();
    for (const ReportLayer& layer : model.program->layers())
      if (!layer.steps.empty()) columns.back()[layer.name] += sum_of(layer, *model.profile, &StepProfile::us);
  }
  std::vector<CellRow> rows;
  const std::vector<Cell> cells = name_cells(names);
  for (size_t i = 0; i < names.size(); ++i) {
    CellRow row = {cells[i]};
    bool any = false;
    for (const auto& column : columns) {
      const auto found = column.find(names[i]);
      any = any || found != column.end();
      row.push_back({.text = found == column.end() ? "-" : fmt::format("{:.2f}", found->second)});
    }
    if (any) rows.push_back(std::move(row));
  }
  page.table(titles, rows, {.caption = "Latency by layer and model, us"});
}

}  // namespace

void add_times(Html& page, const std::vector<ReportedModel>& models) {
  if (std::ranges::any_of(models, [](const ReportedModel& m) { return m.profile == nullptr; })) return;
  page.open_section("Latency by layer");
  page.open_flow();
  page.open_part();
  add_policy_times(page, models);
  page.close_part();
  if (models.size() > 1) {
    page.open_part();
    add_times_side_by_side(page, models);
    page.close_part();
  }
  page.close_flow();
  page.open_tabs("Models that were timed");
  for (const ReportedModel& model : models) {
    const Profile& profile = *model.profile;
    page.open_tab(model.name);
    const std::string of_layers =
        profile.gpu_us > 0
            ? fmt::format(
                  "The run as one CUDA graph takes {:.2f} us by the GPU's clock, without copies. A layer's latency is "
                  "the sum of its steps, launched one by one, each with its launch latency.",
                  profile.gpu_us)
            : "A layer's latency is the sum of its steps, timed one by one, with the overhead of the clock. The "
              "roofline is the least time for the layer's MACs at peak rate or for reading its bytes.";
    page.paragraph(
        fmt::format("Median of {}: {:.2f} us, with {} kernels on {} of this machine, on seeded random inputs. {}",
                    counted(profile.runs, "run"), profile.us, model.by.kernels,
                    model.by.threads == 1 ? "one thread" : counted(uint64_t(model.by.threads), "thread"), of_layers));
    add_layer_times(page, model);
    page.close_tab();
  }
  page.close_tabs();
  page.close_section();
}

}  // namespace nacre::tools
