#include "tools/report/eval_table.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/base/format.h"
#include "tools/base/table.h"

namespace nacre::tools {
namespace {

// Returns a drop. For counting metrics it is also in whole samples: "2", or "-1" if the model is better.
std::string drop_text(const Metric& metric, const Judgement& first, const Judgement& judgement) {
  if (&first == &judgement) return "-";
  if (std::isnan(judgement.drop)) return "not finite";
  if (!metric.counts()) return fmt::format("{:.4g}", judgement.drop);
  return fmt::format("{:.2f} % ({})", 100 * judgement.drop,
                     int64_t(first.score.right) - int64_t(judgement.score.right));
}

}  // namespace

EvalCells evaluation_cells(const Evaluation& evaluation, const Metric& metric, const std::string& name) {
  EvalCells cells = {.titles = {"model", name}, .rows = {}};
  if (metric.counts()) cells.titles.emplace_back("right");
  for (const char* title : {"drop", "file bytes", "weights", "arena", "us/sample", "kernels"})
    cells.titles.emplace_back(title);
  for (const Judgement& j : evaluation.models) {
    std::vector<std::string> row = {j.model, value_text(metric, j.score.value)};
    if (metric.counts()) row.push_back(fmt::format("{} of {}", j.score.right, j.score.total));
    row.push_back(drop_text(metric, evaluation.models.front(), j));
    for (const uint64_t bytes : {j.file_bytes, j.weight_bytes, j.arena_bytes}) row.push_back(grouped(bytes));
    row.push_back(fmt::format("{:.1f}", j.median_us));
    row.push_back(j.by.text());
    cells.rows.push_back(std::move(row));
  }
  return cells;
}

std::string evaluation_text(const Evaluation& evaluation, const Metric& metric, const std::string& name) {
  std::string text = counted(evaluation.samples, "sample") + "; times are medians on this machine\n";
  for (const std::string& note : evaluation.notes) text += note + "\n";
  for (const Judgement& j : evaluation.models)
    if (j.score.not_finite > 0)
      text += fmt::format("{}: outputs that are not finite in {}\n", j.model, counted(j.score.not_finite, "sample"));
  const EvalCells cells = evaluation_cells(evaluation, metric, name);
  std::vector<Column> columns = {{"model", Align::kLeft, 12}};
  for (size_t i = 1; i < cells.titles.size(); ++i) columns.push_back({cells.titles[i], Align::kRight});
  Table table(std::move(columns));
  for (const std::vector<std::string>& row : cells.rows) table.add(row);
  return text + "\n" + table.text(terminal_width());
}

Json evaluation_json(const Evaluation& evaluation, const Metric& metric, const std::string& name) {
  Json models = Json::array();
  for (const Judgement& j : evaluation.models) {
    Json json = {{"model", j.model}, {"value", finite_or_null(j.score.value)}};
    if (metric.counts()) json.update({{"right", j.score.right}, {"total", j.score.total}});
    json.update({{"drop", finite_or_null(j.drop)},
                 {"output_damage", finite_or_null(j.damage)},
                 {"not_finite", j.score.not_finite},
                 {"file_bytes", j.file_bytes},
                 {"weight_bytes", j.weight_bytes},
                 {"arena_bytes", j.arena_bytes},
                 {"median_us", j.median_us}});
    j.by.add_to(json);
    models.push_back(std::move(json));
  }
  return {{"metric", name},
          {"higher_is_better", metric.higher_is_better()},
          {"samples", evaluation.samples},
          {"notes", evaluation.notes},
          {"models", models}};
}

}  // namespace nacre::tools
