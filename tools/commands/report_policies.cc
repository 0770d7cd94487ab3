#include "tools/commands/report_policies.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/convert.h"
#include "tools/compile/compile.h"
#include "tools/evaluate/sample_data.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/writer.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

// Before anything is compiled.
void check_policies(const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) parse_policy(policy, {"--policies", kUsage});
  for (auto policy = policies.begin(); policy != policies.end(); ++policy)
    if (std::find(policies.begin(), policy, *policy) != policy)
      throw Error(kUsage, "--policies", fmt::format("names {} twice", *policy), "leave one of them away");
}

// What is read of the samples is read once for every policy.
Calibration calibrate_for(const Graph& graph, const PolicyRequest& request, const NetworkUnderPolicies& wanted,
                          const NpzArrays& data) {
  if (data.empty())
    throw Error(kUsage, "--policies", fmt::format("{} reads samples, and there are none", request.base_text),
                "add --data FILE");
  std::vector<std::string> inputs, ignored;
  for (const Binding& input : graph.inputs) inputs.push_back(input.name);
  CalibrationOptions options;
  options.fitted = fitted_by(graph, request);
  const SampleOptions sampling = {.cast = wanted.cast_inputs,
                                  .may_be_equal = !any_policy(graph, request, reads_ranges)};
  return calibrate(graph, make_samples(graph, arrays_for(inputs, data, ignored), sampling), options);
}

}  // namespace

std::vector<std::unique_ptr<LoadedModel>> compile_under(const NetworkUnderPolicies& wanted, const NpzArrays& data) {
  check_policies(wanted.policies);
  const Graph graph = load_network(wanted.network, {.shapes = wanted.shapes, .ignored = wanted.ignored});
  std::vector<std::unique_ptr<LoadedModel>> models;
  for (const std::string& policy : wanted.policies) {
    CompileOptions options;
    if (policy != "source") options.policies = parse_policy_options({.policy = policy});
    options.target.kernels = kernels_of_target(options.target.name);
    Calibration calibration;
    if (any_policy(graph, options.policies, reads_samples)) {
      calibration = calibrate_for(graph, options.policies, wanted, data);
      options.calibration = &calibration;
    }
    Compiled compiled = compile(graph, options);
    ConvertOptions converting;
    converting.network = wanted.network;
    converting.shapes = wanted.shapes;
    converting.ignored = wanted.ignored;
    if (policy != "source") converting.policies.policy = policy;
    add_metadata(compiled.graph, converting);
    const ProgramSource source = {.graph = &compiled.graph, .kernels = options.target.kernels};
    models.push_back(std::make_unique<LoadedModel>(write_model({&source, 1}), wanted.network, kReportDefect));
  }
  return models;
}

}  // namespace nacre::tools
