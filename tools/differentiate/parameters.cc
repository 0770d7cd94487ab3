#include "tools/differentiate/parameters.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/calibration/static_plan.h"
#include "tools/differentiate/loss_output.h"
#include "tools/differentiate/parameter_reads.h"
#include "tools/differentiate/trained_channels.h"
#include "tools/graph/operands.h"
#include "tools/graph/row_places.h"
#include "tools/policies/pattern.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

template <class T>
std::vector<uint8_t> elements_of(const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * sizeof(T));
  for (size_t i = 0; i < x.size(); ++i) {
    const T element(x[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

// Returns the type in which a layer keeps its variables. Under a quantized policy that is the type of the real numbers
// behind the codes.
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

std::vector<bool> reaching(const Graph& graph, const TrainedParameters& options) {
  if (options.output.empty()) return std::vector<bool>(graph.nodes.size(), true);
  return nodes_before(graph, loss_output(graph, options.output));
}

void require_patterns(const TrainedParameters& options) {
  for (const std::string& pattern : options.layers)
    require_pattern(pattern, {option("train-layers", in_quotes(pattern))});
}

std::vector<uint8_t> stored_as(ElementType type, const std::vector<float>& x) {
  switch (type) {
    case ElementType::kFloat64: return elements_of<double>(x);
    case ElementType::kFloat16: return elements_of<Float16>(x);
    case ElementType::kBfloat16: return elements_of<Bfloat16>(x);
    default: return elements_of<float>(x);
  }
}

std::vector<ValueId> stored_values(const Graph& graph) {
  std::vector<ValueId> stored(graph.values.size(), kNone);
  for (size_t id = 0; id < stored.size(); ++id)
    if (graph.values[id].constant() || graph.values[id].region == Region::kState) stored[id] = ValueId(id);
  for (const Node& node : graph.nodes)
    if (node.op == Op::kTranspose || node.op == Op::kReshape)
      stored[size_t(node.outputs[0])] = stored[size_t(node.inputs[0])];
  return stored;
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() ||
         std::ranges::any_of(patterns, [&](const std::string& p) { return RE2::FullMatch(name, p); });
}

std::vector<int> layers_to_train(const Graph& graph, const TrainedParameters& options,
                                 const std::function<bool(const Node&)>& takes, const char* what) {
  require_patterns(options);
  const std::vector<ValueId> stored = stored_values(graph);
  std::vector<int> layers;
  std::set<std::string> unused(options.layers.begin(), options.layers.end()), frozen;
  const std::vector<bool> reaches = reaching(graph, options);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.layer == kNone || !reaches[i]) continue;
    const std::string& name = graph.layers[size_t(node.layer)].name;
    if (reads_frozen(graph, node, stored)) frozen.insert(name);
    if (!takes(node) || !matches_any(name, options.layers)) continue;
    for (const std::string& pattern : options.layers)
      if (RE2::FullMatch(name, pattern)) unused.erase(pattern);
    if (std::ranges::find(layers, node.layer) == layers.end()) layers.push_back(node.layer);
  }
  for (const std::string& pattern : unused)
    for (const std::string& name : frozen)
      if (RE2::FullMatch(name, pattern))
        throw Error(kUsage, option("train-layers"), fmt::format("'{}' names {}, which the file freezes", pattern, name),
                    "unfreeze it: " + option("unfreeze", in_quotes(pattern)));
  if (!unused.empty())
    throw Error(kUsage, option("train-layers"), fmt::format("'{}' matches no layer that has {}", *unused.begin(), what),
                "nacre inspect NETWORK lists the layers");
  if (size_t(options.last_layers) > layers.size())
    throw Error(kUsage,
                fmt::format("{train_last} {}", options.last_layers, fmt::arg("train_last", option("train-last"))),
                fmt::format("{} here can be trained: those with {}", counted(layers.size(), "layer"), what),
                "give at most that, or leave it out");
  if (options.last_layers > 0) layers.erase(layers.begin(), layers.end() - options.last_layers);
  return layers;
}

void refuse_fits(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone || !is_matmul(node.op)) continue;
    const Layer& layer = graph.layers[size_t(node.layer)];
    if (!layer.asked || layer.policy.weight_fit == WeightFit::kNearest) continue;
    throw Error(
        kUnsupported, layer_place(graph, node),
        fmt::format("{} fits codes to weights that are trained already", name_of(layer.policy.weight_fit)),
        fmt::format("train under float32, and compile what was learned: nacre export {network_network} "
                    "{policy} '{}' {calibrate_data}",
                    policy_text(layer.policy), fmt::arg("network_network", option("network", "NETWORK")),
                    fmt::arg("policy", option("policy")), fmt::arg("calibrate_data", option("calibrate", "DATA"))));
  }
}

