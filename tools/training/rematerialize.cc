#include "tools/training/rematerialize.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "tools/graph/operands.h"
#include "tools/passes/plan_memory.h"

namespace nacre::tools {
namespace {

uint64_t work_of(const Graph& graph, const Node& node) {
  const KernelEntry* entry = find_kernel(graph, node);
  if (entry == nullptr || entry->work == nullptr) return 0;
  const NodeOperands operands(graph, node);
  return entry->work({node.words.data(), int(node.words.size())}, {operands.tensors.data(), int(operands.tensors.size()), 0});
}

// Live bytes after every step, their largest, and their sum: the area that breaks ties.
struct Load {
  uint64_t peak = 0, area = 0;
  uint32_t at = 0;  // the first step of the peak
  std::vector<Storage> held;
};

Load load_of(const Graph& graph) {
  std::vector<uint32_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  Load load;
  load.held = storages(graph, order, false);
  std::vector<int64_t> change(graph.nodes.size() + 1, 0);
  for (const Storage& s : load.held) {
    change[s.block.first] += int64_t(aligned(s.block.bytes));
    change[s.block.last + 1] -= int64_t(aligned(s.block.bytes));
  }
  uint64_t live = 0;
  for (uint32_t step = 0; step < graph.nodes.size(); ++step) {
    live = uint64_t(int64_t(live) + change[step]);
    load.area += live;
    if (live > load.peak) load.peak = live, load.at = step;
  }
  return load;
}

bool reads(const Node& node, ValueId id) { return std::ranges::count(node.inputs, id) > 0 || node.guard == id; }

// A value that lives over `step` without being used there, whose node can run again.
struct Candidate {
  ValueId value;
  uint32_t writer, reader;  // its node, and the first that reads it after `step`
};

class Rematerialize {
 public:
  Rematerialize(Graph& graph, uint64_t limit) : graph_(graph), limit_(limit) {}

  Rematerialized run() {
    make_views(graph_);
    for (const Node& node : graph_.nodes) result_.work_before += work_of(graph_, node);
    const size_t most = 4 * graph_.nodes.size();
    Load load = load_of(graph_);
    while (load.peak > limit_ && graph_.nodes.size() < most && improve(load)) load = load_of(graph_);
    result_.bound = load.peak;
    return result_;
  }

 private:
  std::vector<Candidate> candidates(const Load& load) const {
    std::vector<bool> has_alias(graph_.values.size(), false);
    for (const Value& v : graph_.values)
      if (v.alias_of != kNone) has_alias[size_t(v.alias_of)] = true;
    std::vector<Candidate> found;
    for (const Storage& s : load.held) {
      if (s.block.first >= load.at || s.block.last <= load.at || s.pinned || has_alias[size_t(s.root)]) continue;
      const Node& writer = graph_.nodes[s.block.first];
      if (writer.outputs.size() != 1 || writer.outputs[0] != s.root || !is_pure(writer)) continue;
      if (reads(graph_.nodes[load.at], s.root)) continue;
      uint32_t reader = load.at + 1;
      while (reader < graph_.nodes.size() && !reads(graph_.nodes[reader], s.root)) ++reader;
      if (reader < graph_.nodes.size()) found.push_back({s.root, s.block.first, reader});
    }
    return found;
  }

  bool is_pure(const Node& node) const {
    const OpRule& rule = rule_of(graph_, node);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (is_updated(rule, i)) return false;
    return node.guard == kNone;
  }

  static void repeat(Graph& graph, const Candidate& c) {
    Value copy = graph.values[size_t(c.value)];
    copy.name += "/again";
    const ValueId again = graph.add(std::move(copy));
    Node node = graph.nodes[c.writer];
    node.outputs = {again};
    for (size_t i = c.reader; i < graph.nodes.size(); ++i) std::ranges::replace(graph.nodes[i].inputs, c.value, again);
    graph.nodes.insert(graph.nodes.begin() + c.reader, std::move(node));
  }

  // True if a repetition lowers the peak, or, at the same peak, the area.
  bool improve(const Load& load) {
    std::tuple<uint64_t, uint64_t, uint64_t> best = {load.peak, load.area, 0};
    const Candidate* chosen = nullptr;
    const std::vector<Candidate> all = candidates(load);
    for (const Candidate& c : all) {
      Graph trial = graph_;
      repeat(trial, c);
      const Load then = load_of(trial);
      const std::tuple<uint64_t, uint64_t, uint64_t> score = {then.peak, then.area, work_of(graph_, graph_.nodes[c.writer])};
      if (std::get<0>(score) > load.peak || std::tie(then.peak, then.area) >= std::tie(load.peak, load.area)) continue;
      if (chosen == nullptr || score < best) best = score, chosen = &c;
    }
    if (chosen == nullptr) return false;
    ++result_.steps;
    result_.work += work_of(graph_, graph_.nodes[chosen->writer]);
    repeat(graph_, *chosen);
    return true;
  }

  Graph& graph_;
  uint64_t limit_;
  Rematerialized result_;
};

}  // namespace

Rematerialized rematerialize(Graph& gradients, uint64_t limit) {
  const Rematerialized result = Rematerialize(gradients, limit).run();
  gradients.log.push_back("rematerialize: " + std::to_string(result.steps) + " steps twice, " + std::to_string(result.work) + " of " +
                          std::to_string(result.work_before) + " multiply-accumulates more, at least " + std::to_string(result.bound) +
                          " bytes");
  return result;
}

}  // namespace nacre::tools
