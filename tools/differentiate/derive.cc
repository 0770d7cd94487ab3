#include "tools/differentiate/derive.h"

#include <algorithm>
#include <map>
#include <string>

#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

class Derive {
 public:
  explicit Derive(Graph& derived) : derived_(derived) {}

  void run(std::span<Graph* const> programs) {
    for (Graph* program : programs) move_nodes(*program);
    if (!programs.empty()) {
      derived_.source = programs[0]->source;
      derived_.layers = programs[0]->layers;
    }
  }

 private:
  // Returns whether a node can move to `derive`. Its inputs must be constants, state or derived values, not all of them
  // constants, and none updated. It must not be a concat, have no guard, and one output, which is not the graph's.
  static bool is_derived(const Graph& graph, const Node& node) {
    const OpRule& rule = rule_of(graph, node);
    bool persistent = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const Value& v = graph.values[size_t(node.inputs[i])];
      if (is_updated(rule, i) || (!v.constant() && v.region != Region::kState && v.region != Region::kDerived))
        return false;
      persistent = persistent || v.persists();
    }
    for (const ValueId y : node.outputs)
      for (const Binding& b : graph.outputs)
        if (b.value == y) return false;
    return persistent && node.guard == kNone && node.outputs.size() == 1 && node.op != Op::kConcat;
  }

  // Returns a key. Two nodes with one key compute equal numbers.
  std::string key_of(const Graph& graph, const Node& node) const {
    std::string key = std::to_string(int(node.op)) + ' ' + std::to_string(int(node.rounding)) + ' ' +
                      std::to_string(int(graph.values[size_t(node.outputs[0])].type)) + ' ' +
                      std::to_string(int(graph.values[size_t(node.outputs[0])].layout));
    for (const uint32_t word : node.words) key += ' ' + std::to_string(word);
    for (const ValueId id : node.inputs) {
      key += '|';
      if (id == kNone) continue;
      const Value& v = graph.values[size_t(id)];
      key += v.constant() ? std::string(v.data->begin(), v.data->end()) : v.name;
    }
    return key;
  }

  ValueId copy(const Graph& graph, ValueId id) {
    if (id == kNone) return kNone;
    const Value& v = graph.values[size_t(id)];
    for (size_t i = 0; i < derived_.values.size(); ++i)
      if (derived_.values[i].name == v.name && derived_.values[i].constant() == v.constant()) return ValueId(i);
    return derived_.add(v);
  }

  void move_nodes(Graph& graph) {
    std::map<std::string, ValueId> here;  // by key, in this graph
    for (Node& node : graph.nodes) {
      if (!is_derived(graph, node)) continue;
      const std::string key = key_of(graph, node);
      const ValueId y = node.outputs[0];
      if (const auto found = here.find(key); found != here.end()) {  // computed twice
        for (Node& reader : graph.nodes) std::ranges::replace(reader.inputs, y, found->second);
      } else {
        here.emplace(key, y);
        Value& v = graph.values[size_t(y)];
        v.region = Region::kDerived;
        v.batched = false;
        if (const auto name = names_.find(key); name != names_.end()) {
          graph.rename(y, name->second);
        } else {
          names_.emplace(key, v.name);
          Node moved = node;
          for (ValueId& id : moved.inputs) id = copy(graph, id);
          moved.outputs = {copy(graph, y)};
          derived_.nodes.push_back(std::move(moved));
        }
      }
      node = {};
    }
    std::erase_if(graph.nodes, [](const Node& node) { return node.op == Op::kNone; });
  }

  Graph& derived_;
  std::map<std::string, std::string> names_;  // by key: name of the derived value
};

}  // namespace

void derive(std::span<Graph* const> programs, Graph* derived) { Derive(*derived).run(programs); }

}  // namespace nacre::tools