void refuse_quantized_forms(const Graph& graph) {
  const std::vector<ValueId> stored = stored_values(graph);
  const Sources sources = sources_of(graph);
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone) continue;
    const Layer& layer = graph.layers[size_t(node.layer)];
    if (!layer.asked || layer.policy.quantization == Quantization::kNone) continue;
    if (find_rule(node.op)->numerics != Numerics::kMatmul) continue;  // other ops have no codes of their own
    for (const auto& [slot, id] : parameters_of(graph, node, stored, sources))
      if (id != node.inputs[slot] && slot < 2)  // biases have no codes
        throw Error(kUnsupported, graph.source,
                    fmt::format("{} reads {} in another form than the layer that it shares it with: it cannot be "
                                "trained under a policy that "
                                "quantizes it",
                                layer.name, graph.values[size_t(id)].name),
                    "train it in float32 or 16 bits, and export " + option("network") + " under that policy");
  }
}

void refuse_shared_codes(const Graph& graph, const TrainedParameters& options) {
  const std::vector<ValueId> stored = stored_values(graph);
  const Sources sources = sources_of(graph);
  std::map<ValueId, std::vector<std::string>> readers;  // names of layers
  for (const Node& node : graph.nodes)
    for (const auto& [slot, id] : parameters_of(graph, node, stored, sources))
      readers[id].push_back(node.layer == kNone ? "" : graph.layers[size_t(node.layer)].name);
  for (const auto& [id, layers] : readers)
    if (layers.size() > 1 &&
        std::ranges::any_of(layers, [&](const std::string& layer) { return matches_any(layer, options.layers); }))
      throw Error(kUnsupported, graph.source,
                  graph.values[size_t(id)].name + " is shared by layers: its codes cannot be trained",
                  "train without " + option("train-codes") + ", and export " + option("network") + " under the policy");
}

void make_parameters(Graph& graph, const TrainedParameters& options) {
  const std::vector<ValueId> stored = stored_values(graph);
  const Sources sources = sources_of(graph);
  const auto has_parameters = [&](const Node& node) {
    return !is_frozen_part(graph.layers[size_t(node.layer)].name) &&
           !parameters_of(graph, node, stored, sources).empty();
  };
  const std::vector<int> layers = layers_to_train(graph, options, has_parameters, "parameters");
  if (layers.empty() && std::ranges::any_of(graph.values, &Value::frozen))
    throw Error(kUsage, graph.source, "there is nothing to train: the file freezes all its layers",
                "unfreeze what is to train: " + option("unfreeze", "PATTERN") + ", or all");
  std::set<ValueId> trained, frozen, biases;
  for (const Node& node : graph.nodes)
    for (const auto& [slot, id] : parameters_of(graph, node, stored, sources))
      if (slot > 1 && graph.values[size_t(id)].dims.size() <= 1) biases.insert(id);
  const std::vector<bool> reaches = reaching(graph, options);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!reaches[i]) continue;
    const bool trains = std::ranges::find(layers, node.layer) != layers.end();
    for (const auto& [slot, id] : parameters_of(graph, node, stored, sources)) {
      Value& v = graph.values[size_t(id)];
      const bool takes = trains && (!options.biases_only || biases.contains(id));
      (takes ? trained : frozen).insert(id);
      if (!takes) continue;
      if (v.constant()) move_to_state(graph, v, variable_type(graph, node), Kept::kParameter);
      v.trainable = true;
    }
  }
  for (const ValueId id : trained)
    if (frozen.contains(id))
      throw Error(kUnsupported, graph.source,
                  graph.values[size_t(id)].name + " belongs to a layer that trains and to one that does not",
                  "train both, or neither");
  if (trained.empty())
    throw Error(kUsage, graph.source, "there is nothing to train: no layer that was named has parameters",
                "nacre inspect NETWORK lists the layers");
}

