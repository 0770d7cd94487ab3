#include "tools/differentiate/training_quantizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "engine/numeric/small_float.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/fake_quantize.h"
#include "tools/base/names.h"
#include "tools/calibration/static_plan.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/loss_output.h"
#include "tools/differentiate/loss_step.h"
#include "tools/differentiate/masked_scores.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/quantizer_names.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"
#include "tools/policies/policy_fields.h"

namespace nacre::tools {
namespace {

std::shared_ptr<const std::vector<uint8_t>> bytes_of(std::span<const float> x) {
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  return std::make_shared<const std::vector<uint8_t>>(first, first + x.size_bytes());
}

class AddQuantizers {
 public:
  AddQuantizers(Graph& graph, const QuantizerPlan& plan, const TrainingOptions& options, bool trains)
      : graph_(graph), plan_(plan), options_(options.quantizers), trains_(trains),
        skipped_(skips_last_step(graph, options.loss) ? loss_output(graph, options.loss.output) : kNone) {
    const SoftmaxMasks masks(graph);
    for (ValueId id = 0; size_t(id) < graph.values.size(); ++id) {
      if (masks.holds_mask(id)) masked_.insert(id);
      if (masks.only_masks(id)) masks_.insert(id);
    }
    for (const StaticValue& v : plan.values.values) static_.emplace(v.name, &v);
  }

  void run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node node : nodes) {
      for (ValueId& id : node.inputs) id = read(node, id);
      if (const Policy* policy = policy_of(graph_, node); policy != nullptr && is_matmul(node.op))
        quantize_layer(node, *policy);
      graph_.nodes.push_back(node);
      if (behind_ != kNone) finish_gradient(node);
      for (const ValueId y : node.outputs) write(node, y);
    }
    for (Binding& b : graph_.outputs)
      if (const auto found = rounded_.find(b.value); found != rounded_.end()) b.value = found->second;
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  const StaticValue* static_of(ValueId id) const {
    const auto found = static_.find(value(id).name);
    return found == static_.end() ? nullptr : found->second;
  }
  bool is_static(const Node& node) const {
    const Policy* policy = policy_of(graph_, node);
    return policy != nullptr && policy->quantization == Quantization::kInt8Static &&
           facts_of(node.op).calibrated != StaticForm::kReal;
  }

  ValueId add(const std::string& name, ElementType type, std::vector<int64_t> dims, Region region) {
    for (size_t id = 0; id < graph_.values.size(); ++id)
      if (graph_.values[id].name == name) return ValueId(id);
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    v.region = region;
    v.kept = Kept::kNumerics;
    return graph_.add(std::move(v));
  }

  ValueId like(ValueId x, const std::string& suffix) {
    Value v;
    v.name = value(x).name + suffix;
    v.dims = value(x).dims;
    v.batched = value(x).batched;
    return graph_.add(std::move(v));
  }

  // Makes a step at `near` that rounds x. Weights are rounded in float32, as the converter rounds them. So in layers
  // that compute in 16 bits the step belongs to no layer, except under float8 with every operation rounded to the
  // layer's type.
  Node step(Op op, const Node& near, ValueId x, ValueId y, bool weights) {
    Node node = make_step(op, near, value(y).name, {x}, {y});
    const Policy* policy = policy_of(graph_, near);
    const bool narrow = policy != nullptr && tools::narrow(policy->compute);
    const bool rounds_each = narrow && op == Op::kFakeFloat8 && policy->operation_rounding == OperationRounding::kEach;
    if (weights && narrow && !rounds_each) node.layer = kNone;
    return node;
  }

  // ---- int8/static activations ----

  // Returns the value that `node` reads in place of `id`: rounded or as it is.
  ValueId read(const Node& node, ValueId id) {
    if (id == kNone || masks_.contains(id)) return id;
    const StaticValue* v = static_of(id);
    if (v == nullptr || v->moved) return id;
    if (node.op == Op::kConcat && is_static(node) && static_of(node.outputs[0]) != nullptr &&
        joins(*v, *static_of(node.outputs[0])))
      return id;  // the concat's output is rounded, so its range is observed on reals
    if (v->by_codes || is_static(node)) {
      if (const auto found = rounded_.find(id); found != rounded_.end()) return found->second;
      if (!v->by_codes) return round_activation(node, id, *v);
    }
    return id;
  }

