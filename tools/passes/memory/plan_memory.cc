#include "tools/passes/memory/plan_memory.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "tools/graph/layouts.h"

namespace nacre::tools {
namespace {

ValueId root_of(const Graph& graph, ValueId v) {
  const Value& value = graph.values[size_t(v)];
  return value.alias_of == kNone ? v : value.alias_of;
}

bool in_arena(const Graph& graph, ValueId root) {
  const Value& value = graph.values[size_t(root)];
  return value.region == Region::kArena && !value.constant();
}

// Finds the storages by the value that holds their bytes, in the order of value ids.
class Lifetimes {
 public:
  Lifetimes(const Graph& graph, size_t steps, KernelSets kernels)
      : graph_(graph), kernels_(kernels), index_(graph.values.size(), kUnused), steps_(steps) {
    for (const Node& node : graph.nodes) {
      for (const ValueId v : node.inputs) mention(v);
      for (const ValueId v : node.outputs) mention(v);
      mention(node.guard);
    }
    for (const Binding& b : graph.inputs) mention(b.value);
    for (const Binding& b : graph.outputs) mention(b.value);
    for (size_t v = 0; v < index_.size(); ++v) {
      if (index_[v] == kUnused) continue;
      index_[v] = uint32_t(storages_.size());
      storages_.push_back(
          {.root = ValueId(v), .block = {value_bytes(graph.values[v]), uint32_t(steps), 0}, .takes_over = {}});
    }
  }

  std::vector<Storage> run(std::span<const uint32_t> order, bool keep_inputs) {
    for (const Binding& b : graph_.inputs) pin(b.value, true, keep_inputs);
    for (const Binding& b : graph_.outputs) pin(b.value, false, true);
    for (uint32_t step = 0; step < order.size(); ++step) {
      const Node& node = graph_.nodes[order[step]];
      for (const ValueId v : node.inputs) use(v, step);
      for (const ValueId v : node.outputs) use(v, step);
      use(node.guard, step);
    }
    for (uint32_t step = 0; step < order.size(); ++step) find_takeover(graph_.nodes[order[step]], step);
    return std::move(storages_);
  }

 private:
  static constexpr uint32_t kUnused = ~0u;

  void mention(ValueId v) {
    if (v == kNone) return;
    const ValueId root = root_of(graph_, v);
    if (in_arena(graph_, root)) index_[size_t(root)] = 0;
  }

  Storage* storage(ValueId v) {
    if (v == kNone) return nullptr;
    const uint32_t index = index_[size_t(root_of(graph_, v))];
    return index == kUnused ? nullptr : &storages_[index];
  }

  void pin(ValueId v, bool from_start, bool to_end) {
    Storage* s = storage(v);
    if (s == nullptr) return;
    if (from_start) s->block.first = 0;
    if (to_end && steps_ > 0) s->block.last = uint32_t(steps_) - 1;
    s->pinned = s->pinned || to_end;
  }

  void use(ValueId v, uint32_t step) {
    Storage* s = storage(v);
    if (s == nullptr) return;
    s->block.first = std::min(s->block.first, step);
    s->block.last = std::max(s->block.last, step);
    s->traffic += value_bytes(graph_.values[size_t(v)]);
  }

  // Lets output 0 take the bytes of an input that ends at this step. Each operand that lies in these bytes must cover
  // all of them, and the kernel must allow writing over each.
  void find_takeover(const Node& node, uint32_t step) {
    Storage* y = node.outputs.empty() ? nullptr : storage(node.outputs[0]);
    if (y == nullptr || y->root != node.outputs[0] || y->block.first != step) return;
    const uint32_t allowed = in_place_inputs(graph_, node, kernels_);
    for (size_t i = 0; i < node.inputs.size() && allowed != 0; ++i) {
      const Storage* x = storage(node.inputs[i]);
      if (x == nullptr || x == y || x->pinned || x->block.last != step || x->block.bytes != y->block.bytes) continue;
      bool all = true;
      for (size_t j = 0; j < node.inputs.size(); ++j)
        if (storage(node.inputs[j]) == x)
          all = all && j < 32 && (allowed >> j & 1) != 0 &&
                value_bytes(graph_.values[size_t(node.inputs[j])]) == x->block.bytes;
      const auto index = uint32_t(x - storages_.data());
      if (all && std::find(y->takes_over.begin(), y->takes_over.end(), index) == y->takes_over.end())
        y->takes_over.push_back(index);
    }
  }

