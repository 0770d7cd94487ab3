#include "tools/differentiate/loss_step.h"

#include <algorithm>

#include "tools/base/error.h"
#include "tools/differentiate/differentiate.h"
#include "tools/differentiate/loss_output.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

constexpr const char* kLossLayer = "loss";

struct Row {
  Loss loss;
  Op op;
  const char* name;
  Op looks_through;  // the op that the loss contains
};
constexpr Row kRows[] = {
    {Loss::kSoftmaxCrossEntropy, Op::kSoftmaxCrossEntropy, "softmax_cross_entropy", Op::kSoftmax},
    {Loss::kDenseCrossEntropy, Op::kDenseCrossEntropy, "dense_cross_entropy", Op::kSoftmax},
    {Loss::kSigmoidCrossEntropy, Op::kSigmoidCrossEntropy, "sigmoid_cross_entropy", Op::kSigmoid},
    {Loss::kSquaredError, Op::kSquaredError, "squared_error", Op::kNone},
    {Loss::kAbsoluteError, Op::kAbsoluteError, "absolute_error", Op::kNone},
    {Loss::kHuber, Op::kHuber, "huber", Op::kNone},
};

const Row& row_of(Loss loss) { return *std::ranges::find(kRows, loss, &Row::loss); }

// Returns the step that computes y. Skips the copy with which an int8 network gives y as real numbers.
const Node* last_step(const Graph& graph, ValueId y) {
  const Node* last = writer_of(graph, y);
  while (last != nullptr && (last->op == Op::kCopy || last->op == Op::kDequantize))
    last = writer_of(graph, last->inputs[0]);
  return last;
}

// Returns whether the loss contains this node's function and computes it more exactly: a sigmoid, or a softmax over
// the last axis with beta 1.
bool is_looked_through(const Graph& graph, const Node& node, Op op) {
  if (node.op != op || op == Op::kNone) return false;
  if (op == Op::kSigmoid) return true;
  return size_t(get_integer(node, "axis")) + 1 == graph.values[size_t(node.inputs[0])].dims.size() &&
         get_real(node, "beta") == 1;
}

// Makes the network's output y a copy of y. Outputs are float32, as in the source, while the loss reads y itself in
// float64.
void give_a_copy(Graph& graph, ValueId y) {
  const bool given = std::ranges::any_of(graph.outputs, [&](const Binding& output) { return output.value == y; });
  if (!given) return;
  Value copy = graph.values[size_t(y)];
  copy.name += "/output";
  const Node* writer = writer_of(graph, y);
  const Node near = writer == nullptr ? Node() : *writer;
  const ValueId id = graph.add(std::move(copy));
  for (Binding& output : graph.outputs)
    if (output.value == y) output.value = id;
  graph.nodes.push_back(make_step(Op::kCopy, near, near.name + "/output", {y}, {id}));
}

ValueId add_sum(Graph& graph, const char* name, ElementType type) {
  Value v;
  v.name = name;
  v.type = type;
  v.dims = {1};
  v.region = Region::kStep;
  return graph.add(std::move(v));
}

}  // namespace

const char* name_of(Loss loss) { return row_of(loss).name; }
bool labels_are_classes(Loss loss) { return loss == Loss::kSoftmaxCrossEntropy; }

float losses_of_sample(const Graph& graph) {
  constexpr Op kErrors[] = {Op::kSigmoidCrossEntropy, Op::kSquaredError, Op::kAbsoluteError, Op::kHuber};
  const auto found = std::ranges::find_if(
      graph.nodes, [&](const Node& node) { return std::ranges::find(kErrors, node.op) != std::end(kErrors); });
  if (found == graph.nodes.end()) return 1;
  const std::vector<int64_t>& dims = graph.values[size_t(found->inputs[0])].dims;
  float losses = 1;
  for (size_t axis = 1; axis + 1 < dims.size(); ++axis) losses *= float(dims[axis]);
  return losses;
}

int loss_layer(const Graph& graph) {
  const auto found = std::ranges::find(graph.layers, kLossLayer, &Layer::name);
  return found == graph.layers.end() ? kNone : int(found - graph.layers.begin());
}

bool skips_last_step(const Graph& graph, const LossOptions& options) {
  const Node* last = last_step(graph, loss_output(graph, options.output));
  return last != nullptr && is_looked_through(graph, *last, row_of(options.kind).looks_through);
}

size_t add_loss(Graph& graph, const LossOptions& options, ElementType sums) {
  const Row& row = row_of(options.kind);
  ValueId y = loss_output(graph, options.output);
  if (skips_last_step(graph, options)) y = last_step(graph, y)->inputs[0];
  if (sums == ElementType::kFloat64) give_a_copy(graph, y);
  const Value logits = graph.values[size_t(y)];

  Value labels;
  labels.name = labels_are_classes(options.kind) ? "labels" : "targets";
  labels.dims = logits.dims;
  labels.batched = logits.batched;
  if (labels_are_classes(options.kind)) {
    labels.type = ElementType::kInt32;
    if (labels.dims.empty())
      throw Error(kUnsupported, graph.source, "its output is one number: it has no classes", "use another loss");
    labels.dims.pop_back();
    if (labels.dims.empty()) labels.dims = {1}, labels.batched = false;
  }
  const std::string binding = labels.name;
  const ValueId label_value = graph.add(std::move(labels));
  graph.inputs.push_back({binding, label_value, ""});

  Layer layer = {.name = kLossLayer, .source_op = "", .policy = {}};
  if (sums == ElementType::kFloat64) {
    layer.asked = true;
    layer.policy.variable = layer.policy.compute = layer.policy.output = sums;
  }
  if (loss_layer(graph) != kNone)
    throw Error(kUnsupported, graph.source, "has a layer named 'loss'",
                "rename it: the name is taken by the loss that training adds");
  Node node;
  node.op = row.op;
  node.name = row.name;
  node.layer = graph.add_layer(std::move(layer));
  const ValueId loss = add_sum(graph, kLossName, sums), count = add_sum(graph, kCountName, ElementType::kFloat32);
  node.inputs = {y, label_value, loss, count};
  if (options.kind == Loss::kSoftmaxCrossEntropy || options.kind == Loss::kDenseCrossEntropy)
    set_real(node, "label_smoothing", options.label_smoothing);
  if (options.kind == Loss::kSoftmaxCrossEntropy && options.ignores) {
    set_integer(node, "ignore", 1);
    set_integer(node, "ignore_index", options.ignore_index);
  }
  if (options.kind == Loss::kHuber) set_real(node, "delta", options.delta);
  graph.nodes.push_back(std::move(node));
  return graph.nodes.size() - 1;
}

}  // namespace nacre::tools