  static bool joins(const StaticValue& x, const StaticValue& y) { return x.group == y.group; }

  void write(const Node& node, ValueId y) {
    const StaticValue* v = static_of(y);
    // A cross-entropy reads the input of its softmax or sigmoid, which is the last step before it.
    if (v == nullptr || v->moved || !v->by_codes || y == skipped_) return;
    round_activation(node, y, *v);
  }

  ValueId round_activation(const Node& near, ValueId whole, const StaticValue& v) {
    const ValueId x = masked_.contains(whole) ? add_unmasked(graph_, near, whole) : whole;
    ValueId range = range_of(v);
    const bool runs = !options_.learned_ranges && !plan_.ranges[size_t(v.group)].empty();
    if (trains_ && runs) range = observe(near, x, v, range);
    const ValueId y = like(whole, "/int8");
    Node node = step(Op::kFakeQuantize, near, x, y, false);
    node.inputs.insert(node.inputs.end(), {range, kNone});
    graph_.nodes.push_back(std::move(node));
    return rounded_[whole] = y;
  }

  // Returns the range by which x is rounded: its own ends, so nothing is cut until ranges freeze. One value of a group
  // makes the running range, which is deployed. Other values are rounded by that range, widened to their ends, and no
  // update reads their sums.
  ValueId observe(const Node& near, ValueId x, const StaticValue& v, ValueId range) {
    const std::string name = v.observed ? plan_.ranges[size_t(v.group)] : range_name(v.name);
    const bool freezes = options_.freeze_steps > 0;
    const ValueId sum = add(name + "/sum", ElementType::kFloat32, {2}, Region::kStep);
    const ValueId batches = add(name + "/batches", ElementType::kFloat32, {1}, Region::kStep);
    Value used;
    used.name = name + "/used";
    used.dims = {2};
    Node node = make_step(Op::kObserveRange, near, name + "/observe", {x, sum, batches}, {graph_.add(std::move(used))});
    if (!v.observed) set_integer(node, "widen", 1);
    if (freezes || !v.observed) node.inputs.push_back(range);
    if (freezes) {
      const ValueId step = add(kStepCountName, ElementType::kUint32, {1}, Region::kState);
      graph_.values[size_t(step)].kept = Kept::kCounter;
      node.inputs.push_back(step);
      set_integer(node, "freeze", int(options_.freeze_steps));
    }
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs[0];
  }

  ValueId range_of(const StaticValue& v) {
    const auto group = size_t(v.group);
    const float ends[] = {plan_.initial[group].low, plan_.initial[group].high};
    if (const std::string& name = plan_.ranges[group]; !name.empty()) {
      const ValueId id = add(name, ElementType::kFloat32, {2}, Region::kState);
      Value& range = graph_.values[size_t(id)];
      range.initial = bytes_of(ends);
      range.kept = options_.learned_ranges ? Kept::kParameter : Kept::kNumerics;
      range.trainable = options_.learned_ranges;
      return id;
    }
    if (const auto found = fixed_.find(v.group); found != fixed_.end()) return found->second;
    const ValueId id = graph_.constant(range_name(v.name), {2}, std::vector<float>{ends[0], ends[1]});
    fixed_.emplace(v.group, id);
    return id;
  }

  void quantize_layer(Node& node, const Policy& policy) {
    const Value& w = value(node.inputs[kW]);
    if (!w.constant() && w.region != Region::kState) return;
    switch (policy.quantization) {
      case Quantization::kInt8Static:
        if (rounds(node.inputs[kX])) round_weights(node, FakeQuantize::kStatic, "/int8");
        return;
      case Quantization::kInt8Weights: return round_weights(node, FakeQuantize::kWeights, "/int8");
      case Quantization::kInt4Weights: return round_weights(node, FakeQuantize::kAbsMax4, "/int4");
      case Quantization::kInt8Dynamic:
        if (policy.scale_form != ScaleForm::kReciprocal) return;
        round_weights(node, FakeQuantize::kAbsMax8, "/int8");
        return round_rows(node);
      case Quantization::kFloat8:
      case Quantization::kFloat8Current: return to_float8(node, policy);
      case Quantization::kNone: return;
      default:
        throw Error(kUnsupported, layer_place(graph_, node),
                    fmt::format("training does not round weights as {} does", name_of(policy.quantization)),
                    "train it in float32, and export under this policy");
    }
  }