void store_frozen_forms(Graph& graph) {
  for (Node& node : graph.nodes) {
    const auto plain_constant = [&](ValueId id) {
      return id == kNone || (graph.values[size_t(id)].constant() && !graph.values[size_t(id)].quantizer);
    };
    if (node.inputs.empty() || node.outputs.size() != 1 || !std::ranges::all_of(node.inputs, plain_constant)) continue;
    const bool is_output = std::ranges::count(graph.outputs, node.outputs[0], &Binding::value) > 0;
    if (is_output) continue;
    Value& y = graph.values[size_t(node.outputs[0])];
    y.data = std::make_shared<const std::vector<uint8_t>>(std::move(evaluate(graph, node)[0]));
    y.stored = y.type;
    y.region = Region::kWeights;
    y.batched = false;
    node = {};
  }
  std::erase_if(graph.nodes, [](const Node& node) { return node.op == Op::kNone; });
}

void separate_statistics(Graph& graph) {
  enum Slot { kMean = 3, kVariance = 4 };
  // The slot of a statistic, and the norm's parameters and statistics.
  using Reader = std::pair<size_t, std::vector<ValueId>>;
  const auto reader_of = [](const Node& node, size_t slot) {
    const bool statistic = node.op == Op::kBatchNorm && (slot == kMean || slot == kVariance);
    return statistic ? Reader(slot, {node.inputs.begin() + 1, node.inputs.begin() + 5}) : Reader();
  };
  std::map<ValueId, Reader> owner;  // who keeps a constant: a reader of another kind, else the first reader
  for (const Node& node : graph.nodes)
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Reader reader = reader_of(node, slot);
      const auto [found, is_new] = owner.try_emplace(node.inputs[slot], reader);
      if (reader == Reader()) found->second = reader;
    }
  std::map<std::pair<ValueId, Reader>, ValueId> copies;
  for (Node& node : graph.nodes) {
    const Node as_read = node;
    for (const size_t slot : {kMean, kVariance}) {
      if (node.op != Op::kBatchNorm || !graph.values[size_t(node.inputs[slot])].constant()) continue;
      const ValueId id = as_read.inputs[slot];
      const Reader reader = reader_of(as_read, slot);
      if (owner.at(id) == reader) continue;
      const auto [copy, is_new] = copies.try_emplace({id, reader}, kNone);
      if (is_new) {
        Value v = graph.values[size_t(id)];
        v.name += slot == kMean ? "/mean" : "/variance";
        copy->second = graph.add(std::move(v));
      }
      node.inputs[slot] = copy->second;
    }
  }
}

void make_statistics(Graph& graph, const TrainedParameters& options) {
  if (options.frozen_batch_norm) return;
  const Sources sources = sources_of(graph);
  const auto all_of = [&](ValueId id, bool Value::*flag) {
    return std::ranges::all_of(sources[size_t(id)], [&](ValueId source) { return graph.values[size_t(source)].*flag; });
  };
  const auto trains = [&](ValueId id) {
    return std::ranges::any_of(sources[size_t(id)],
                               [&](ValueId source) { return graph.values[size_t(source)].trainable; });
  };
  // A norm without scale and bias learns only its statistics.
  const auto learns = [&](const Node& node) {
    if (node.layer == kNone || options.biases_only || options.last_layers > 0) return false;
    return all_of(node.inputs[1], &Value::fixed) && all_of(node.inputs[2], &Value::fixed) &&
           matches_any(graph.layers[size_t(node.layer)].name, options.layers);
  };
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kBatchNorm || graph.values[size_t(node.inputs[3])].frozen) continue;
    if (!trains(node.inputs[1]) && !trains(node.inputs[2]) && !learns(node)) continue;
    for (const size_t slot : {3, 4}) {
      Value& v = graph.values[size_t(node.inputs[slot])];
      const ElementType type =
          variable_type(graph, node) == ElementType::kFloat64 ? ElementType::kFloat64 : ElementType::kFloat32;
      if (v.constant()) move_to_state(graph, v, type, Kept::kStatistic);
    }
  }
}

}  // namespace nacre::tools
