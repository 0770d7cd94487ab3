#include "tools/policies/policy_loss_scale.h"

#include <fmt/format.h>

#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {
namespace {

std::string scale_text(const Policy& policy) {
  if (policy.loss_scale == LossScale::kFixed) return fmt::format("{:g}", policy.loss_scale_value);
  return name_of(policy.loss_scale);
}

bool same_scale(const Policy& a, const Policy& b) {
  return a.loss_scale == b.loss_scale &&
         (a.loss_scale != LossScale::kFixed || a.loss_scale_value == b.loss_scale_value);
}

}  // namespace

PolicyLossScale loss_scale_of_policies(const Graph& resolved, const PolicyRequest& request, bool overridden) {
  PolicyLossScale result;
  const Layer* first = nullptr;
  const Layer* other = nullptr;  // a layer with another loss scale
  for (const Layer& layer : resolved.layers) {
    if (!layer.asked) continue;
    const bool float16 = layer.policy.compute == ElementType::kFloat16;
    result.float16 |= float16;
    const bool none = layer.policy.loss_scale == LossScale::kNone;
    if (none && (!layer.names_loss_scale || !float16)) continue;
    if (first == nullptr) first = &layer;
    else if (other == nullptr && !same_scale(first->policy, layer.policy)) other = &layer;
  }
  const Policy* policy = first == nullptr ? nullptr : &first->policy;
  if (first != nullptr) result.origin = "the policy of layer " + in_quotes(first->name);
  if (other != nullptr && !overridden) {
    if (!request.base || !request.base_names_loss_scale)
      throw PolicyError(
          "Contradiction", kUsage, "loss scale",
          fmt::format("the policies of layers {} and {} name two, {} and {}, and a training has one",
                      in_quotes(first->name), in_quotes(other->name), scale_text(first->policy),
                      scale_text(other->policy)),
          "name one in " + option("policy") + ", which is that of the whole network, or give " + option("loss-scale"));
    policy = &*request.base;
    result.origin = request.base_origin;
  }
  if (policy == nullptr) return result;
  result.said = true;
  result.kind = policy->loss_scale;
  result.value = policy->loss_scale_value;
  if (result.kind == LossScale::kDynamic) result.numbers = request.base_loss_scale_numbers;
  return result;
}

}  // namespace nacre::tools
