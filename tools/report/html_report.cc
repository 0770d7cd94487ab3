#include "tools/report/html_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/model/program_cost.h"
#include "tools/policies/policy_name.h"
#include "tools/report/bar_plot.h"
#include "tools/report/eval_table.h"
#include "tools/report/html.h"
#include "tools/report/picture.h"
#include "tools/report/picture_style.h"

namespace nacre::tools {
namespace {

// SQNR that a bar of no length stands for: beyond what float32 results of another order of summation have.
constexpr double kQuietDecibels = 140;

std::string file_name(const LoadedModel& model) { return std::filesystem::path(model.path()).filename().string(); }

// "int8 76,896, float32 1,240": bytes of all constants by the type they are stored in, the largest first.
std::string storage_text(const LoadedModel& model) {
  std::map<ElementType, uint64_t> bytes;
  for (const TensorRecord& r : model.model().tensors())
    if (r.region == Region::kWeights) bytes[r.element] += r.bytes;
  std::vector<std::pair<uint64_t, ElementType>> sorted;
  for (const auto& [type, count] : bytes) sorted.emplace_back(count, type);
  std::ranges::sort(sorted, std::ranges::greater());
  std::string text;
  for (const auto& [count, type] : sorted)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(type), grouped(count));
  return text;
}

void add_summary(Html& page, const std::vector<ReportedModel>& models) {
  page.heading(2, "Models");
  std::vector<std::vector<std::string>> rows;
  for (const ReportedModel& m : models) {
    const LoadedModel& loaded = m.program->loaded();
    const Statistics s = statistics(loaded, m.program->program());
    rows.push_back({file_name(loaded), grouped(s.file_bytes), grouped(s.weight_bytes), grouped(s.arena_bytes),
                    std::to_string(s.steps), grouped(s.multiply_accumulates),
                    std::to_string(fallbacks_of(loaded).size()), storage_text(loaded)});
  }
  page.table(
      {"model", "file bytes", "weights", "arena", "steps", "multiply-accumulates", "fall-backs", "constants by type"},
      rows);
}

void add_evaluation(Html& page, const ReportedSet& set) {
  if (set.evaluation == nullptr) return;
  page.heading(2, "On the labelled set");
  page.paragraph(counted(set.evaluation->samples, "sample") +
                 "; drops are against the first model; times are medians "
                 "on this machine with the reference kernels");
  page.list(set.evaluation->notes);
  EvalCells cells = evaluation_cells(*set.evaluation, set.metric, set.metric_name);
  for (std::vector<std::string>& row : cells.rows) row[0] = std::filesystem::path(row[0]).filename().string();
  page.table(cells.titles, cells.rows);
}

std::string decibels(const ErrorMeasure& e) {
  if (e.equal()) return "equal";
  return e.not_finite() > 0 ? "not finite" : fmt::format("{:.1f} dB", e.sqnr_db());
}

std::string tensor_words(const ProgramReport& a, const ComparedTensor& t) {
  const uint32_t layer = a.steps()[t.step].layer;
  return layer == kNoIndex ? a.loaded().tensor_name(t.a) : a.layers()[layer].name;
}

Bar error_bar(const ProgramReport& a, const ProgramReport& b, const ComparedTensor& t) {
  const ErrorMeasure& e = t.error;
  const double length = e.equal() ? 0 : e.not_finite() > 0 ? 1 : 1 - e.sqnr_db() / kQuietDecibels;
  return {
      .name = tensor_words(a, t),
      .value = decibels(e),
      .length = length,
      .title = fmt::format("{}\n{} -> {}\nlargest error {:.4g}, relative {:.4g}, cosine {:.6f}\nsaturated {:.3f} %",
                           a.loaded().tensor_name(t.a), name_of(a.tensor(t.a).element), name_of(b.tensor(t.b).element),
                           e.largest(), e.relative(), e.cosine(), 100 * t.saturated_share())};
}

void add_comparison(Html& page, const ProgramReport& a, const ProgramReport& b, const Comparison& comparison) {
  page.heading(2, fmt::format("{} against {}", file_name(b.loaded()), file_name(a.loaded())));
  page.list(comparison.notes);
  std::vector<std::vector<std::string>> rows;
  for (const ComparedOutput& o : comparison.outputs)
    rows.push_back({a.names().outputs[o.a], decibels(o.error), fmt::format("{:.4g}", o.error.largest()),
                    fmt::format("{:.4g}", o.error.relative()), fmt::format("{:.6f}", o.error.cosine()),
                    o.rows == 0 ? "-" : fmt::format("{} of {}", o.same_best, o.rows)});
  page.table({"output", "SQNR", "largest error", "relative", "cosine", "same largest"}, rows);
  std::vector<Bar> bars;
  for (const ComparedTensor& t : comparison.tensors) bars.push_back(error_bar(a, b, t));
  page.figure(bar_plot(bars),
              fmt::format("Noise by layer, in the order in which they run: 10 log10(sum a^2 / sum (a - b)^2); a longer "
                          "bar is more noise, a full one {} dB more than none",
                          kQuietDecibels));
}

// Over the steps of a layer.
double sum_of(const ReportLayer& layer, const Profile& profile, double StepProfile::* time) {
  double us = 0;
  for (const uint32_t step : layer.steps) us += profile.steps[step].*time;
  return us;
}

// Which kernels ran the layer's steps, each once.
std::string kernels_of(const ReportLayer& layer, const Profile& profile) {
  std::vector<std::string> names;
  for (const uint32_t step : layer.steps)
    if (std::ranges::find(names, profile.steps[step].kernel) == names.end())
      names.push_back(profile.steps[step].kernel);
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_times(Html& page, const ReportedModel& model) {
  const Profile& profile = *model.profile;
  double sum = 0;
  for (const StepProfile& step : profile.steps) sum += step.us;
  page.heading(3, "Time");
  const std::string of_layers =
      profile.gpu_us > 0 ? fmt::format("As one graph on the GPU {:.2f} us, by its clock and without copies. Layers by "
                                       "their steps one by one, each with the wait for its launch.",
                                       profile.gpu_us)
                         : "Layers by their steps alone, the clock's own time in each. Roof: what their "
                           "multiply-accumulates take in registers, or reading as many bytes.";
  page.paragraph(fmt::format(
      "Median of {}: {:.2f} us, with {} kernels on one thread of this machine, inputs from a seed. {}",
      counted(profile.runs, "run"), profile.us, model.kernels, of_layers));
  std::vector<std::vector<std::string>> rows;
  for (const ReportLayer& layer : model.program->layers()) {
    if (layer.steps.empty()) continue;
    const double us = sum_of(layer, profile, &StepProfile::us), least = sum_of(layer, profile, &StepProfile::least_us),
                 macs = double(layer.multiply_accumulates);
    rows.push_back({layer.name, layer.source_op, kernels_of(layer, profile), fmt::format("{:.2f}", us),
                    fmt::format("{:.1f} %", sum > 0 ? 100 * us / sum : 0),
                    macs > 0 && us > 0 ? fmt::format("{:.1f}", macs / us / 1000) : "-",
                    least > 0 && us > 0 ? fmt::format("{:.0f} %", 100 * least / us) : "-"});
  }
  page.table({"layer", "op", "kernels", "us", "share", "GMAC/s", "of roof"}, rows, 3);
}

void add_layers(Html& page, const ProgramReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const ReportLayer& layer : report.layers()) {
    const ReportStep* main = nullptr;  // the step that works most
    for (const uint32_t i : layer.steps)
      if (main == nullptr || report.steps()[i].multiply_accumulates > main->multiply_accumulates)
        main = &report.steps()[i];
    rows.push_back({layer.name, layer.source_op, policy_name(layer.policy),
                    main == nullptr ? "in other layers' steps" : report.types_text(*main),
                    std::to_string(layer.steps.size()), grouped(layer.multiply_accumulates),
                    grouped(layer.weight_bytes), grouped(layer.activation_bytes)});
  }
  page.table({"layer", "op", "policy", "types", "steps", "multiply-accumulates", "weights", "activations"}, rows, 4);
}

void add_memory(Html& page, const ProgramReport& report) {
  const Statistics s = statistics(report.loaded(), report.program());
  std::vector<std::vector<std::string>> rows;
  for (const BankUse& bank : s.banks) rows.push_back({"arena, " + bank.name, grouped(bank.bytes)});
  rows.push_back({"liveness lower bound", grouped(s.liveness_bound)});
  const Sizes sizes = measure(report.loaded(), report.program());
  rows.push_back({"scratch", grouped(sizes.bytes[kScratch])});
  rows.push_back({"all that this machine asks for", grouped(sizes.total())});
  page.table({"memory", "bytes"}, rows);
}

void add_picture(Html& page, const ProgramReport& report, size_t index) {
  const std::string name = file_name(report.loaded());
  page.open_details("The graph and its memory plan");
  try {
    page.figure(picture(report, name, fmt::format("arrow{}", index)),
                "Pointing at a box, an edge or a tensor tells all about it");
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    page.paragraph(error.what());
  }
  page.close_details();
}

void add_model(Html& page, const ReportedModel& model, size_t index) {
  const ProgramReport& report = *model.program;
  page.heading(2, file_name(report.loaded()));
  add_layers(page, report);
  if (model.profile != nullptr) add_times(page, model);
  const std::vector<std::string> fallbacks = fallbacks_of(report.loaded());
  page.heading(3, "Fall-backs");
  page.paragraph(fallbacks.empty() ? "None: every step runs as its layer's policy says."
                                   : "Steps that run in another type than their layer's policy says:");
  page.list(fallbacks);
  page.heading(3, "Memory");
  add_memory(page, report);
  page.heading(3, "Made of");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : report.loaded().metadata())
    if (!value.empty() && key != "fallbacks") rows.push_back({key, value});
  page.table({"key", "value"}, rows, 2);
  add_picture(page, report, index);
}

}  // namespace

std::string html_report(const std::vector<ReportedModel>& models, const ReportedSet& set) {
  std::string title = "Nacre report:";
  for (const ReportedModel& m : models) title += " " + file_name(m.program->loaded());
  Html page(title);
  page.heading(1, title);
  add_summary(page, models);
  add_evaluation(page, set);
  for (const ReportedModel& m : models)
    if (m.against_first != nullptr) add_comparison(page, *models.front().program, *m.program, *m.against_first);
  for (size_t i = 0; i < models.size(); ++i) add_model(page, models[i], i);
  return page.finish();
}

}  // namespace nacre::tools
