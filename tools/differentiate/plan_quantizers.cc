// Plans which values training rounds under int8/static, and over which ranges. Refuses policies that cannot be
// trained.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/calibration/static_plan.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/quantizer_names.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

void refuse_untrainable(const Graph& graph) {
  refuse_fits(graph);
  for (const Node& node : graph.nodes) {
    const Policy* policy = policy_of(graph, node);
    if (policy == nullptr || !is_matmul(node.op)) continue;
    const std::string place = layer_place(graph, node);
    if (policy->quantization == Quantization::kInt4Weights && policy->block != 0)
      throw Error(kUnsupported, place, fmt::format("int4 in groups of {} weights cannot be trained", policy->block),
                  "train under int4_from_float32, or under float32, and export " + option("network", "NETWORK") +
                      " under this policy");
    if (policy->quantization == Quantization::kInt8Dynamic && node.op == Op::kDense &&
        graph.values[size_t(node.inputs[kX])].dims.size() > 2)
      throw Error(kUnsupported, place, "a dense layer over more than 2 axes cannot be trained under int8",
                  fmt::format("train it in float32 or with {set} '{}=int8/weights_from_float32'",
                              graph.layers[size_t(node.layer)].name, fmt::arg("set", option("set"))));
  }
}

// Throws if learned ranges are asked for but no layer is under int8/static, or such a layer computes in float64.
// Ranges and their gradients are float32.
void refuse_learned_ranges(const Graph& graph) {
  bool any = false;
  for (const Node& node : graph.nodes) {
    const Policy* policy = policy_of(graph, node);
    if (policy == nullptr || policy->quantization != Quantization::kInt8Static) continue;
    any = true;
    if (policy->compute == ElementType::kFloat64 || policy->variable == ElementType::kFloat64)
      throw Error(kUsage, layer_place(graph, node), "learned ranges are float32, and this layer computes in float64",
                  "take int8/static_from_float32, or leave out " + option("learned-ranges") + " for running ranges");
  }
  if (!any)
    throw Error(kUsage, option("learned-ranges"), "is about layers under int8/static, and there are none",
                "add " + option("policy", "int8/static_from_float32") + ", and to nacre convert " +
                    option("calibrate", "FILE"));
}

void refuse_idle_ranges(const Graph& graph, const QuantizerTraining& options) {
  const bool other_momentum = options.range_momentum != QuantizerTraining().range_momentum;
  if (options.freeze_steps == 0 && !other_momentum) return;
  const auto is_static = [&](const Node& node) {
    const Policy* policy = policy_of(graph, node);
    return policy != nullptr && policy->quantization == Quantization::kInt8Static;
  };
  if (std::ranges::none_of(graph.nodes, is_static))
    throw Error(kUsage, option(options.freeze_steps > 0 ? "freeze-ranges" : "range-momentum"),
                "is about running ranges of layers under int8/static, and there are none",
                "add " + option("policy", "int8/static_from_float32") + ", or leave it out");
}

}  // namespace

QuantizerPlan plan_ranges(const Graph& simplified, const Calibration* calibration, const QuantizerTraining& options) {
  Graph folded = simplified;
  simplify(folded);
  QuantizerPlan plan;
  plan.values = static_values(folded);
  plan.ranges.resize(plan.values.groups.size());
  plan.initial.resize(plan.values.groups.size());
  for (size_t group = 0; group < plan.values.groups.size(); ++group) {
    if (const std::optional<Quantizer>& fixed = plan.values.groups[group].fixed) {
      const double scale = double(fixed->scale[0]), zero = double(fixed->zero.empty() ? 0 : fixed->zero[0]);
      plan.initial[group] = {float(scale * (-128 - zero)), float(scale * (127 - zero))};
      continue;
    }
    const StaticValue* first = nullptr;
    bool measured = false;
    for (const StaticValue& v : plan.values.values) {
      if (v.group != int(group)) continue;
      if (first == nullptr || v.observed) first = &v;
      const ValueRange* found = calibration == nullptr ? nullptr : calibration->find(v.name);
      if (found == nullptr) continue;
      Range& range = plan.initial[group];
      range = measured ? Range{std::min(range.low, found->range.low), std::max(range.high, found->range.high)}
                       : found->range;
      measured = true;
    }
    plan.ranges[group] = range_name(first->name);
    if (options.learned_ranges && !measured)
      throw Error(kUsage, simplified.source, first->name + " has no range from which learning could start",
                  "give samples with " + option("calibrate", "FILE") + ", or leave " + option("learned-ranges") +
                      " away for running ranges");
  }
  return plan;
}

QuantizerPlan plan_quantizers(const Graph& simplified, const Calibration* calibration,
                              const QuantizerTraining& options) {
  refuse_untrainable(simplified);
  if (options.learned_ranges) refuse_learned_ranges(simplified);
  refuse_idle_ranges(simplified, options);
  return plan_ranges(simplified, calibration, options);
}

}  // namespace nacre::tools
