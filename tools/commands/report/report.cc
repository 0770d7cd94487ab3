#include "tools/commands/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/commands/bench/profile_table.h"
#include "tools/commands/report/policies.h"
#include "tools/files/atomic_file.h"
#include "tools/importers/importer.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/program_cost.h"
#include "tools/report/comparison_json.h"
#include "tools/report/eval_table.h"
#include "tools/report/html_report.h"
#include "tools/report/search_table.h"

namespace nacre::tools {
namespace {

bool of_network(const ReportOptions& options) {
  return options.models.size() == 1 && is_network(options.models.front());
}

void check_options(const ReportOptions& options) {
  if (options.html.empty()) throw Error(kUsage, "report", "no page was named", "add -o REPORT.html");
  if (options.models.empty()) throw Error(kUsage, "report", "no model is named", "name one or several model files");
  for (const std::string& model : options.models)
    if (options.models.size() > 1 && is_network(model))
      throw Error(kUsage, model, "is a network's file, and stands beside other files",
                  "name it alone, and what to make of it with --policies, or convert it first");
  if (!options.set.data.empty() && options.set.labels.empty() && options.models.size() == 1 && !of_network(options))
    throw Error(kUsage, "--data", "samples alone say nothing about one model", "add --labels FILE, or a second model");
}

// Compares each model from the second on with the first.
std::vector<Comparison> compare_all(const std::vector<std::unique_ptr<ProgramReport>>& programs, const LabelledSet& set,
                                    const ReportOptions& options) {
  std::vector<Comparison> comparisons;
  for (size_t i = 1; i < programs.size(); ++i)
    comparisons.push_back(compare_programs(*programs[0], *programs[i], set.data, options.cast_inputs, options.running));
  return comparisons;
}

ModelsUnderPolicies load_models(const ReportOptions& options, std::optional<LabelledSet>& set) {
  if (of_network(options))
    return compile_under({.network = options.models.front(),
                          .shapes = options.shapes,
                          .ignored = options.ignored,
                          .policies = options.policies,
                          .calibrate = options.calibrate,
                          .cast_inputs = options.cast_inputs},
                         options.set, set);
  ModelsUnderPolicies loaded;
  for (const std::string& path : options.models) loaded.models.push_back(std::make_unique<LoadedModel>(path));
  return loaded;
}

constexpr uint64_t kLeastRuns = 30, kMostRuns = 2000;
constexpr double kTimedUs = 20e3;  // all whole runs together take about this long: an idle processor is slow at first
constexpr uint64_t kSeed = 1;      // seed of the inputs

struct Timed {
  Profile profile;
  RanBy by;
};

Timed time(const ProgramReport& program, const Running& running) {
  const LoadedModel& model = program.loaded();
  const BoundProgram bound = bind_to_run(model, program.program(), running);
  const std::vector<uint8_t> inputs = seeded_inputs(model, program.program(), kSeed);
  const auto write_inputs = [&] {
    size_t at = 0;
    for (uint32_t i = 0; i < bound.program().input_count(); ++i) {
      const std::span<std::byte> input = bound.program().input(i);
      std::memcpy(input.data(), inputs.data() + at, input.size());
      at += input.size();
    }
  };
  write_inputs();
  const auto start = std::chrono::steady_clock::now();
  model.require(bound.program().run());
  const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
  const uint64_t runs = std::clamp(uint64_t(kTimedUs / std::max(1.0, us.count())), kLeastRuns, kMostRuns);
  return {profile(bound, runs, write_inputs), ran_by(bound)};
}

// Returns the numbers of the page. Each "comparison" is nacre compare's JSON, "evaluation" nacre eval's, and each
// "profile" nacre bench's.
Json json_of(const std::string& page, const std::vector<ReportedModel>& reports, const ReportedSet& set) {
  Json models = Json::array();
  for (const ReportedModel& m : reports) {
    const LoadedModel& model = m.program->loaded();
    const Statistics s = statistics(model, m.program->program());
    models.push_back({{"model", m.name.empty() ? model.path() : m.name},
                      {"file_bytes", s.file_bytes},
                      {"weight_bytes", s.weight_bytes},
                      {"arena_bytes", s.arena_bytes},
                      {"multiply_accumulates", s.multiply_accumulates}});
    if (m.profile != nullptr) {
      models.back()["profile"] = profile_json(model, m.program->program(), *m.profile);
      m.by.add_to(models.back());
    }
    if (m.against_first != nullptr)
      models.back()["comparison"] = comparison_json(*reports.front().program, *m.program, *m.against_first);
  }
  Json json = {{"page", page}, {"models", models}};
  if (set.evaluation != nullptr) json["evaluation"] = evaluation_json(*set.evaluation, set.metric, set.metric_name);
  if (!set.calibrated.empty()) json["calibrated"] = set.calibrated;
  return json;
}

}  // namespace

void report(const ReportOptions& options) {
  check_options(options);
  if (of_network(options)) port_for(options.running.kernels, "host");  // throws before any network is compiled
  require_directory_of(options.html);
  std::optional<LabelledSet> set;
  if (!options.set.data.empty()) set = read_set(options.set);
  const auto [models, calibrated] = load_models(options, set);
  if (!calibrated.empty()) note(calibrated);
  std::vector<const LoadedModel*> pointers;
  std::vector<std::unique_ptr<ProgramReport>> programs;
  for (const std::unique_ptr<LoadedModel>& model : models) {
    pointers.push_back(model.get());
    programs.push_back(std::make_unique<ProgramReport>(*model, model->infer_program(options.target)));
  }
  std::vector<Comparison> comparisons;
  Evaluation evaluation;
  ReportedSet reported;
  if (set) {
    comparisons = compare_all(programs, *set, options);
    if (set->labels) {
      evaluation = evaluate_models(pointers, *set,
                                   {.target = options.target,
                                    .output = options.output,
                                    .running = options.running,
                                    .cast = options.cast_inputs});
      reported = {.evaluation = &evaluation,
                  .metric = set->metric,
                  .metric_name = set->metric_name,
                  .leaves_latency_out = options.no_latency};
    }
  }
  reported.calibrated = calibrated;
  const std::vector<std::string> names = short_names(options.policies);
  std::vector<ReportedModel> reports;
  std::vector<Timed> timed;
  for (size_t i = 0; options.profile && i < programs.size(); ++i) timed.push_back(time(*programs[i], options.running));
  for (size_t i = 0; i < programs.size(); ++i) {
    reports.push_back({programs[i].get(), i == 0 || comparisons.empty() ? nullptr : &comparisons[i - 1]});
    if (of_network(options)) reports.back().name = names[i];
    if (options.profile) reports.back().profile = &timed[i].profile, reports.back().by = timed[i].by;
  }
  write_file_whole(options.html, html_report(reports, reported));
  if (options.json) return print_json(json_of(options.html, reports, reported));
  print(fmt::format("report -> {}\n", escaped(options.html)));
}

}  // namespace nacre::tools
