// schedule: chooses the order of the nodes, which decides which values live at one time.
//
// Finding the order of least memory is NP-complete (Sethi 1975, "Complete register allocation problems"). So a few
// orders are tried, and memory is planned for each: the source's, greedy, depth first with the first or the last input
// first, and a beam search, which can be exact on small graphs. The source's order stays unless another takes fewer
// bytes.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "tools/graph/operands.h"
#include "tools/model/model_limits.h"
#include "tools/passes/memory/orders.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// Greedy takes time nodes^2, the beam search nodes x width x ready nodes. Each takes about a second at its limit.
constexpr size_t kMostOrdered = 4000, kMostBeam = 512;
constexpr uint32_t kBeamWidth = 200;

class Builder {
 public:
  Builder(const Graph& graph, std::span<const Storage> held, bool keep_inputs, KernelSets kernels)
      : graph_(graph), kernels_(kernels), storage_of_(graph.values.size(), kNone), writers_(held.size()) {
    problem_.pieces.resize(held.size());
    for (size_t i = 0; i < held.size(); ++i) {
      storage_of_[size_t(held[i].root)] = int(i);
      problem_.pieces[i].bytes = aligned(held[i].block.bytes);
    }
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].alias_of != kNone) storage_of_[v] = storage_of_[size_t(graph.values[v].alias_of)];
    for (const Binding& b : graph.inputs) {
      OrderProblem::Piece& piece = problem_.pieces[size_t(storage_of_[size_t(b.value)])];
      piece.from_start = true;
      piece.to_end = piece.to_end || keep_inputs;
    }
    for (const Binding& b : graph.outputs) problem_.pieces[size_t(storage_of_[size_t(b.value)])].to_end = true;
  }

  OrderProblem run() {
    const size_t count = graph_.nodes.size();
    problem_.uses.resize(count);
    problem_.successors.resize(count);
    problem_.predecessors.resize(count);
    problem_.gives_way.resize(count);
    find_updated();
    for (uint32_t n = 0; n < count; ++n) {
      for (const ValueId v : graph_.nodes[n].inputs) read(n, v);
      if (graph_.nodes[n].guard != kNone) read(n, graph_.nodes[n].guard);
      order_updates(n);
      for (const uint32_t before : problem_.predecessors[n]) add(problem_.successors[before], n);
      for (const ValueId v : graph_.nodes[n].outputs) write(n, v);
      for (const uint32_t p : problem_.uses[n]) ++problem_.pieces[p].users;
    }
    for (uint32_t n = 0; n < count; ++n) find_gives_way(n);
    return std::move(problem_);
  }

 private:
  struct Written {
    uint64_t start, end;
    uint32_t node;
  };

  static void add(std::vector<uint32_t>& list, uint32_t item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }

  int storage(ValueId v) const { return v == kNone ? kNone : storage_of_[size_t(v)]; }

  ValueId root(ValueId v) const {
    const ValueId target = graph_.values[size_t(v)].alias_of;
    return target == kNone ? v : target;
  }

  Written range(ValueId v, uint32_t node) const {
    const Value& value = graph_.values[size_t(v)];
    const uint64_t start = value.alias_of == kNone ? 0 : value.offset;
    return {start, start + value_bytes(value), node};
  }

  void read(uint32_t n, ValueId v) {
    if (storage(v) == kNone) return;
    const auto piece = uint32_t(storage(v));
    add(problem_.uses[n], piece);
    const Written mine = range(v, n);
    for (const Written& w : writers_[piece])
      if (w.start < mine.end && mine.start < w.end) add(problem_.predecessors[n], w.node);
  }

  void find_updated() {
    updated_.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      const OpRule& rule = rule_of(graph_, node);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNone && is_updated(rule, i)) updated_[size_t(root(node.inputs[i]))] = true;
    }
  }

  // Keeps the source's order of reads and updates for values that nodes update, through every alias. An update comes
  // after all earlier uses of a byte that it changes. A read comes after all earlier updates of a byte that it reads.
  void order_updates(uint32_t n) {
    const Node& node = graph_.nodes[n];
    const OpRule& rule = rule_of(graph_, node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNone || !updated_[size_t(root(v))]) continue;
      std::vector<Use>& uses = uses_[root(v)];
      const Use mine = {range(v, n), is_updated(rule, i)};
      for (const Use& use : uses)
        if ((mine.updates || use.updates) && use.bytes.node != n && use.bytes.start < mine.bytes.end &&
            mine.bytes.start < use.bytes.end)
          add(problem_.predecessors[n], use.bytes.node);
      if (mine.updates)  // this update stands for the earlier uses of these bytes
        std::erase_if(uses, [&](const Use& use) {
          return mine.bytes.start <= use.bytes.start && use.bytes.end <= mine.bytes.end;
        });
      uses.push_back(mine);
    }
  }

  void write(uint32_t n, ValueId v) {
    if (storage(v) == kNone) return;
    const auto piece = uint32_t(storage(v));
    add(problem_.uses[n], piece);
    writers_[piece].push_back(range(v, n));
  }

  void find_gives_way(uint32_t n) {
    const Node& node = graph_.nodes[n];
    if (node.outputs.empty() || storage(node.outputs[0]) == kNone) return;
    const auto y = uint32_t(storage(node.outputs[0]));
    const uint32_t allowed = in_place_inputs(graph_, node, kernels_);
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 32); ++i)
      if (storage(node.inputs[i]) != kNone && (allowed >> i & 1) != 0) {
        const auto x = uint32_t(storage(node.inputs[i]));
        if (x != y && problem_.pieces[x].bytes == problem_.pieces[y].bytes) add(problem_.gives_way[n], x);
      }
  }

  struct Use {
    Written bytes;
    bool updates;
  };

  const Graph& graph_;
  KernelSets kernels_;
  std::vector<bool> updated_;                  // per root: whether a node updates it, or an alias of it
  std::map<ValueId, std::vector<Use>> uses_;   // per root
  std::vector<int> storage_of_;                // per value
  std::vector<std::vector<Written>> writers_;  // per storage
  OrderProblem problem_;
};