  bool rounds(ValueId x) const {
    return std::ranges::any_of(rounded_, [&](const auto& pair) { return pair.second == x; }) ||
           (static_of(x) != nullptr && static_of(x)->moved);
  }

  void round_weights(Node& node, uint32_t rule, const char* suffix) {
    const ValueId w = node.inputs[kW];
    const auto key = std::pair(w, rule);
    if (!weights_.contains(key)) {
      Node rounding = step(Op::kFakeQuantize, node, w, like(w, suffix), true);
      rounding.inputs.insert(rounding.inputs.end(), {kNone, kNone});
      set_integer(rounding, "rule", int(rule));
      set_integer(rounding, "per_channel", 1);
      set_integer(rounding, "axis", node.op == Op::kDepthwiseConv2d ? 2 : 0);
      weights_[key] = rounding.outputs[0];
      graph_.nodes.push_back(std::move(rounding));
    }
    node.inputs[kW] = weights_.at(key);
  }

  // Rounds x per row, in a conv per sample, by its largest magnitude.
  void round_rows(Node& node) {
    const ValueId x = node.inputs[kX];
    Node rounding = step(Op::kFakeQuantize, node, x, like(x, "/int8"), false);
    rounding.inputs.insert(rounding.inputs.end(), {kNone, kNone});
    set_integer(rounding, "rule", int(FakeQuantize::kAbsMax8));
    if (value(x).dims.size() > 1) set_integer(rounding, "per_channel", 1);
    node.inputs[kX] = rounding.outputs[0];
    graph_.nodes.push_back(std::move(rounding));
  }

  void to_float8(Node& node, const Policy& policy) {
    const std::string name = value(node.outputs[0]).name;
    node.inputs[kX] =
        float8_of(Op::kFakeFloat8, node, policy, node.inputs[kX], like(node.inputs[kX], "/float8"), name + "/x", false);
    node.inputs[kW] =
        float8_of(Op::kFakeFloat8, node, policy, node.inputs[kW], like(node.inputs[kW], "/float8"), name + "/w", true);
    if (!trains_) return;
    behind_ = node.outputs[0];
    node.outputs[0] = like(behind_, "/before_float8");
  }

  void finish_gradient(const Node& node) {
    const ValueId y = behind_;
    behind_ = kNone;
    float8_of(Op::kFakeFloat8Gradient, node, *policy_of(graph_, node), node.outputs[0], y, value(y).name + "/y", false);
  }

  ValueId float8_of(Op op, const Node& near, const Policy& policy, ValueId x, ValueId y, const std::string& name,
                    bool weights) {
    Node rounding = step(op, near, x, y, weights);
    const bool current = policy.quantization == Quantization::kFloat8Current;
    set_integer(rounding, "format", op == Op::kFakeFloat8 ? FakeFloat8::kE4M3 : FakeFloat8::kE5M2);
    if (current) {
      set_integer(rounding, "current", 1);
      const auto rank = int(value(x).dims.size());
      set_integer(rounding, "axis", weights || rank < 2 ? 0 : near.op == Op::kDense ? rank - 1 : 1);
      rounding.inputs.insert(rounding.inputs.end(), {kNone, kNone});
    } else {
      const bool keras = policy.update_order == UpdateOrder::kKeras;
      const bool each = policy.operation_rounding == OperationRounding::kEach && narrow(policy.compute);
      set_integer(
          rounding, "form",
          keras && each ? int(FakeFloat8::kEachRounded) : int(keras ? ScaleForm::kStep : ScaleForm::kReciprocal));
      const ValueId scale = add(scale_name(name), ElementType::kFloat32, {1}, Region::kState);
      const float one[] = {1};
      const auto* const source = of_source(graph_, scale_name(name), 1);
      graph_.values[size_t(scale)].initial = source != nullptr ? bytes_of(*source) : bytes_of(one);
      const ValueId amax = trains_ ? add(name + "/amax", ElementType::kUint32, {1}, Region::kStep) : kNone;
      rounding.inputs.insert(rounding.inputs.end(), {scale, amax});
    }
    graph_.nodes.push_back(std::move(rounding));
    return y;
  }

