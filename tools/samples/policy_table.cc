// What each policy costs, on a labelled set: one row per policy.
//
//   policy_table NETWORK DATA.npy LABELS.npy INDICES.npy [POLICY ...]
//
// Compiles the network under every policy, calibrated where a policy needs it on the samples that INDICES does not
// name, and prints accuracy, bytes of the file's constants by type, arena bytes, microseconds per sample, and the
// largest error of an output against the first policy's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/standard_streams.h"
#include "tools/base/table.h"
#include "tools/commands/convert.h"
#include "tools/compile/compile.h"
#include "tools/evaluate/evaluation.h"
#include "tools/evaluate/sample_data.h"
#include "tools/model/program_cost.h"
#include "tools/model/writer.h"

namespace nacre::tools {
namespace {

constexpr const char* kPolicies[] = {"float32",
                                     "bfloat16",
                                     "mixed_float16",
                                     "int8_from_float32",
                                     "int8/static_from_float32",
                                     "int8/weights_from_float32",
                                     "int4/32_from_float32",
                                     "float8_from_float32"};
constexpr size_t kCalibrationSamples = 200;

// Samples that the test set does not hold, as the network takes them.
Samples calibration_samples(const Graph& graph, const NpyArray& data, const std::vector<int64_t>& tested) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < data.dims.at(0) && rows.size() < kCalibrationSamples; ++i)
    if (!std::ranges::count(tested, i)) rows.push_back(i);
  return make_samples(graph, {select_rows(data, rows, "DATA")}, {.cast = true});
}

// "float32 1,234  int8 5,678": constants of the file.
std::string bytes_by_type(const Graph& graph) {
  std::map<ElementType, uint64_t> bytes;
  for (const Value& v : graph.values)
    if (v.constant()) bytes[v.type] += v.data->size();
  std::string text;
  for (const auto& [type, sum] : bytes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(type), grouped(sum));
  return text;
}

double largest_error(const ScoredSamples& a, const ScoredSamples& b) {
  double largest = 0;
  for (size_t i = 0; i < a.outputs.size(); ++i) largest = std::max(largest, std::abs(a.outputs[i] - b.outputs[i]));
  return largest;
}

int run(const std::vector<std::string>& arguments) {
  const Graph graph = load_network(arguments[0]);
  const LabelledSet set =
      read_set({.data = arguments[1], .labels = arguments[2], .indices = arguments[3], .metric = "top1"});
  const Calibration calibration =
      calibrate(graph, calibration_samples(graph, read_npy(arguments[1]), read_rows(arguments[3])));
  std::vector<std::string> policies(arguments.begin() + 4, arguments.end());
  if (policies.empty()) policies.assign(std::begin(kPolicies), std::end(kPolicies));

  Table table({{"policy", Align::kLeft},
               {"right", Align::kRight},
               {"accuracy", Align::kRight},
               {"file bytes", Align::kRight},
               {"arena", Align::kRight},
               {"us", Align::kRight},
               {"largest error", Align::kRight},
               {"constants by type", Align::kLeft}});
  std::optional<Outcome> first;
  for (const std::string& policy : policies) {
    CompileOptions options;
    options.policies = parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
    options.calibration = &calibration;
    Compiled compiled = compile(graph, options);
    ConvertOptions converting;  // the file is that of nacre convert --policy
    converting.network = arguments[0];
    converting.policies.policy = policy;
    add_metadata(compiled.graph, converting);
    const ProgramSource source = {.graph = &compiled.graph, .kernels = options.target.kernels};
    const LoadedModel model(write_model({&source, 1}), policy, "");
    std::vector<std::string> notes;
    const Outcome outcome = run_set(model, set, {.cast = true, .progress = false}, notes);
    if (!first) first = outcome;
    const Score result = score(set.metric, outcome.samples, labels_for(set, outcome.samples));
    const Statistics s = statistics(model, 0);
    table.add({policy, fmt::format("{} of {}", result.right, result.total), fmt::format("{:.2f} %", 100 * result.value),
               grouped(s.file_bytes), grouped(s.arena_bytes), fmt::format("{:.1f}", outcome.median_us),
               fmt::format("{:.3g}", largest_error(first->samples, outcome.samples)), bytes_by_type(compiled.graph)});
    for (const std::string& line : compiled.graph.fallbacks)
      std::fprintf(stderr, "%s: %s\n", policy.c_str(), line.c_str());
  }
  std::fputs(table.text(terminal_width()).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace nacre::tools

int main(int count, char** arguments) {
  if (!nacre::tools::open_standard_streams()) return 1;
  if (count < 5) {
    std::fprintf(stderr, "usage: policy_table NETWORK DATA.npy LABELS.npy INDICES.npy [POLICY ...]\n");
    return nacre::tools::kUsage;
  }
  try {
    return nacre::tools::run({arguments + 1, arguments + count});
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "policy_table: %s\n", error.what());
    return error.code;
  }
}
