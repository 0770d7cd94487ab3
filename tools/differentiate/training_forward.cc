#include "tools/differentiate/training_forward.h"

#include <algorithm>
#include <numeric>

#include "engine/ops/parameters.h"
#include "tools/base/error.h"
#include "tools/differentiate/loss_step.h"
#include "tools/differentiate/update_program.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/op_facts.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// Makes the node's clamp a node of its own, because gradients are those of the unclamped op. A fused step has no
// gradient.
void split_clamp(Graph& graph, std::vector<Node>& nodes, Node node) {
  const bool residual = is_matmul(node.op) && node.inputs.size() > kScale && node.inputs[kScale] != kNone;
  if (residual || (is_matmul(node.op) && get_integer(node, "clamp") > int{Clamp::kBounds}))
    throw Error(kFailed, place_of(graph, node), "is fused with what followed it", "differentiate before fuse");
  const bool has = node.op != Op::kClamp && has_clamp(node.op);
  if (!has || get_integer(node, "clamp") == 0) return nodes.push_back(std::move(node));
  Node clamp = make_step(Op::kClamp, node, node.name + "/clamp", {}, node.outputs);
  set_integer(clamp, "clamp", 1);
  set_real(clamp, "low", get_real(node, "low"));
  set_real(clamp, "high", get_real(node, "high"));
  for (const char* word : {"clamp", "low", "high"}) set_integer(node, word, 0);
  Value before = graph.values[size_t(node.outputs[0])];
  before.name += "/unclamped";
  before.quantizer.reset();
  node.outputs[0] = graph.add(std::move(before));
  clamp.inputs = {node.outputs[0]};
  nodes.push_back(std::move(node));
  nodes.push_back(std::move(clamp));
}

class ForwardPass {
 public:
  ForwardPass(Differentiated& result, const TrainingOptions& options) : result_(result), options_(options) {}

  TrainingForward run() {
    find_sum_type();
    rewrite();
    return {.micro_batch = micro_batch_};
  }

 private:
  Graph& graph() { return result_.graph; }
  Value& value(ValueId id) { return graph().values[size_t(id)]; }
  bool trains(ValueId id) { return id != kNone && value(id).trainable; }
  bool needs(ValueId id) const { return id != kNone && size_t(id) < needs_.size() && needs_[size_t(id)]; }

  void find_sum_type() {
    bool wide = false, narrow = false;
    for (const Node& node : graph().nodes) {
      if (node.layer == kNone || std::ranges::none_of(node.inputs, [&](ValueId id) { return trains(id); })) continue;
      const Layer& layer = graph().layers[size_t(node.layer)];
      (layer.asked && layer.policy.compute == ElementType::kFloat64 ? wide : narrow) = true;
    }
    if (wide && narrow)
      throw Error(kUnsupported, graph().source, "some trained layers compute in float64 and some do not",
                  "give all of them float64, or none");
    if (wide) result_.sums = ElementType::kFloat64;
  }

  void rewrite() {
    needs_ = depends_on_parameters(graph());
    keep_saturation(graph(), [&](const Node& node) { return needs(node.outputs[0]); });
    needs_ = depends_on_parameters(graph());
    std::vector<Node> nodes;
    for (Node node : std::vector<Node>(graph().nodes)) {
      if (std::ranges::any_of(node.outputs, [&](ValueId id) { return needs(id); })) {
        for (const ValueId id : node.outputs) value(id).quantizer.reset();
        if (learns_statistics(node)) to_training_form(node);
        if (node.op == Op::kDropout) feed_dropout(nodes, node);
        keep_outputs(node);
        split_clamp(graph(), nodes, std::move(node));
      } else {
        if (node.op == Op::kDropout) feed_dropout(nodes, node);
        if (learns_statistics(node)) to_training_form(node);  // a norm without parameters
        nodes.push_back(std::move(node));
      }
    }
    graph().nodes = std::move(nodes);
  }

