#include "tools/commands/bench/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/evaluate/program_report.h"

namespace nacre::tools {
namespace {

struct OpTime {
  std::string op;
  size_t steps = 0;
  double us = 0, least_us = 0;
};

// Sums the times by op, the slowest first.
std::vector<OpTime> by_op(const ProgramReport& report, const Profile& profile) {
  std::map<std::string, OpTime> ops;
  for (const StepProfile& step : profile.steps) {
    OpTime& op = ops[report.steps()[step.step].op_name];
    op.op = report.steps()[step.step].op_name;
    ++op.steps;
    op.us += step.us;
    op.least_us += step.least_us;
  }
  std::vector<OpTime> sorted;
  for (auto& [name, op] : ops) sorted.push_back(std::move(op));
  std::ranges::stable_sort(sorted, std::greater(), &OpTime::us);
  return sorted;
}

double sum_of(const Profile& profile) {
  double sum = 0;
  for (const StepProfile& step : profile.steps) sum += step.us;
  return sum;
}

std::string layer_of(const ProgramReport& report, const ReportStep& step) {
  return step.layer == kNoIndex ? "" : report.layers()[step.layer].name;
}

double rate(const ReportStep& step, double us) { return us > 0 ? double(step.multiply_accumulates) / us / 1000 : 0; }

// Returns the least possible time as a percentage of the measured time, "" if the least time is not known.
std::string of_roof(double least_us, double us) {
  return least_us > 0 && us > 0 ? fmt::format("{:.0f} %", 100 * least_us / us) : "";
}

// Returns the notes below the tables that explain the times.
std::string notes(const Profile& profile) {
  std::string text = fmt::format("\nwhole run: median {:.2f} us of {} after {} to warm up; the first took {:.2f} us\n",
                                 profile.us, counted(profile.runs, "run"), profile.runs, profile.first_us);
  if (profile.gpu_us > 0)
    return text + fmt::format(
                      "on the GPU, by its clock and without copies: {:.2f} us as one graph; its steps one by "
                      "one {:.2f} us,\neach with the wait for its launch\n",
                      profile.gpu_us, sum_of(profile));
  return text + fmt::format("steps alone: {:.2f} us, the clock's own time in each\n", sum_of(profile)) +
         "roof: the time of the step's multiply-accumulates in registers, or where that is longer of reading a block "
         "of as\nmany bytes as its operands; a part of these in a nearer cache goes faster\n";
}

}  // namespace

std::string profile_text(const LoadedModel& model, uint32_t program, const Profile& profile, size_t width) {
  const ProgramReport report(model, program);
  const double sum = sum_of(profile);
  const auto share = [sum](double us) { return fmt::format("{:.1f} %", sum > 0 ? 100 * us / sum : 0); };
  Table steps({{"step", Align::kRight},
               {"layer", Align::kLeft, 12, true},
               {"op"},
               {"types"},
               {"kernel"},
               {"us", Align::kRight},
               {"share", Align::kRight},
               {"GMAC/s", Align::kRight},
               {"of roof", Align::kRight}});
  for (const StepProfile& step : profile.steps) {
    const ReportStep& of = report.steps()[step.step];
    steps.add({fmt::format("{}", step.step), layer_of(report, of), of.op_name, report.types_text(of), step.kernel,
               fmt::format("{:.2f}", step.us), share(step.us),
               of.multiply_accumulates > 0 ? fmt::format("{:.1f}", rate(of, step.us)) : "",
               of_roof(step.least_us, step.us)});
  }
  Table ops(
      {{"op"}, {"steps", Align::kRight}, {"us", Align::kRight}, {"share", Align::kRight}, {"of roof", Align::kRight}});
  for (const OpTime& op : by_op(report, profile))
    ops.add(
        {op.op, fmt::format("{}", op.steps), fmt::format("{:.2f}", op.us), share(op.us), of_roof(op.least_us, op.us)});
  return steps.text(width) + "\n" + ops.text(width) + notes(profile);
}

Json profile_json(const LoadedModel& model, uint32_t program, const Profile& profile) {
  const ProgramReport report(model, program);
  Json steps = Json::array(), ops = Json::array();
  for (const StepProfile& step : profile.steps) {
    const ReportStep& of = report.steps()[step.step];
    Json row = {{"step", step.step},     {"layer", layer_of(report, of)},
                {"op", of.op_name},      {"types", report.types_text(of)},
                {"kernel", step.kernel}, {"us", step.us}};
    if (step.on_gpu) row["clock"] = "gpu";
    if (step.least_us > 0) row.update({{"roof_us", step.least_us}, {"share_of_roof", step.least_us / step.us}});
    if (of.multiply_accumulates > 0)
      row.update({{"multiply_accumulates", of.multiply_accumulates}, {"gmac_per_s", rate(of, step.us)}});
    steps.push_back(std::move(row));
  }
  for (const OpTime& op : by_op(report, profile)) {
    ops.push_back({{"op", op.op}, {"steps", op.steps}, {"us", op.us}});
    if (op.least_us > 0) ops.back().update({{"roof_us", op.least_us}, {"share_of_roof", op.least_us / op.us}});
  }
  Json made = {{"steps", steps},          {"ops", ops},
               {"median_us", profile.us}, {"first_us", profile.first_us},
               {"runs", profile.runs},    {"warm_up_runs", profile.runs}};
  if (profile.gpu_us > 0) made["gpu_us"] = profile.gpu_us;
  return made;
}

}  // namespace nacre::tools
