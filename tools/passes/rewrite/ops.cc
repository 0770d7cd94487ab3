#include "tools/passes/rewrite/ops.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>

#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

// How TensorFlow writes an op whose operator in the file says more than the node; the names of all others are in
// tools/graph/op_facts.cc.
//
// hard_swish is x Relu6(x + 3) / 6 there: AddV2, Relu6, Mul, Mul, of the infer and clear lists; Mul gives the result.
// ONNX's PRelu and HardSigmoid, and Gemm with a computed C, are several nodes, each looked up for itself. Global
// average pools are means, as in Keras.
struct Row {
  Op op;
  std::string_view source;  // operator of the file
  const char* name;
};

constexpr Row kRows[] = {
    {Op::kMaxPool, "GlobalMaxPool", "Max"},
    {Op::kMaxPool, "ReduceMax", "Max"},
    {Op::kMaxPool, "REDUCE_MAX", "Max"},
    {Op::kResize, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"},
    {Op::kAdd, "Sum", "AddN"},
    {Op::kMul, "Div", "RealDiv"},
    {Op::kSelect, "SELECT", "Select"},
    {Op::kReshape, "Squeeze", "Squeeze"},
    {Op::kReshape, "SQUEEZE", "Squeeze"},
    {Op::kReshape, "Unsqueeze", "ExpandDims"},
    {Op::kReshape, "EXPAND_DIMS", "ExpandDims"},
    {Op::kConcat, "PACK", "Pack"},
    {Op::kSlice, "Split", "Split"},
    {Op::kSlice, "SPLIT", "Split"},
    {Op::kSlice, "SPLIT_V", "SplitV"},
    {Op::kSlice, "UNPACK", "Unpack"},
    {Op::kSlice, "Gather", "GatherV2"},
    {Op::kSlice, "SLICE", "Slice"},
    {Op::kCopy, "QUANTIZE", "QuantizeV2"},
    {Op::kCopy, "DEQUANTIZE", "Dequantize"},
};

// y = min(max(x, low), high), by its bounds.
std::string clamp_name(const Node& node) {
  if (get_integer(node, "clamp") == 0) return "Identity";
  const float low = get_real(node, "low"), high = get_real(node, "high");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (low == 0 && high == kInfinity) return "Relu";
  if (low == 0 && high == 6) return "Relu6";
  if (low == -kInfinity) return "Minimum";
  return high == kInfinity ? "Maximum" : "ClipByValue";
}

// modes of engine/ops/move.h: constant, reflect, edge. TensorFlow has no edge; MirrorPad is the nearest.
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
  const auto* row = std::ranges::find_if(kRows, [&](const Row& r) { return r.op == node.op && r.source == source; });
  if (row != std::end(kRows)) result.name = row->name;
  if (is_matmul(node.op) && node.inputs.size() > 2 && node.inputs[2] != kNone) result.with += "+BiasAdd";
  if (has_clamp(node.op) && get_integer(node, "clamp") != 0) result.with += "+" + clamp_name(node);
  return result;
}

}  // namespace nacre::tools
