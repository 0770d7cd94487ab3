// Makes a calibration from the ranges and scales that training learned. A network is compiled from it.
#include <cmath>
#include <cstring>
#include <map>

#include "engine/numeric/amax_history.h"
#include "engine/numeric/small_float.h"
#include "tools/calibration/static_plan.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/quantizer_names.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// Returns the amax from which a history's rule makes this scale. It tries the quotient, then its neighbours, because
// division rounds.
float amax_of(float scale, const Policy& policy) {
  const auto scale_of = [&](float amax) {
    return policy.update_order == UpdateOrder::kKeras ? keras_step(amax, 1, 448, policy.margin, true).scale
                                                      : delayed_scale(amax, 1, 448, policy.margin, true).scale;
  };
  const float factor = policy.update_order == UpdateOrder::kKeras ? 1 / scale : scale;
  const float near = 448 * power_of_two(-policy.margin) / factor;
  float below = near, above = near;
  for (int i = 0; i < 4; ++i) {
    if (scale_of(below) == scale) return below;
    if (scale_of(above) == scale) return above;
    below = std::nextafter(below, 0.0f);
    above = std::nextafter(above, kLargest);
  }
  return near;
}

// Finds the ranges of masks from those of the scores. Training keeps no ranges for masks.
void find_masks(const Graph& folded, Calibration& calibration) {
  SoftmaxMasks masks(folded);
  std::map<ValueId, Range> ranges;
  for (size_t id = 0; id < folded.values.size(); ++id) {
    const ValueRange* found = calibration.find(folded.values[id].name);
    if (found == nullptr) continue;
    ranges.emplace(ValueId(id), found->range);
    if (masks.is_scores(ValueId(id))) masks.set_lowest(ValueId(id), found->range.low);
  }
  calibration.masks = masks.limits(ranges);
  for (const auto& [name, low] : calibration.masks.low)
    if (calibration.find(name) == nullptr) calibration.ranges[name].range = {low, 0};
  for (const auto& [name, high] : calibration.masks.high)
    if (calibration.find(name) == nullptr) calibration.ranges[name].range = {0, high};
}

}  // namespace

Calibration trained_calibration(const Graph& simplified, const LoadedModel& model, std::span<const std::byte> state) {
  std::map<std::string, std::vector<float>> found;  // float32 values of the state, by name
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    if (r.region != Region::kState || r.element != ElementType::kFloat32) continue;
    std::vector<float>& numbers = found[model.tensor_name(id)];
    numbers.resize(size_t(r.bytes) / sizeof(float));
    std::memcpy(numbers.data(), state.data() + r.offset, numbers.size() * sizeof(float));
  }
  Calibration calibration;
  const QuantizerPlan plan = plan_ranges(simplified, nullptr, {});
  for (const StaticValue& v : plan.values.values)
    if (const auto range = found.find(plan.ranges[size_t(v.group)]); range != found.end())
      calibration.ranges[v.name].range = {range->second[0], range->second[1]};
  Graph folded = simplified;
  simplify(folded);
  find_masks(folded, calibration);
  for (const Node& node : simplified.nodes) {
    const Policy* policy = policy_of(simplified, node);
    if (policy == nullptr || policy->quantization != Quantization::kFloat8 || !is_matmul(node.op)) continue;
    const std::string& y = simplified.values[size_t(node.outputs[0])].name;
    auto scale = found.find(scale_name(y + "/x"));
    if (scale == found.end()) scale = found.find(scale_name(y + kFrozen + "/x"));  // of a layer beside an adapter
    if (scale != found.end())
      calibration.ranges[simplified.values[size_t(node.inputs[kX])].name].amaxes = {amax_of(scale->second[0], *policy)};
  }
  return calibration;
}

}  // namespace nacre::tools
