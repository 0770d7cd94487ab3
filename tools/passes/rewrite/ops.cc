#include "tools/passes/rewrite/ops.h"

#include <limits>
#include <span>
#include <string_view>

#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

// Returns the name of y = min(max(x, low), high), which depends on the bounds.
std::string clamp_name(const Node& node) {
  if (get_integer(node, "clamp") == 0) return "Identity";
  const float low = get_real(node, "low"), high = get_real(node, "high");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (low == 0 && high == kInfinity) return "Relu";
  if (low == 0 && high == 6) return "Relu6";
  if (low == -kInfinity) return "Minimum";
  return high == kInfinity ? "Maximum" : "ClipByValue";
}

// Modes of engine/ops/move.h: constant, reflect, edge. TensorFlow has no edge mode; MirrorPad is the nearest.
std::string pad_name(const Node& node) {
  if (get_integer(node, "mode") != 0) return "MirrorPad";
  return get_real(node, "value") == 0 ? "Pad" : "PadV2";
}

std::string by_function(std::span<const char* const> names, const Node& node) {
  const int function = get_integer(node, "function");
  return function >= 0 && size_t(function) < names.size() ? names[size_t(function)] : "";
}

}  // namespace

TensorflowOp tensorflow_op(const Graph& graph, const Node& node) {
  if (node.op == Op::kClamp) return {clamp_name(node), ""};
  if (node.op == Op::kPad) return {pad_name(node), ""};
  if (node.op == Op::kArgMax) return {get_integer(node, "minimum") != 0 ? "ArgMin" : "ArgMax", ""};
  const OpFacts& facts = facts_of(node.op);
  if (!facts.tensorflow_functions.empty()) return {by_function(facts.tensorflow_functions, node), ""};
  const std::string source = node.layer == kNone ? "" : graph.layers[size_t(node.layer)].source_op;
  TensorflowOp result;
  if (facts.tensorflow != nullptr) result.name = facts.tensorflow;
  for (const TensorflowName& row : facts.tensorflow_sources)
    if (row.source == source) result.name = row.name;
  if (is_matmul(node.op) && node.inputs.size() > 2 && node.inputs[2] != kNone) result.with += "+BiasAdd";
  if (has_clamp(node.op) && get_integer(node, "clamp") != 0) result.with += "+" + clamp_name(node);
  return result;
}

}  // namespace nacre::tools
