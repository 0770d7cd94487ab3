#include "tools/commands/report.h"

#include <fmt/format.h>

#include <memory>

#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/files/atomic_file.h"
#include "tools/report/html_report.h"

namespace nacre::tools {
namespace {

void check_options(const ReportOptions& options) {
  if (options.html.empty()) throw Error(kUsage, "report", "no page was named", "add -o REPORT.html");
  if (options.models.empty()) throw Error(kUsage, "report", "no model is named", "name one or several model files");
  if (!options.set.data.empty() && options.set.labels.empty() && options.models.size() == 1)
    throw Error(kUsage, "--data", "samples alone say nothing about one model", "add --labels FILE, or a second model");
}

// Each model against the first, in the order of the models from the second.
std::vector<Comparison> compare_all(const std::vector<std::unique_ptr<ProgramReport>>& programs, const LabelledSet& set,
                                    bool cast) {
  std::vector<Comparison> comparisons;
  for (size_t i = 1; i < programs.size(); ++i)
    comparisons.push_back(compare_programs(*programs[0], *programs[i], set.data, cast));
  return comparisons;
}

}  // namespace

void report(const ReportOptions& options) {
  check_options(options);
  std::vector<std::unique_ptr<LoadedModel>> models;
  std::vector<const LoadedModel*> pointers;
  std::vector<std::unique_ptr<ProgramReport>> programs;
  for (const std::string& path : options.models) {
    models.push_back(std::make_unique<LoadedModel>(path));
    pointers.push_back(models.back().get());
    programs.push_back(std::make_unique<ProgramReport>(*models.back(), models.back()->infer_program(options.target)));
  }
  std::vector<Comparison> comparisons;
  Evaluation evaluation;
  ReportedSet reported;
  if (!options.set.data.empty()) {
    const LabelledSet set = read_set(options.set);
    comparisons = compare_all(programs, set, options.cast_inputs);
    if (set.labels) {
      evaluation = evaluate_models(pointers, set,
                                   {.target = options.target, .output = options.output, .cast = options.cast_inputs});
      reported = {.evaluation = &evaluation, .metric = set.metric, .metric_name = set.metric_name};
    }
  }
  std::vector<ReportedModel> reports;
  for (size_t i = 0; i < programs.size(); ++i)
    reports.push_back({programs[i].get(), i == 0 || comparisons.empty() ? nullptr : &comparisons[i - 1]});
  write_file_whole(options.html, html_report(reports, reported));
  print(fmt::format("report -> {}\n", escaped(options.html)));
}

}  // namespace nacre::tools
