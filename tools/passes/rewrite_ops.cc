#include "tools/passes/rewrite_ops.h"

#include <iterator>
#include <limits>
#include <span>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"

namespace nacre::tools {
namespace {

// How TensorFlow writes an op. Where the source's operator says more than the node, a row with `source` comes first.
//
// hard_swish is x Relu6(x + 3) / 6 there: AddV2, Relu6, Mul, Mul, of the infer and clear lists; Mul gives the result.
// ONNX's PRelu and HardSigmoid, and Gemm with a computed C, are several nodes, each looked up for itself. Global
// average pools are means, as in Keras.
struct Row {
  Op op;
  const char* source;  // operator of the file; null: any
  const char* name;
};

constexpr Row kRows[] = {
    {Op::kDense, nullptr, "MatMul"},
    {Op::kConv2d, nullptr, "Conv2D"},
    {Op::kDepthwiseConv2d, nullptr, "DepthwiseConv2dNative"},
    {Op::kAveragePool, nullptr, "AvgPool"},
    {Op::kMaxPool, "GlobalMaxPool", "Max"},
    {Op::kMaxPool, "ReduceMax", "Max"},
    {Op::kMaxPool, "REDUCE_MAX", "Max"},
    {Op::kMaxPool, nullptr, "MaxPool"},
    {Op::kResize, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"},
    {Op::kResize, nullptr, "ResizeBilinear"},
    {Op::kAdd, "Sum", "AddN"},
    {Op::kAdd, nullptr, "AddV2"},
    {Op::kSub, nullptr, "Sub"},
    {Op::kMul, "Div", "RealDiv"},
    {Op::kMul, nullptr, "Mul"},
    {Op::kLeakyRelu, nullptr, "LeakyRelu"},
    {Op::kSigmoid, nullptr, "Sigmoid"},
    {Op::kTanh, nullptr, "Tanh"},
    {Op::kHardSwish, nullptr, "Mul"},
    {Op::kGelu, nullptr, "Erf"},
    {Op::kSilu, nullptr, "Sigmoid"},
    {Op::kDropout, nullptr, "Mul"},
    {Op::kRandom, nullptr, "RandomUniform"},
    {Op::kLayerNorm, nullptr, "FusedBatchNormV3"},  // as Keras normalizes over the last axis
    {Op::kEmbedding, nullptr, "GatherV2"},
    {Op::kBatchedMatmul, nullptr, "BatchMatMulV2"},
    {Op::kLstm, nullptr, "CudnnRNNV3"},
    {Op::kGru, nullptr, "CudnnRNNV3"},
    {Op::kStreamLstm, nullptr, "CudnnRNNV3"},
    {Op::kSvdf, nullptr, "BatchMatMulV2"},
    {Op::kTreeEnsemble, nullptr, "SimpleMLInferenceOp"},  // of TensorFlow Decision Forests
    {Op::kNonMaxSuppression, nullptr, "NonMaxSuppressionV5"},
    {Op::kSignal, nullptr, "SignalRfft"},  // of integers, which no policy touches
    {Op::kSoftmax, nullptr, "Softmax"},
    {Op::kLogSoftmax, nullptr, "LogSoftmax"},
    {Op::kSelect, "SELECT", "Select"},
    {Op::kSelect, nullptr, "SelectV2"},
    {Op::kBatchNorm, nullptr, "FusedBatchNormV3"},
    {Op::kMean, nullptr, "Mean"},
    {Op::kReshape, "Squeeze", "Squeeze"},
    {Op::kReshape, "SQUEEZE", "Squeeze"},
    {Op::kReshape, "Unsqueeze", "ExpandDims"},
    {Op::kReshape, "EXPAND_DIMS", "ExpandDims"},
    {Op::kReshape, nullptr, "Reshape"},
    {Op::kTranspose, nullptr, "Transpose"},
    {Op::kConcat, "PACK", "Pack"},
    {Op::kConcat, nullptr, "ConcatV2"},
    {Op::kSlice, "Split", "Split"},
    {Op::kSlice, "SPLIT", "Split"},
    {Op::kSlice, "SPLIT_V", "SplitV"},
    {Op::kSlice, "UNPACK", "Unpack"},
    {Op::kSlice, "Gather", "GatherV2"},
    {Op::kSlice, "SLICE", "Slice"},
    {Op::kSlice, nullptr, "StridedSlice"},
    {Op::kCopy, "QUANTIZE", "QuantizeV2"},
    {Op::kCopy, "DEQUANTIZE", "Dequantize"},
    {Op::kCopy, nullptr, "Identity"},
    {Op::kStore, nullptr, "Identity"},
    {Op::kQuantize, nullptr, "QuantizeV2"},
    {Op::kDynamicQuantize, nullptr, "QuantizeV2"},
    {Op::kDequantize, nullptr, "Dequantize"},
    {Op::kRequantize, nullptr, "Requantize"},
    {Op::kCast, nullptr, "Cast"},
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

// By Unary::Function.
std::string unary_name(const Node& node) {
  constexpr const char* kNames[] = {"",    "Exp",   "Log",  "Sqrt",     "Rsqrt", "Reciprocal", "Abs",
                                    "Neg", "Floor", "Ceil", "Round",    "Sign",  "Square",     "Softplus",
                                    "Elu", "Selu",  "Erf",  "Softsign", "Sin",   "Cos"};
  static_assert(std::size(kNames) == Unary::kLast + 1);
  return by_function(kNames, node);
}

// By Binary::Function.
std::string binary_name(const Node& node) {
  constexpr const char* kNames[] = {"", "RealDiv", "Pow", "Maximum", "Minimum", "SquaredDifference", "FloorDiv"};
  static_assert(std::size(kNames) == Binary::kLast + 1);
  return by_function(kNames, node);
}

// By Reduce::Function.
std::string reduce_name(const Node& node) {
  constexpr const char* kNames[] = {"", "Sum", "Max", "Min", "Prod"};
  static_assert(std::size(kNames) == Reduce::kLast + 1);
  return by_function(kNames, node);
}

// By Compare::Function.
std::string compare_name(const Node& node) {
  constexpr const char* kNames[] = {"", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"};
  static_assert(std::size(kNames) == Compare::kLast + 1);
  return by_function(kNames, node);
}

bool has_clamp(Op op) {
  for (const Attribute& attribute : find_rule(op)->attributes)
    if (std::string(attribute.name) == "clamp") return true;
  return false;
}

}  // namespace

TensorflowOp tensorflow_op(const Graph& graph, const Node& node) {
  if (node.op == Op::kClamp) return {clamp_name(node), ""};
  if (node.op == Op::kPad) return {pad_name(node), ""};
  if (node.op == Op::kUnary) return {unary_name(node), ""};
  if (node.op == Op::kBinary) return {binary_name(node), ""};
  if (node.op == Op::kCompare) return {compare_name(node), ""};
  if (node.op == Op::kReduce) return {reduce_name(node), ""};
  if (node.op == Op::kArgMax) return {get_integer(node, "minimum") != 0 ? "ArgMin" : "ArgMax", ""};
  const std::string source = node.layer == kNone ? "" : graph.layers[size_t(node.layer)].source_op;
  TensorflowOp result;
  for (const Row& row : kRows) {
    if (row.op != node.op || (row.source != nullptr && row.source != source)) continue;
    result.name = row.name;
    break;
  }
  const bool matmul = node.op == Op::kDense || node.op == Op::kConv2d || node.op == Op::kDepthwiseConv2d;
  if (matmul && node.inputs.size() > 2 && node.inputs[2] != kNone) result.with += "+BiasAdd";
  if (find_rule(node.op) != nullptr && has_clamp(node.op) && get_integer(node, "clamp") != 0)
    result.with += "+" + clamp_name(node);
  return result;
}

}  // namespace nacre::tools
