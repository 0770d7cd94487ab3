#include "tools/report/kept_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "engine/base/tensor.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

struct Widened {
  uint64_t before = 0, now = 0;
  std::set<int> layers;
};

// Returns whether an input of the op is a weight: a parameter of its rule with two or more axes.
bool is_matrix(const OpRule& rule, size_t input, size_t rank) {
  return (rule.parameters >> input & 1) != 0 && rank > 1;
}

}  // namespace

std::vector<std::string> kept_weights(const LoadedModel& model, uint32_t program) {
  const ProgramView view = model.model().program(program);
  std::map<std::pair<uint32_t, ElementType>, uint64_t> bytes;  // by layer
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const StepRecord& step : model.model().steps().subspan(view.first_step, view.step_count)) {
    const OpRule* rule = find_rule(step.op);
    if (step.layer == kNoIndex || rule == nullptr) continue;
    for (size_t i = 0; i < std::min<size_t>(step.operand_count, 32); ++i) {
      const uint32_t tensor = model.model().operands(step)[i] & kOperandIdMask;
      if (tensor == kNoOperand) continue;
      const TensorRecord& r = model.model().tensors()[tensor];
      const bool held = r.region == Region::kWeights || r.region == Region::kDerived;
      if (!held || !is_matrix(*rule, i, r.rank) || !is_float_type(r.element)) continue;
      if (seen.emplace(step.layer, tensor).second) bytes[{step.layer, r.element}] += r.bytes;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [of, count] : bytes) {
    const LayerName layer = model.layer(of.first);
    if (layer.policy.quantization == Quantization::kNone) continue;
    lines.push_back(fmt::format("{} ({}): {} has no form for its weights: they stay {}, {} bytes", layer.name,
                                layer.source_op, policy_name(layer.policy), name_of(of.second), grouped(count)));
  }
  return lines;
}

std::vector<std::string> widened_weights(const Graph& compiled) {
  // by the types in the file and in the model, and by layer; for floats all layers together
  std::map<std::tuple<ElementType, ElementType, int>, Widened> found;
  std::set<ValueId> seen;
  for (const Node& node : compiled.nodes)
    for (const ValueId id : node.inputs) {
      if (id == kNone) continue;
      const Value& v = compiled.values[size_t(id)];
      const bool asked = node.layer != kNone && compiled.layers[size_t(node.layer)].asked;
      if (!v.constant() || v.source_type == ElementType::kNone || asked || v.dims.empty()) continue;
      const auto elements = uint64_t(v.elements());
      const uint64_t before = storage_bytes(v.source_type, elements), now = storage_bytes(v.stored, elements);
      if (now <= before || !seen.insert(id).second) continue;
      const bool codes = !is_float_type(v.source_type);
      Widened& widened = found[{v.source_type, v.stored, codes ? node.layer : kNone}];
      widened.before += before;
      widened.now += now;
      widened.layers.insert(node.layer);
    }
  std::vector<std::string> lines;
  for (const auto& [of, widened] : found) {
    const auto [from, to, layer] = of;
    const std::string what = fmt::format("{} weights of the file become {}: {} bytes instead of {}", name_of(from),
                                         name_of(to), grouped(widened.now), grouped(widened.before));
    if (layer == kNone) lines.push_back(fmt::format("{}, in {}", what, counted(widened.layers.size(), "layer")));
    else
      lines.push_back(fmt::format("{} ({}): {}", compiled.layers[size_t(layer)].name,
                                  compiled.layers[size_t(layer)].source_op, what));
  }
  return lines;
}

std::string kept_weights_text(const std::vector<std::string>& kept, const std::vector<std::string>& widened) {
  std::string text;
  for (const auto& [heading, lines] : {std::pair("weights wider than their policy says:", &kept),
                                       std::pair("weights wider than in the file:", &widened)}) {
    if (!lines->empty()) text += std::string(heading) + "\n";
    for (const std::string& line : *lines) text += "  " + line + "\n";
  }
  return text;
}

}  // namespace nacre::tools