// Returns a number of bytes that every order needs: the bytes that the node with the most bytes uses while it runs.
uint64_t least_of_any_order(const Graph& graph, std::span<const Storage> held, KernelSets kernels) {
  const OrderProblem problem = Builder(graph, held, false, kernels).run();
  uint64_t most = 0;
  for (uint32_t n = 0; n < problem.nodes(); ++n) {
    uint64_t bytes = 0, padding = 0;
    for (const uint32_t p : problem.uses[n]) {
      bytes += problem.pieces[p].bytes;
      padding = std::max(padding, problem.pieces[p].bytes - held[p].block.bytes);
    }
    uint64_t given = 0;
    for (const uint32_t p : problem.gives_way[n]) given = std::max(given, problem.pieces[p].bytes);
    most = std::max(most, bytes - given - std::min(padding, bytes - given));
  }
  return most;
}

class Scheduler {
 public:
  Scheduler(Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  void run() {
    NodeOrder source(graph_.nodes.size());
    std::iota(source.begin(), source.end(), 0u);
    const std::vector<Storage> held = storages(graph_, source, target_.keep_inputs, kernels_of(target_));
    const uint64_t source_bound = liveness_bound(held);
    try_order("source", std::move(source));
    if (graph_.nodes.size() <= kMostOrdered && least_used_ > least_of_any_order(graph_, held, kernels_of(target_))) {
      const OrderProblem problem = Builder(graph_, held, target_.keep_inputs, kernels_of(target_)).run();
      try_order("greedy", greedy_order(problem));
      try_order("depth first", depth_first_order(problem, false));
      try_order("depth first, last input first", depth_first_order(problem, true));
      bool exact = false;
      if (graph_.nodes.size() <= kMostBeam) {
        NodeOrder found = beam_order(problem, kBeamWidth, aligned(source_bound), &exact);
        if (!found.empty()) try_order(exact ? "beam, exact" : "beam", std::move(found));
      }
    }
    apply();
  }

 private:
  void try_order(const char* name, NodeOrder order) {
    if (std::find(tried_.begin(), tried_.end(), order) != tried_.end()) return;
    const std::vector<Storage> held = storages(graph_, order, target_.keep_inputs, kernels_of(target_));
    const uint64_t bound = liveness_bound(held);
    const bool hopeless = bound >= least_used_;
    const uint64_t used = hopeless ? 0 : used_bytes(held, place_storages(held, kQuickEffort));
    log_ += (log_.empty() ? "" : ", ") + std::string(name) + ' ' +
            (hopeless ? "at least " + std::to_string(bound) : std::to_string(used));
    tried_.push_back(std::move(order));
    if (hopeless || used >= least_used_) return;
    least_used_ = used;
    least_bound_ = bound;
    best_ = tried_.size() - 1;
    best_name_ = name;
  }

  void apply() {
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    for (const uint32_t n : tried_[best_]) nodes.push_back(std::move(graph_.nodes[n]));
    graph_.nodes = std::move(nodes);
    graph_.log.push_back("schedule: bytes by order: " + log_ + "; kept " + best_name_ + ", liveness bound " +
                         std::to_string(least_bound_));
  }

  Graph& graph_;
  const Target& target_;
  std::vector<NodeOrder> tried_;
  size_t best_ = 0;
  uint64_t least_used_ = std::numeric_limits<uint64_t>::max(), least_bound_ = 0;
  std::string log_, best_name_;
};

}  // namespace

void schedule(Graph& graph, const Target& target) {
  require_steps(graph);
  make_views(graph);
  Scheduler(graph, target).run();
}

}  // namespace nacre::tools