  const Graph& graph_;
  KernelSets kernels_;
  std::vector<uint32_t> index_;  // per value: index of its storage
  std::vector<Storage> storages_;
  size_t steps_;
};

// Sets the steps of an alias: from the step that completes its bytes to the step of its last use.
class AliasSteps {
 public:
  explicit AliasSteps(Graph& graph) : graph_(graph), written_(graph.values.size(), kNever), read_(graph.values.size()) {
    for (uint32_t step = 0; step < graph.nodes.size(); ++step) {
      const Node& node = graph.nodes[step];
      for (const ValueId v : node.inputs)
        if (v != kNone) read_[size_t(v)] = step;
      if (node.guard != kNone) read_[size_t(node.guard)] = step;
      for (const ValueId v : node.outputs)
        if (v != kNone) written_[size_t(v)] = step;
    }
    for (const Binding& b : graph.outputs)
      read_[size_t(b.value)] = graph.nodes.empty() ? 0 : uint32_t(graph.nodes.size()) - 1;
  }

  void set() {
    std::vector<std::vector<ValueId>> written_parts(graph_.values.size());  // by root
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (written_[v] != kNever) written_parts[size_t(root_of(graph_, ValueId(v)))].push_back(ValueId(v));
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      Value& alias = graph_.values[v];
      if (alias.alias_of == kNone || !in_arena(graph_, alias.alias_of)) continue;
      const Value& root = graph_.values[size_t(alias.alias_of)];
      alias.bank = root.bank;
      alias.first_step = written_[v] != kNever ? written_[v] : root.first_step;
      if (written_[v] == kNever)
        for (const ValueId part : written_parts[size_t(alias.alias_of)])
          if (meets(alias, part)) alias.first_step = std::max(alias.first_step, written_[size_t(part)]);
      alias.last_step = std::max(alias.first_step, read_[v]);
    }
  }

 private:
  static constexpr uint32_t kNever = ~0u;

  bool meets(const Value& alias, ValueId part) const {
    const Value& p = graph_.values[size_t(part)];
    const uint64_t start = p.alias_of == kNone ? 0 : p.offset;
    return start < alias.offset + value_bytes(alias) && alias.offset < start + value_bytes(p);
  }

  Graph& graph_;
  std::vector<uint32_t> written_, read_;  // by value
};

std::string summary(const Graph& graph, size_t storages, size_t views, const char* order) {
  std::string text = "plan_memory: " + std::to_string(storages) + " tensors, " + std::to_string(views) + " aliases";
  for (const Bank& bank : graph.banks) text += ", " + bank.name + " " + std::to_string(bank.used) + " bytes";
  return text + ", liveness bound " + std::to_string(graph.liveness_bound) + ", order: " + order;
}

}  // namespace

uint64_t value_bytes(const Value& value) { return bytes_as(value.type, value); }

std::vector<Storage> storages(const Graph& graph, std::span<const uint32_t> order, bool keep_inputs,
                              KernelSets kernels) {
  return Lifetimes(graph, order.size(), kernels).run(order, keep_inputs);
}

void plan_memory(Graph& graph, const Target& target) {
  make_views(graph);
  std::vector<uint32_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  const std::vector<Storage> held = storages(graph, order, target.keep_inputs, kernels_of(target));
  graph.liveness_bound = liveness_bound(held);
  graph.banks = target.banks.empty() ? std::vector<Bank>{{"arena", 0, 0}} : target.banks;
  const Plan plan = place_in_banks(graph, held);
  for (Bank& bank : graph.banks) bank.used = 0;
  for (Value& v : graph.values)  // so that values that nothing uses have offset 0
    if (v.alias_of == kNone && v.region == Region::kArena) v.offset = v.first_step = v.last_step = v.bank = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    Value& root = graph.values[size_t(held[i].root)];
    root.offset = plan.offsets[i];
    root.bank = plan.banks[i];
    root.first_step = held[i].block.first;
    root.last_step = held[i].block.last;
    Bank& bank = graph.banks[root.bank];
    bank.used = std::max(bank.used, root.offset + held[i].block.bytes);
  }
  AliasSteps(graph).set();
  const auto is_alias = [](const Value& v) { return v.alias_of != kNone; };
  const auto aliases = size_t(std::count_if(graph.values.begin(), graph.values.end(), is_alias));
  graph.log.push_back(summary(graph, held.size(), aliases, plan.order));
}

}  // namespace nacre::tools
