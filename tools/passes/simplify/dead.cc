// Removes values that nothing reads, and nodes other than `store` whose outputs nothing reads.
#include <algorithm>

#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {

namespace {

bool is_read(const Rewriter& r, ValueId y) { return r.is_output(y) || !r.readers(y).empty(); }

// Returns whether nothing reads the outputs that a recurrence keeps for its backward step, or for a caller that wants
// the last cells. The form without these outputs has the same y and takes less memory.
bool keeps_in_vain(const Rewriter& r, const Node& node) {
  return (node.op == Op::kLstm || node.op == Op::kGru) && node.outputs.size() > 1 &&
         std::none_of(node.outputs.begin() + 1, node.outputs.end(), [&](ValueId y) { return is_read(r, y); });
}

}  // namespace

bool remove_dead_nodes(Rewriter& r) {
  size_t removed = 0;
  for (auto place = r.nodes.rbegin(); place != r.nodes.rend(); ++place) {
    if (place->op == Op::kNone || place->op == Op::kStore) continue;
    if (std::any_of(place->outputs.begin(), place->outputs.end(), [&](ValueId y) { return is_read(r, y); })) {
      if (!keeps_in_vain(r, *place)) continue;
      r.log(title(r, *place) + " keeps nothing but its output: nothing reads the rest");
      r.keep_first_output(*place);
      ++removed;
      continue;
    }
    r.log("removed " + title(r, *place) + ": nothing reads it");
    r.remove(*place);
    ++removed;
  }
  r.sweep();
  return removed > 0;
}

namespace {

// Gives a live value the name of the dead value for which it stands, because reports name the source's weights.
void inherit_names(Graph& graph, const std::vector<ValueId>& origins, std::vector<bool> used) {
  for (size_t i = 0; i < origins.size(); ++i) {
    if (!used[i] || origins[i] == kNone) continue;
    auto root = size_t(origins[i]);
    while (origins[root] != kNone) root = size_t(origins[root]);
    if (used[root]) continue;
    std::swap(graph.values[i].name, graph.values[root].name);
    used[root] = true;
  }
}

std::vector<bool> used_values(const Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto mark = [&](ValueId id) {
    if (id != kNone) used[size_t(id)] = true;
  };
  for (const Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), mark);
    std::for_each(node.outputs.begin(), node.outputs.end(), mark);
    mark(node.guard);
  }
  for (const Binding& b : graph.inputs) mark(b.value);
  for (const Binding& b : graph.outputs) mark(b.value);
  for (size_t i = graph.values.size(); i-- > 0;)
    if (used[i]) mark(graph.values[i].alias_of);
  return used;
}

}  // namespace

void remove_dead_values(Graph& graph, const std::vector<ValueId>& origins) {
  const std::vector<bool> used = used_values(graph);
  inherit_names(graph, origins, used);
  std::vector<ValueId> renamed(graph.values.size(), kNone);
  std::vector<Value> kept;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    renamed[i] = ValueId(kept.size());
    kept.push_back(std::move(graph.values[i]));
  }
  const auto rename = [&](ValueId& id) {
    if (id != kNone) id = renamed[size_t(id)];
  };
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), rename);
    std::for_each(node.outputs.begin(), node.outputs.end(), rename);
    rename(node.guard);
  }
  for (Binding& b : graph.inputs) rename(b.value);
  for (Binding& b : graph.outputs) rename(b.value);
  for (Value& v : kept) rename(v.alias_of);
  graph.values = std::move(kept);
}

}  // namespace nacre::tools