  ValueId add_value(const std::string& name, ElementType type, std::vector<int64_t> dims, Region region) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    v.region = region;
    return graph().add(std::move(v));
  }

  bool learns_statistics(const Node& node) {
    return node.op == Op::kBatchNorm && value(node.inputs[3]).region == Region::kState;
  }

  void to_training_form(Node& node) {
    const std::string prefix = value(node.outputs[0]).name;
    const std::vector<int64_t> channels = value(node.inputs[1]).dims;
    const ValueId mean_sum = add_value(prefix + "/mean_sum", result_.sums, channels, Region::kStep);
    const ValueId variance_sum = add_value(prefix + "/variance_sum", result_.sums, channels, Region::kStep);
    const ValueId batches = add_value(prefix + "/batches", ElementType::kFloat32, {1}, Region::kStep);
    const ValueId mean = add_value(prefix + "/mean", ElementType::kFloat32, channels, Region::kArena);
    const ValueId deviation = add_value(prefix + "/inverse_deviation", ElementType::kFloat32, channels, Region::kArena);
    result_.statistics.push_back({value(node.inputs[3]).name, value(node.inputs[4]).name, value(mean_sum).name,
                                  value(variance_sum).name, value(batches).name});
    const float epsilon = get_real(node, "epsilon");
    node.op = Op::kBatchNormTraining;
    node.words.clear();
    set_real(node, "epsilon", epsilon);
    set_integer(node, "unbiased", options_.unbiased_variance ? 1 : 0);
    node.inputs = {node.inputs[0], node.inputs[1], node.inputs[2], mean_sum, variance_sum, batches};
    node.outputs = {node.outputs[0], mean, deviation};
  }

  // Adds outputs that the gradient table reads and inference leaves out: gates and cells of a recurrence.
  void keep_outputs(Node& node) {
    const OpRule& op = rule_of(graph(), node);
    size_t count = node.outputs.size();
    for (const Gradient& row : op.gradients)
      for (const GradientRead& read : row.reads)
        if (read.source == GradientRead::kForwardOutput) count = std::max(count, size_t(read.index) + 1);
    if (count == node.outputs.size()) return;
    for (size_t i = node.outputs.size(); i < count; ++i) {
      const std::string slot = op.outputs[i];
      node.outputs.push_back(add_value(value(node.outputs[0]).name + "/" + slot.substr(0, slot.find('?')),
                                       ElementType::kFloat32, {}, Region::kArena));
      value(node.outputs.back()).batched = value(node.outputs[0]).batched;
    }
    infer_shapes(graph(), node);
  }

  ValueId step_count() {  // quantizers that freeze read it too
    const auto found = std::ranges::find(graph().values, kStepCountName, &Value::name);
    if (found != graph().values.end()) return ValueId(found - graph().values.begin());
    const ValueId step = add_value(kStepCountName, ElementType::kUint32, {1}, Region::kState);
    value(step).kept = Kept::kCounter;
    return step;
  }

  // Feeds a dropout with {seed low, seed high, step, micro-batch}. All dropouts share these. The attribute `layer`,
  // which counts dropouts, distinguishes them.
  void feed_dropout(std::vector<Node>& nodes, Node& node) {
    if (random_ == kNone) {
      const ValueId seed = add_value(kSeedName, ElementType::kUint32, {2}, Region::kState);
      std::vector<uint8_t> bytes(8);
      for (size_t i = 0; i < 8; ++i) bytes[i] = uint8_t(options_.seed >> (8 * i));
      value(seed).initial = std::make_shared<const std::vector<uint8_t>>(bytes);
      value(seed).kept = Kept::kCounter;
      const ValueId step = step_count();
      micro_batch_ = add_value(kMicroBatchName, ElementType::kUint32, {1}, Region::kStep);
      random_ = add_value("random", ElementType::kUint32, {4}, Region::kArena);
      nodes.push_back(make_step(Op::kConcat, Node(), "random", {seed, step, micro_batch_}, {random_}));
    }
    node.inputs.resize(2, kNone);
    node.inputs[1] = random_;
    set_integer(node, "layer", ++dropouts_);
  }

  Differentiated& result_;
  const TrainingOptions& options_;
  std::vector<bool> needs_;  // per value
  ValueId random_ = kNone, micro_batch_ = kNone;
  int dropouts_ = 0;
};

}  // namespace

void leave_out_dropout(Graph& graph) {
  std::vector<ValueId> source(graph.values.size());
  std::iota(source.begin(), source.end(), 0);
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs)
      if (id != kNone) id = source[size_t(id)];
    if (node.op != Op::kDropout) continue;
    const ValueId y = node.outputs[0];
    const bool given = std::ranges::any_of(graph.outputs, [&](const Binding& output) { return output.value == y; });
    if (given) node = make_step(Op::kCopy, node, node.name, {node.inputs[0]}, {y});  // an output has a value of its own
    else source[size_t(y)] = node.inputs[0];
  }
  std::erase_if(graph.nodes, [](const Node& node) { return node.op == Op::kDropout; });
}

// An observer's range counts as a constant: no gradient passes it (NUMERICS.md, 48).
std::vector<bool> depends_on_parameters(const Graph& graph) {
  // Truth values and indices are step functions of their inputs: their derivative is zero wherever it exists.
  const auto has_gradient = [&](ValueId id) {
    const ElementType type = graph.values[size_t(id)].type;
    return type != ElementType::kBool && type != ElementType::kInt32 && type != ElementType::kInt64;
  };
  std::vector<bool> depends(graph.values.size(), false);
  for (size_t id = 0; id < depends.size(); ++id) depends[id] = graph.values[id].trainable;
  for (const Node& node : graph.nodes)
    if (node.op != Op::kObserveRange &&
        std::ranges::any_of(node.inputs, [&](ValueId id) { return id != kNone && depends[size_t(id)]; }))
      for (const ValueId id : node.outputs) depends[size_t(id)] = has_gradient(id);
  return depends;
}

TrainingForward prepare_forward(Differentiated& result, const TrainingOptions& options) {
  return ForwardPass(result, options).run();
}

}  // namespace nacre::tools
