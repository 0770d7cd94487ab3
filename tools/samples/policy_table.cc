// Prints the costs of policies on a labelled set, one row per policy.
//
//   policy_table NETWORK DATA.npy LABELS.npy INDICES.npy [--kernels NAME] [--threads N] [--calibrate DATA] [POLICY ...]
//
// Compiles the network under every policy. If a policy needs calibration, the samples are those that INDICES does not
// name. Prints accuracy, bytes of the file's constants by type, arena bytes, microseconds per sample with the kernels
// of `nacre run`, and the largest error of an output against the first policy's. Tells where ranges are from.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/standard_streams.h"
#include "tools/base/table.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/convert/convert.h"
#include "tools/compile/compile.h"
#include "tools/evaluate/calibration_set.h"
#include "tools/evaluate/evaluation.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/program_cost.h"
#include "tools/model/writer.h"
#include "tools/policies/policy_language.h"

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

uint32_t threads_of(const std::string& text) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || *end != 0 || count < 1 || count > kMostThreads)
    throw Error(kUsage, "--threads", fmt::format("{} is no number from 1 to {}", text, kMostThreads));
  return count;
}

bool any_reads_samples(const std::vector<std::string>& policies) {
  return std::ranges::any_of(policies, [](const std::string& policy) {
    return reads_samples(parse_policy(policy, {"policy", kUsage}).policy);
  });
}

struct Wanted {
  std::string network;
  SetOptions set;
  std::string calibrate;
  Running running;
  std::vector<std::string> policies;
};

Wanted wanted_by(const std::vector<std::string>& arguments) {
  Wanted w = {.network = arguments[0],
              .set = {.data = arguments[1], .labels = arguments[2], .indices = arguments[3], .metric = "top1"},
              .calibrate = "",
              .running = {},
              .policies = {}};
  for (size_t i = 4; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with("--")) {
      w.policies.push_back(word);
      continue;
    }
    if (i + 1 == arguments.size()) throw Error(kUsage, word, "has no value");
    const std::string& value = arguments[++i];
    if (word == "--kernels") w.running.kernels = value;
    else if (word == "--calibrate") w.calibrate = value;
    else if (word == "--threads") w.running.threads = threads_of(value);
    else throw Error(kUsage, word, "is no option", "give --kernels, --threads or --calibrate");
  }
  if (w.policies.empty()) w.policies.assign(std::begin(kPolicies), std::end(kPolicies));
  return w;
}

// Returns "float32 1,234  int8 5,678", the bytes of the file's constants.
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
  const Wanted wanted = wanted_by(arguments);
  const Graph graph = load_network(wanted.network);
  LabelledSet set = read_set(wanted.set);
  Calibration calibration;
  if (any_reads_samples(wanted.policies)) {
    const CalibrationSet apart(graph, wanted.calibrate, wanted.set, set);
    calibration = calibrate(graph, apart.samples(graph, {.cast = true}));
    std::fprintf(stderr, "%s\n", apart.said().c_str());
  }

  Table table({{"policy", Align::kLeft},
               {"right", Align::kRight},
               {"accuracy", Align::kRight},
               {"file bytes", Align::kRight},
               {"arena", Align::kRight},
               {"us", Align::kRight},
               {"kernels", Align::kLeft},
               {"largest error", Align::kRight},
               {"constants by type", Align::kLeft}});
  std::optional<Outcome> first;
  for (const std::string& policy : wanted.policies) {
    CompileOptions options;
    options.policies = parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
    options.calibration = &calibration;
    options.target.kernels = kernels_of_target(options.target.name);
    Compiled compiled = compile(graph, options);
    ConvertOptions converting;  // the file is the one of nacre convert --policy
    converting.network = wanted.network;
    converting.policies.policy = policy;
    add_metadata(compiled.graph, converting);
    const ProgramSource source = {.graph = &compiled.graph, .kernels = options.target.kernels};
    const LoadedModel model(write_model({&source, 1}), policy, "");
    std::vector<std::string> notes;
    const Outcome outcome = run_set(model, set, {.running = wanted.running, .cast = true, .progress = false}, notes);
    if (!first) first = outcome;
    const Score result = score(set.metric, outcome.samples, labels_for(set, outcome.samples));
    const Statistics s = statistics(model, 0);
    table.add({policy, fmt::format("{} of {}", result.right, result.total), fmt::format("{:.2f} %", 100 * result.value),
               grouped(s.file_bytes), grouped(s.arena_bytes), fmt::format("{:.1f}", outcome.median_us),
               outcome.by.text(), fmt::format("{:.3g}", largest_error(first->samples, outcome.samples)),
               bytes_by_type(compiled.graph)});
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
    std::fprintf(stderr,
                 "usage: policy_table NETWORK DATA.npy LABELS.npy INDICES.npy [--kernels NAME] [--threads N] "
                 "[--calibrate DATA] [POLICY ...]\n");
    return nacre::tools::kUsage;
  }
  try {
    return nacre::tools::run({arguments + 1, arguments + count});
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "policy_table: %s\n", error.what());
    return error.code;
  }
}
