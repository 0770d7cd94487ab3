#include "tools/commands/report/policies.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/convert/convert.h"
#include "tools/compile/compile.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/writer.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

// Checks the policies before anything is compiled.
void check_policies(const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) parse_policy(policy, {"--policies", kUsage});
  for (auto policy = policies.begin(); policy != policies.end(); ++policy)
    if (std::find(policies.begin(), policy, *policy) != policy)
      throw Error(kUsage, "--policies", fmt::format("names {} twice", *policy), "leave one of them out");
}

CalibrationSet set_apart(const Graph& graph, const PolicyRequest& request, const NetworkUnderPolicies& wanted,
                         const SetOptions& from, std::optional<LabelledSet>& set) {
  if (!set && wanted.calibrate.empty())
    throw Error(kUsage, "--policies", fmt::format("{} needs samples, and none are given", request.base_text),
                "add --calibrate FILE or --data FILE");
  LabelledSet none;
  return CalibrationSet(graph, wanted.calibrate, from, set ? *set : none);
}

// Calibrates `graph`, whose policies are resolved, on the samples set apart: measures all that its layers need.
Calibration calibrate_for(const Graph& graph, const NetworkUnderPolicies& wanted, const CalibrationSet& apart) {
  CalibrationOptions options;
  options.fitted = fitted_by(graph);
  const SampleOptions sampling = {.cast = wanted.cast_inputs, .may_be_equal = !any_policy(graph, reads_ranges)};
  return calibrate(graph, apart.samples(graph, sampling), options);
}

}  // namespace

ModelsUnderPolicies compile_under(const NetworkUnderPolicies& wanted, const SetOptions& from,
                                  std::optional<LabelledSet>& set) {
  check_policies(wanted.policies);
  const Graph network = load_network(wanted.network, {.shapes = wanted.shapes, .ignored = wanted.ignored});
  ModelsUnderPolicies made;
  std::optional<CalibrationSet> apart;
  for (const std::string& policy : wanted.policies) {
    CompileOptions options;
    if (policy != "source") options.policies = parse_policy_options({.policy = policy});
    options.target.kernels = kernels_of_target(options.target.name);
    Calibration calibration;
    Graph graph = network;
    resolve_policies(graph, options.policies);
    if (any_policy(graph, reads_samples)) {
      if (!apart) apart.emplace(set_apart(graph, options.policies, wanted, from, set));
      calibration = calibrate_for(graph, wanted, *apart);
      options.calibration = &calibration;
    }
    Graph compiled = compile_graph(std::move(graph), options);
    ConvertOptions converting;
    converting.network = wanted.network;
    converting.shapes = wanted.shapes;
    converting.ignored = wanted.ignored;
    if (policy != "source") converting.policies.policy = policy;
    add_metadata(compiled, converting);
    made.models.push_back(
        std::make_unique<LoadedModel>(write_compiled(compiled, options.target), wanted.network, kReportDefect));
  }
  if (apart) made.calibrated = apart->said();
  else if (!wanted.calibrate.empty()) note(samples_not_read());
  return made;
}

}  // namespace nacre::tools