  Graph& graph_;
  const QuantizerPlan& plan_;
  const QuantizerTraining& options_;
  const bool trains_;
  const ValueId skipped_;             // the loss's output if the loss reads the input of its last step; else kNone
  std::set<ValueId> masked_, masks_;  // scores that contain a mask; values from which masks are computed
  std::map<std::string, const StaticValue*> static_;
  std::map<ValueId, ValueId> rounded_;                       // by the value before rounding
  std::map<std::pair<ValueId, uint32_t>, ValueId> weights_;  // by weights and rule
  std::map<int, ValueId> fixed_;                             // constant ranges, by group
  ValueId behind_ = kNone;                                   // y of the float8 layer being written
};

}  // namespace

void add_quantizers(Graph& graph, const QuantizerPlan& plan, const TrainingOptions& options, bool trains) {
  AddQuantizers(graph, plan, options, trains).run();
}

Commit commit_quantizers(const Graph& graph, const QuantizerTraining& options) {
  Commit commit;
  const auto shared = [&](ValueId id) {
    commit.values.push_back(graph.values[size_t(id)]);
    return ValueId(commit.values.size() - 1);
  };
  const auto state = [&](const std::string& name, ElementType type, int64_t elements, Kept kept) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = {elements};
    v.region = Region::kState;
    v.kept = kept;
    if (const auto* const source = of_source(graph, name, elements)) v.initial = bytes_of(*source);
    commit.values.push_back(std::move(v));
    return ValueId(commit.values.size() - 1);
  };
  std::vector<ValueId> ranges;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kObserveRange) {
      const std::string sum = graph.values[size_t(node.inputs[1])].name, name = sum.substr(0, sum.size() - 4);
      const auto range = std::ranges::find(graph.values, name, &Value::name);
      if (range == graph.values.end()) continue;  // another value makes its group's range
      Node update = make_step(
          Op::kUpdateRange, Node(), name + "/update",
          {shared(node.inputs[1]), shared(node.inputs[2]), shared(ValueId(range - graph.values.begin()))}, {});
      set_real(update, "decay", options.range_momentum);
      commit.nodes.push_back(std::move(update));
    }
    if ((node.op == Op::kFakeFloat8 || node.op == Op::kFakeFloat8Gradient) && node.inputs[1] != kNone) {
      const std::string scale = graph.values[size_t(node.inputs[1])].name,
                        name = scale.substr(0, scale.size() - scale_name("").size());
      const Node& layer = node;
      const Policy* policy = policy_of(graph, layer);
      if (policy == nullptr)
        policy = policy_of(graph, *std::ranges::find_if(graph.nodes, [&](const Node& reader) {
                             return is_matmul(reader.op) && std::ranges::count(reader.inputs, node.outputs[0]) > 0;
                           }));
      const auto length = std::max<int64_t>(policy->amax_history_length, 1);
      Node update =
          make_step(Op::kUpdateScales, Node(), name + "/update",
                    {shared(node.inputs[2]), shared(node.inputs[1]),
                     state(history_name(name), ElementType::kFloat32, length, Kept::kNumerics),
                     state(name + "/scale_events", ElementType::kUint32, int64_t(ScaleEvent::kCount), Kept::kCounter)},
                    {});
      set_real(update, "format_max", get_integer(node, "format") == int(FakeFloat8::kE4M3) ? 448.0f : 57344.0f);
      set_integer(update, "order", int(policy->update_order));
      set_integer(update, "rule", int(policy->amax_rule));
      set_integer(update, "margin", policy->margin);
      set_integer(update, "fused", 1);
      set_integer(update, "guard", 1);
      commit.nodes.push_back(std::move(update));
    }
  }
  return commit;
}

}  // namespace nacre::tools
