#include "tools/calibration/static_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/names.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

bool converts(const Node& node) {
  return node.op == Op::kQuantize || node.op == Op::kDequantize || node.op == Op::kRequantize;
}

}  // namespace

std::optional<Quantizer> fixed_quantizer(Op op) {
  if (op == Op::kSoftmax || op == Op::kSigmoid) return Quantizer{ElementType::kInt8, {1.0f / 256}, {-128}, 0};
  if (op == Op::kTanh) return Quantizer{ElementType::kInt8, {1.0f / 128}, {0}, 0};
  return std::nullopt;
}

bool is_activation(const Graph& graph, ValueId id) {
  if (id == kNone) return false;
  const Value& v = graph.values[size_t(id)];
  return !v.constant() && v.type == ElementType::kFloat32;
}

std::string layer_place(const Graph& graph, const Node& node) {
  if (node.layer == kNone) return place_of(graph, node);
  const Layer& layer = graph.layers[size_t(node.layer)];
  return (graph.source.empty() ? "" : graph.source + ": ") + layer.name +
         (layer.source_op.empty() ? "" : " (" + layer.source_op + ")");
}

StaticPlan::StaticPlan(Graph& graph)
    : graph_(graph), masks_(graph), writer_(graph.values.size(), -1), readers_(graph.values.size()),
      output_(graph.values.size(), false), coded_(graph.nodes.size(), false), bare_(graph.values.size(), false) {
  for (const Binding& b : graph.outputs) output_[size_t(b.value)] = true;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs)
      if (id != kNone) readers_[size_t(id)].push_back(int(i));
    for (const ValueId id : graph.nodes[i].outputs) writer_[size_t(id)] = int(i);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!wanted(node)) {
      coded_[i] = follows_codes(node);
      continue;
    }
    const std::string why = refusal(node);
    any_ = any_ || why.empty();
    coded_[i] = why.empty();
    if (why.empty()) continue;
    const Layer& layer = graph.layers[size_t(node.layer)];
    graph.fallbacks.push_back(fmt::format("{} ({}): wants int8/static, runs in {}: {}", layer.name,
                                          find_rule(node.op)->name, name_of(layer.policy.compute), why));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (coded_[i] && melts(graph.nodes[i])) bare_[size_t(graph.nodes[i].inputs[0])] = true;
}

// Returns whether the node's policy asks for int8/static. A quantize, dequantize or requantize node of the source is
// left alone. So is a copy from or to a value that has a quantizer.
bool StaticPlan::wanted(const Node& node) const {
  if (node.layer == kNone || converts(node)) return false;
  const Layer& layer = graph_.layers[size_t(node.layer)];
  if (!layer.asked || layer.policy.quantization != Quantization::kInt8Static) return false;
  const auto quantized = [&](ValueId id) { return id != kNone && graph_.values[size_t(id)].quantizer.has_value(); };
  return node.op != Op::kCopy || (!quantized(node.inputs[0]) && !quantized(node.outputs[0]));
}

// Returns whether a node without a layer has the codes of its input and reads only int8 nodes. It is then int8 too.
bool StaticPlan::follows_codes(const Node& node) const {
  if (node.layer != kNone || facts_of(node.op).calibrated != StaticForm::kSame) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId id) {
    return id != kNone && writer_[size_t(id)] >= 0 && coded_[size_t(writer_[size_t(id)])];
  });
}

std::string StaticPlan::refusal(const Node& node) const {
  const StaticForm form = facts_of(node.op).calibrated;
  if (form == StaticForm::kReal) return kNoIntegerForm;
  if (masks_.only_masks(node.outputs[0])) return "it makes a mask of softmax, whose numbers no code is for";
  const auto value = [&](ValueId id) -> const Value& { return graph_.values[size_t(id)]; };
  for (const ValueId id : node.inputs)
    if (id != kNone && value(id).type != ElementType::kFloat32 && !value(id).constant())
      return "it works on " + std::string(name_of(value(id).type));
  for (size_t i = 1; form == StaticForm::kMatmul && i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNone && !value(node.inputs[i]).constant())
      return i == 1 ? "its weights are not constant" : "its bias is not constant";
  return integer_refusal(graph_, node);
}

// Returns whether fuse() will merge this clamp into the op before it. The plan must know before types are chosen.
bool StaticPlan::melts(const Node& clamp) const {
  if (clamp.op != Op::kClamp) return false;
  const ValueId x = clamp.inputs[0];
  const int writer = writer_[size_t(x)];
  if (writer < 0 || !coded_[size_t(writer)] || readers_[size_t(x)].size() != 1 || output_[size_t(x)]) return false;
  const Node& node = graph_.nodes[size_t(writer)];
  const StaticForm form = facts_of(node.op).calibrated;
  return (form == StaticForm::kMatmul || form == StaticForm::kOwn) && has_clamp(node.op) && node.outputs.size() == 1 &&
         !graph_.values[size_t(x)].quantizer;
}

}  // namespace nacre::tools
