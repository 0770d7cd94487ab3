// Lists layers and constants that training does not change, because the source freezes them or no step reads them as
// parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "tools/base/format.h"
#include "tools/differentiate/parameter_reads.h"
#include "tools/differentiate/parameters.h"
#include "tools/graph/operands.h"

namespace nacre::tools {

std::vector<std::string> untrained_constants(const Graph& graph, const TrainedParameters& options) {
  if (options.biases_only) return {};
  require_patterns(options);
  const std::vector<ValueId> stored = stored_values(graph);
  const Sources sources = sources_of(graph);
  const auto layer_name = [&](const Node& node) {
    return node.layer == kNone ? std::string() : graph.layers[size_t(node.layer)].name;
  };
  std::set<ValueId> seen;  // constants that are parameters of some node, or that are listed already
  std::vector<int> trained;
  const std::vector<bool> reaches = reaching(graph, options);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!reaches[i]) continue;
    for (const auto& [slot, id] : weights_of(graph, node, stored, sources)) seen.insert(id);
    const bool trains =
        !parameters_of(graph, node, stored, sources).empty() && matches_any(layer_name(node), options.layers);
    if (trains && std::ranges::find(trained, node.layer) == trained.end()) trained.push_back(node.layer);
  }
  const size_t last = options.last_layers == 0 ? trained.size() : std::min(trained.size(), size_t(options.last_layers));
  bool behind = options.last_layers == 0;  // whether node i is in the first layer of --train-last, or behind it
  std::vector<std::string> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    behind = behind || std::ranges::find(trained.end() - ptrdiff_t(last), trained.end(), node.layer) != trained.end();
    const bool passes = node.op == Op::kTranspose || node.op == Op::kReshape ||
                        (node.op == Op::kBatchNorm && reaches[i]);  // forms of a constant; statistics
    if (!behind || passes || !matches_any(layer_name(node), options.layers)) continue;
    for (const ValueId input : node.inputs) {
      const ValueId id = input == kNone ? kNone : stored[size_t(input)];
      if (id == kNone || !graph.values[size_t(id)].constant()) continue;
      const Value& v = graph.values[size_t(id)];
      if ((v.elements() <= 1 && !v.variable && !v.keeps_steps) || v.frozen || v.fixed) continue;
      if (!is_float_type(v.stored) && !v.quantizer) continue;
      if (!seen.insert(id).second) continue;
      std::string op = node.layer == kNone ? "" : graph.layers[size_t(node.layer)].source_op;
      if (op.empty()) op = find_rule(node.op)->name;
      std::ranges::transform(op, op.begin(), [](unsigned char c) { return char(std::tolower(c)); });
      found.push_back(fmt::format("{} ({})", v.name, op));
    }
  }
  return found;
}

std::string not_trained_text(const std::vector<std::string>& constants) {
  constexpr size_t kMost = 4;
  if (constants.empty()) return "";
  const size_t shown = std::min(kMost, constants.size());
  const std::string names = fmt::format("{}", fmt::join(constants.begin(), constants.begin() + ptrdiff_t(shown), ", "));
  return "not trained: " + names +
         (constants.size() > shown ? fmt::format(" and {} more", constants.size() - shown) : "");
}

bool reads_frozen(const Graph& graph, const Node& node, const std::vector<ValueId>& stored) {
  return std::ranges::any_of(node.inputs, [&](ValueId id) {
    return id != kNone && stored[size_t(id)] != kNone && graph.values[size_t(stored[size_t(id)])].frozen;
  });
}

FrozenLayers frozen_layers(const Graph& graph) {
  const std::vector<ValueId> stored = stored_values(graph);
  const Sources sources = sources_of(graph);
  std::set<ValueId> counted;
  std::map<int, bool> frozen;  // by layer with weights or statistics: whether all are frozen
  FrozenLayers found;
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone) continue;
    if (reads_frozen(graph, node, stored)) frozen.try_emplace(node.layer, true);
    for (const auto& [slot, id] : weights_of(graph, node, stored, sources)) {
      const Value& v = graph.values[size_t(id)];
      frozen.try_emplace(node.layer, true).first->second &= v.frozen;
      if (!counted.insert(id).second) continue;
      found.of_weights += uint64_t(v.elements());
      if (v.frozen) found.weights += uint64_t(v.elements());
    }
  }
  found.of_layers = frozen.size();
  for (const auto& [layer, all] : frozen)
    if (all) found.names.push_back(graph.layers[size_t(layer)].name);
  return found;
}

std::string frozen_text(const FrozenLayers& found) {
  if (found.names.empty()) return "";
  const double share = found.of_weights == 0 ? 0 : 100 * double(found.weights) / double(found.of_weights);
  return fmt::format("frozen by the file: {} of {}, {:.3g} % of the weights", found.names.size(),
                     nacre::tools::counted(found.of_layers, "layer"), share);
}

std::vector<std::string> untrained_lines(const FrozenLayers& frozen, const std::vector<std::string>& constants) {
  std::vector<std::string> lines = {frozen_text(frozen), not_trained_text(constants)};
  std::erase(lines, "");
  return lines;
}

}  // namespace nacre::tools
