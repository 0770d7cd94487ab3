#include "tools/training/parameters.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/numeric/small_float.h"
#include "tools/error.h"
#include "tools/graph/operands.h"
#include "tools/passes/apply_policy.h"
#include "tools/training/trained_channels.h"

namespace nacre::tools {
namespace {

bool is_parameter(const OpRule& rule, size_t slot) { return slot < 32 && (rule.parameters >> slot & 1) != 0; }

// Constants of one number are factors of the network's arithmetic (a scale, an epsilon), no parameters, where the op takes any.
bool is_parameter_value(const Node& node, const Value& v) {
  if (!v.constant()) return false;
  const bool real = is_float_type(v.stored) || v.quantizer;
  return real && (v.elements() > 1 || node.op == Op::kDense || node.op == Op::kConv2d || node.op == Op::kDepthwiseConv2d ||
                  node.op == Op::kBatchNorm || node.op == Op::kLayerNorm);
}

// The slots of the node that hold parameters.
std::vector<size_t> parameter_slots(const Graph& graph, const Node& node) {
  const OpRule& rule = rule_of(graph, node);
  std::vector<size_t> slots;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNone && is_parameter(rule, i) && is_parameter_value(node, graph.values[size_t(node.inputs[i])]))
      slots.push_back(i);
  return slots;
}

template <class T>
std::vector<uint8_t> stored_as(const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * sizeof(T));
  for (size_t i = 0; i < x.size(); ++i) {
    const T element(x[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

std::vector<uint8_t> stored_as(ElementType type, const std::vector<float>& x) {
  switch (type) {
    case ElementType::kFloat64: return stored_as<double>(x);
    case ElementType::kFloat16: return stored_as<Float16>(x);
    case ElementType::kBfloat16: return stored_as<Bfloat16>(x);
    default: return stored_as<float>(x);
  }
}

// The type in which a layer keeps its variables: of a quantized policy the real numbers behind the codes.
ElementType variable_type(const Graph& graph, const Node& node) {
  if (node.layer == kNone || !graph.layers[size_t(node.layer)].asked) return ElementType::kFloat32;
  const ElementType type = graph.layers[size_t(node.layer)].policy.variable;
  return is_float_type(type) ? type : ElementType::kFloat32;
}

void move_to_state(const Graph& graph, Value& v, ElementType type, Kept kept) {
  const std::vector<float> x = reals(v);
  if (!std::ranges::all_of(x, [](float number) { return std::isfinite(number); }))
    throw Error(kBadInput, graph.source, v.name + " holds a number that is not finite: it cannot be trained",
                "the network was saved broken: train or export it again");
  v.initial = v.stored == type ? v.data : std::make_shared<const std::vector<uint8_t>>(stored_as(type, x));
  v.type = type;
  v.data = nullptr;
  v.stored = ElementType::kNone;
  v.quantizer.reset();
  v.region = Region::kState;
  v.kept = kept;
}

}  // namespace

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& p) { return RE2::FullMatch(name, p); });
}

std::vector<int> layers_to_train(const Graph& graph, const TrainedParameters& options, const std::function<bool(const Node&)>& takes,
                                 const char* what) {
  for (const std::string& pattern : options.layers)
    if (const RE2 expression(pattern, RE2::Quiet); !expression.ok())
      throw Error(kUsage, "--train-layers", fmt::format("'{}' is no pattern: {}", pattern, expression.error()));
  std::vector<int> layers;
  std::set<std::string> unused(options.layers.begin(), options.layers.end());
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone || !takes(node)) continue;
    const std::string& name = graph.layers[size_t(node.layer)].name;
    if (!matches_any(name, options.layers)) continue;
    for (const std::string& pattern : options.layers)
      if (RE2::FullMatch(name, pattern)) unused.erase(pattern);
    if (std::ranges::find(layers, node.layer) == layers.end()) layers.push_back(node.layer);
  }
  if (!unused.empty())
    throw Error(kUsage, "--train-layers", fmt::format("'{}' matches no layer that has {}", *unused.begin(), what),
                "nacre inspect NETWORK lists the layers");
  if (options.last_layers > 0 && layers.size() > size_t(options.last_layers))
    layers.erase(layers.begin(), layers.end() - options.last_layers);
  return layers;
}

void make_parameters(Graph& graph, const TrainedParameters& options) {
  const auto has_parameters = [&](const Node& node) { return !is_frozen_part(graph.layers[size_t(node.layer)].name) && !parameter_slots(graph, node).empty(); };
  const std::vector<int> layers = layers_to_train(graph, options, has_parameters, "parameters");
  std::set<ValueId> trained, frozen;
  for (const Node& node : graph.nodes) {
    const bool trains = std::ranges::find(layers, node.layer) != layers.end();
    for (const size_t slot : parameter_slots(graph, node)) {
      const bool bias = graph.values[size_t(node.inputs[slot])].dims.size() <= 1 && slot > 1;
      const bool takes = trains && (!options.biases_only || bias);
      (takes ? trained : frozen).insert(node.inputs[slot]);
      if (!takes) continue;
      Value& v = graph.values[size_t(node.inputs[slot])];
      if (v.constant()) move_to_state(graph, v, variable_type(graph, node), Kept::kParameter);
      v.trainable = true;
    }
  }
  for (const ValueId id : trained)
    if (frozen.contains(id))
      throw Error(kUnsupported, graph.source, graph.values[size_t(id)].name + " belongs to a layer that trains and to one that does not",
                  "train both, or neither");
  if (trained.empty())
    throw Error(kUsage, graph.source, "there is nothing to train: no layer that was named has parameters",
                "nacre inspect NETWORK lists the layers");
}

void make_statistics(Graph& graph, const TrainedParameters& options) {
  if (options.frozen_batch_norm) return;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kBatchNorm) continue;
    if (!graph.values[size_t(node.inputs[1])].trainable && !graph.values[size_t(node.inputs[2])].trainable) continue;
    for (const size_t slot : {3, 4}) {
      Value& v = graph.values[size_t(node.inputs[slot])];
      const ElementType type = variable_type(graph, node) == ElementType::kFloat64 ? ElementType::kFloat64 : ElementType::kFloat32;
      if (v.constant()) move_to_state(graph, v, type, Kept::kStatistic);
    }
  }
}

}  // namespace nacre::tools
