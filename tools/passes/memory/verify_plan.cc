// verify_plan: checks the rules of a memory plan from the graph alone. It shares only value_bytes and in_place_inputs
// with the planner. It finds lifetimes from the nodes again, and compares storages pair by pair.
#include <algorithm>
#include <string>

#include "tools/base/error.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

class PlanVerifier {
 public:
  PlanVerifier(const Graph& graph, KernelSets kernels)
      : graph_(graph), kernels_(kernels), used_(graph.values.size()), steps_(uint32_t(graph.nodes.size())) {}

  void run() {
    for (const Binding& b : graph_.inputs) input(b.value);
    for (uint32_t step = 0; step < steps_; ++step) node(step);
    for (const Binding& b : graph_.outputs) output(b.value);
    for (ValueId v = 0; v < ValueId(graph_.values.size()); ++v)
      if (at(v).alias_of != kNone) alias(v);
    for (ValueId v = 0; v < ValueId(graph_.values.size()); ++v)
      if (at(v).alias_of == kNone && used_[size_t(v)].any && arena(v)) placed(v);
    pairs();
  }

 private:
  struct Use {
    bool any = false, written = false, input = false, output = false;
  };

  [[noreturn]] void fail(ValueId v, const std::string& fact) const {
    throw Error(kBadInput, (graph_.source.empty() ? "" : graph_.source + ": ") + "tensor " + at(v).name, fact);
  }

  const Value& at(ValueId v) const { return graph_.values[size_t(v)]; }
  bool arena(ValueId v) const { return at(v).region == Region::kArena && !at(v).constant(); }
  static uint64_t bytes(const Value& v) { return value_bytes(v); }
  ValueId root(ValueId v) const { return at(v).alias_of == kNone ? v : at(v).alias_of; }
  uint64_t start(ValueId v) const { return at(v).alias_of == kNone ? 0 : at(v).offset; }  // offset in its root

  void input(ValueId v) {
    used_[size_t(v)] = {.any = true, .written = true, .input = true};
    if (at(v).alias_of != kNone) fail(v, "is an input and an alias");
    if (at(v).first_step != 0) fail(v, "is an input but lives from step " + std::to_string(at(v).first_step));
  }

  void output(ValueId v) {
    used_[size_t(v)].any = used_[size_t(v)].output = true;
    if (!arena(v)) fail(v, "is an output outside the arena");
    if (!filled(v)) fail(v, "is an output that no step writes");
    if (at(v).last_step + 1 != steps_)
      fail(v, "is an output but lives to step " + std::to_string(at(v).last_step) + " only");
  }

  void node(uint32_t step) {
    const Node& n = graph_.nodes[step];
    for (const ValueId v : n.inputs) {
      if (v == kNone || !arena(root(v))) continue;
      used_[size_t(v)].any = true;
      live(v, step);
      if (!filled(v)) fail(v, "is read by step " + std::to_string(step) + " before all of it is written");
    }
    for (const ValueId v : n.outputs) {
      Use& use = used_[size_t(v)];
      if (use.written) fail(v, "is written by step " + std::to_string(step) + " and was written before");
      if (at(v).first_step != step) fail(v, "is not written at its first step");
      use.any = use.written = true;
      written_by_root_[size_t(root(v))].push_back(v);
      live(v, step);
    }
  }

  void live(ValueId v, uint32_t step) const {
    for (const ValueId held : {v, root(v)})
      if (step < at(held).first_step || step > at(held).last_step)
        fail(held, "is used by step " + std::to_string(step) + ", outside its life");
  }

  // Returns whether every byte of v is in an input, or was written by a step through v or another alias of v's root.
  bool filled(ValueId v) {
    if (used_[size_t(root(v))].written || used_[size_t(v)].written) return true;
    std::vector<ValueId> parts = written_by_root_[size_t(root(v))];
    std::sort(parts.begin(), parts.end(), [this](ValueId a, ValueId b) { return start(a) < start(b); });
    uint64_t end = start(v);
    for (const ValueId part : parts)
      if (start(part) <= end) end = std::max(end, start(part) + bytes(at(part)));
    return end >= start(v) + bytes(at(v));
  }

  void alias(ValueId v) {
    const Value &record = at(v), &target = at(record.alias_of);
    if (target.alias_of != kNone) fail(v, "is an alias of an alias");
    if (record.offset + bytes(record) > bytes(target))
      fail(v, "reaches outside " + target.name + ", of which it is an alias");
    if (!arena(record.alias_of)) return;
    if (target.region != record.region || target.bank != record.bank)
      fail(v, "is an alias into another region or bank");
    if (record.first_step < target.first_step || record.last_step > target.last_step)
      fail(v, "lives longer than " + target.name + ", of which it is an alias");
    if (used_[size_t(v)].any) used_[size_t(record.alias_of)].any = true;
  }

  void placed(ValueId v) const {
    const Value& record = at(v);
    if (record.offset % kAlignment != 0) fail(v, "its offset is not a multiple of 16");
    if (record.bank >= graph_.banks.size()) fail(v, "lies in a bank that does not exist");
    const Bank& bank = graph_.banks[record.bank];
    if (record.offset + bytes(record) > bank.used)
      fail(v, "ends beyond the " + std::to_string(bank.used) + " bytes of " + bank.name);
    if (bank.limit != 0 && bank.used > bank.limit) fail(v, "lies in bank " + bank.name + ", which is over its limit");
  }

  void pairs() const {
    std::vector<ValueId> roots;
    for (ValueId v = 0; v < ValueId(graph_.values.size()); ++v)
      if (at(v).alias_of == kNone && arena(v) && used_[size_t(v)].any) roots.push_back(v);
    std::sort(roots.begin(), roots.end(), [this](ValueId a, ValueId b) { return at(a).first_step < at(b).first_step; });
    for (size_t i = 0; i < roots.size(); ++i)
      for (size_t j = i + 1; j < roots.size() && at(roots[j]).first_step <= at(roots[i]).last_step; ++j)
        pair(roots[i], roots[j]);
  }

  void pair(ValueId a, ValueId b) const {
    const Value &x = at(a), &y = at(b);
    if (x.bank != y.bank || x.offset >= y.offset + bytes(y) || y.offset >= x.offset + bytes(x)) return;
    if (takes_over(a, b) || takes_over(b, a)) return;
    fail(a, "shares bytes with " + y.name + " while both live");
  }

  // Returns whether y is output 0 of the step that reads x last, has the bytes of x, and the kernel works in place.
  bool takes_over(ValueId x, ValueId y) const {
    if (at(x).last_step != at(y).first_step || at(x).offset != at(y).offset || bytes(at(x)) != bytes(at(y)))
      return false;
    if (used_[size_t(x)].output) return false;
    const Node& n = graph_.nodes[at(y).first_step];
    if (n.outputs.empty() || n.outputs[0] != y) return false;
    const uint32_t allowed = in_place_inputs(graph_, n, kernels_);
    bool reads = false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNone || root(v) != x) continue;
      if (i >= 32 || (allowed >> i & 1) == 0 || bytes(at(v)) != bytes(at(x))) return false;
      reads = true;
    }
    return reads;
  }

  const Graph& graph_;
  KernelSets kernels_;
  std::vector<Use> used_;
  std::vector<std::vector<ValueId>> written_by_root_ = std::vector<std::vector<ValueId>>(graph_.values.size());
  uint32_t steps_;
};

}  // namespace

void verify_plan(const Graph& graph, KernelSets kernels) { PlanVerifier(graph, kernels).run(); }

}  // namespace nacre::tools
