#include "tools/differentiate/parameter_reads.h"

#include <algorithm>

#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

// Returns whether the op takes this slot as a parameter, or the slot holds a variable of the source and has a
// gradient.
bool takes_parameter(const OpRule& rule, size_t slot, const Value& v) {
  if (slot < 32 && (rule.parameters >> slot & 1) != 0) return true;
  return v.variable && std::ranges::any_of(rule.gradients, [&](const Gradient& row) {
           return is_variadic(rule) || std::ranges::count(row.of, uint8_t(slot)) > 0;
         });
}

// Returns whether an added constant is a mask, which shuts positions out of a softmax: each number is 0 or at most
// -10,000, and not all are 0. A parameter is hardly like that, because a layer's sums would lose their last digits.
bool is_mask(const Node& node, const Value& v) {
  if (node.op != Op::kAdd || v.variable || !v.constant() || !is_float_type(v.stored)) return false;
  const std::vector<float> numbers = reals(v);
  return std::ranges::all_of(numbers, [](float x) { return x == 0 || x <= -1e4f; }) &&
         std::ranges::any_of(numbers, [](float x) { return x != 0; });
}

// Returns whether the value can be a parameter. A constant of one number is a factor of the network's arithmetic (a
// scale, an epsilon) if the op takes any operand there, or if a step computes the operand from it.
bool is_parameter_value(const Node& node, const Value& v, bool as_it_is) {
  const bool real = v.constant() ? (is_float_type(v.stored) || v.quantizer) && !v.fixed : v.trainable;
  const bool counts = v.elements() > 1 || v.keeps_steps || v.variable;
  if (!real || is_mask(node, v)) return false;
  if (!as_it_is) return counts;
  return counts || is_matmul(node.op) || node.op == Op::kBatchNorm || node.op == Op::kLayerNorm;
}

}  // namespace

Sources sources_of(const Graph& graph) {
  Sources sources(graph.values.size());
  for (size_t id = 0; id < sources.size(); ++id)
    if (graph.values[id].constant() || graph.values[id].region == Region::kState) sources[id] = {ValueId(id)};
  for (const Node& node : graph.nodes) {
    std::set<ValueId> all;
    for (const ValueId id : node.inputs) {
      if (id == kNone) continue;
      if (sources[size_t(id)].empty()) all.clear();
      if (sources[size_t(id)].empty()) break;
      all.insert(sources[size_t(id)].begin(), sources[size_t(id)].end());
    }
    for (const ValueId y : node.outputs) sources[size_t(y)] = all;
  }
  return sources;
}

std::multimap<size_t, ValueId> weights_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                          const Sources& sources) {
  const OpRule& rule = rule_of(graph, node);
  std::multimap<size_t, ValueId> parameters;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    for (const ValueId id : sources[size_t(node.inputs[i])]) {
      const Value& v = graph.values[size_t(id)];
      const bool as_it_is = stored[size_t(node.inputs[i])] == id;
      if (takes_parameter(rule, i, v) && is_parameter_value(node, v, as_it_is)) parameters.emplace(i, id);
    }
  }
  return parameters;
}

std::multimap<size_t, ValueId> parameters_of(const Graph& graph, const Node& node, const std::vector<ValueId>& stored,
                                             const Sources& sources) {
  std::multimap<size_t, ValueId> parameters = weights_of(graph, node, stored, sources);
  std::erase_if(parameters, [&](const auto& weight) { return graph.values[size_t(weight.second)].frozen; });
  return parameters;
}

}  // namespace nacre::tools
