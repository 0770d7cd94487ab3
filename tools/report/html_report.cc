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
#include "tools/report/html.h"
#include "tools/report/picture/picture.h"
#include "tools/report/picture/style.h"
#include "tools/report/report_layers.h"
#include "tools/report/report_overview.h"

namespace nacre::tools {
namespace {

std::string file_name(const LoadedModel& model) { return std::filesystem::path(model.path()).filename().string(); }

// Returns "int8 76,896, float32 1,240": the bytes of all constants by stored type, the largest first.
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

void add_layers(Html& page, const ProgramReport& report) {
  std::vector<std::string> names;
  for (const ReportLayer& layer : report.layers()) names.push_back(layer.name);
  const std::vector<Cell> cells = name_cells(names);
  std::vector<CellRow> rows;
  for (size_t index = 0; index < cells.size(); ++index) {
    const ReportLayer& layer = report.layers()[index];
    const ReportStep* main = nullptr;  // the step with the most work
    for (const uint32_t i : layer.steps)
      if (main == nullptr || report.steps()[i].multiply_accumulates > main->multiply_accumulates)
        main = &report.steps()[i];
    rows.push_back({cells[index],
                    {.text = layer.source_op},
                    {.text = policy_name(layer.policy)},
                    {.text = main == nullptr ? "fused, or a view" : report.types_text(*main)},
                    {.text = std::to_string(layer.steps.size())},
                    {.text = grouped(layer.multiply_accumulates)},
                    {.text = grouped(layer.weight_bytes)},
                    {.text = grouped(layer.activation_bytes)}});
  }
  page.table({"layer", "op", "policy", "types", "steps", "MACs", "weight bytes", "activation bytes"}, rows,
             {.numbers_from = 4, .caption = "Layers, in network order. A step is one kernel call"});
}

void add_memory(Html& page, const ProgramReport& report) {
  const Statistics s = statistics(report.loaded(), report.program());
  std::vector<std::vector<std::string>> rows;
  for (const BankUse& bank : s.banks)
    rows.push_back({bank.name == "arena" ? "arena (activations)" : "arena, bank " + bank.name, grouped(bank.bytes)});
  rows.push_back({"liveness lower bound of the arena", grouped(s.liveness_bound)});
  const Sizes sizes = measure(report.loaded(), report.program());
  rows.push_back({"scratch of the kernels", grouped(sizes.bytes[kScratch])});
  rows.push_back({"total working memory on this machine", grouped(sizes.total())});
  page.table({"working memory", "bytes"}, rows);
}

void add_picture(Html& page, const ProgramReport& report, size_t index) {
  const std::string name = file_name(report.loaded());
  page.open_details("Graph and memory plan");
  try {
    page.figure(picture(report, name, {.arrow = fmt::format("arrow{}", index), .style = false}),
                "Hover over a box, an edge or a tensor for its details");
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    page.paragraph(error.what());
  }
  page.close_details();
}

void add_model(Html& page, const ReportedModel& model, size_t index) {
  const ProgramReport& report = *model.program;
  add_layers(page, report);
  const std::vector<std::string> fallbacks = fallbacks_of(report.loaded());
  page.heading(4, "Precision fallbacks");
  page.paragraph(fallbacks.empty() ? "None: every step runs in the types of its layer's policy."
                                   : "Steps that run in other types than those of their layer's policy:");
  page.list(fallbacks);
  page.open_flow();
  page.open_part();
  page.heading(4, "Memory");
  add_memory(page, report);
  page.close_part();
  page.open_part();
  page.heading(4, "Metadata");
  std::vector<std::vector<std::string>> rows = {{"weight bytes by type", storage_text(report.loaded())}};
  for (const auto& [key, value] : report.loaded().metadata())
    if (!value.empty() && key != "fallbacks") rows.push_back({key, value});
  page.table({"key", "value"}, rows, 2);
  page.close_part();
  page.close_flow();
  add_picture(page, report, index);
}

// Names the models by their files, or by their paths if two files have one name.
std::vector<ReportedModel> with_names(std::vector<ReportedModel> models) {
  std::map<std::string, int> counts;
  for (const ReportedModel& m : models) ++counts[file_name(m.program->loaded())];
  for (ReportedModel& m : models) {
    const std::string file = file_name(m.program->loaded());
    if (m.name.empty()) m.name = counts[file] == 1 ? file : m.program->loaded().path();
  }
  return models;
}

std::string title_of(const std::vector<ReportedModel>& models) {
  constexpr size_t kMostNames = 3;
  std::vector<std::string> names;
  for (const ReportedModel& m : models) names.push_back(m.name);
  const std::string file = file_name(models.front().program->loaded());
  if (models.front().name != file && models.size() > 1) return fmt::format("{} under {} policies", file, models.size());
  if (models.size() > kMostNames) return fmt::format("Nacre report: {} models", models.size());
  return fmt::format("Nacre report: {}", fmt::join(names, ", "));
}

}  // namespace

std::string html_report(const std::vector<ReportedModel>& unnamed, const ReportedSet& set) {
  const std::vector<ReportedModel> models = with_names(unnamed);
  Html page(title_of(models));
  page.add_style(picture_style());
  add_overview(page, models, set);
  add_confusions(page, models, set);
  add_errors(page, models);
  add_times(page, models);
  page.open_section("Model details");
  page.open_tabs("Models");
  for (size_t i = 0; i < models.size(); ++i) {
    page.open_tab(models[i].name);
    add_model(page, models[i], i);
    page.close_tab();
  }
  page.close_tabs();
  page.close_section();
  return page.finish();
}

}  // namespace nacre::tools
