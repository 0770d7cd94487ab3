#include "tools/policies/op_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "tools/base/nearest.h"

namespace nacre::tools {
namespace {

// Names of an op in ONNX, TFLite, Keras and Axon, as people write them.
struct Names {
  const char* op;  // name in engine/ops
  std::initializer_list<const char*> names;
};
const Names kNames[] = {
    {"dense", {"Dense", "Gemm", "MatMul", "FULLY_CONNECTED", "EinsumDense", "Linear"}},
    {"batched_matmul", {"BATCH_MATMUL", "BatchMatMul"}},
    {"conv2d", {"Conv", "CONV_2D", "Conv2D"}},
    {"conv2d", {"ConvTranspose", "TRANSPOSE_CONV", "Conv2DTranspose"}},
    {"depthwise_conv2d", {"DEPTHWISE_CONV_2D", "DepthwiseConv2D", "depthwise_conv"}},
    {"batch_norm", {"BatchNormalization", "BatchNorm"}},
    {"average_pool", {"AveragePool", "AVERAGE_POOL_2D", "AveragePooling2D", "avg_pool"}},
    {"average_pool", {"GlobalAveragePool", "GlobalAveragePooling2D", "global_avg_pool"}},
    {"max_pool", {"MaxPool", "MAX_POOL_2D", "MaxPooling2D"}},
    {"max_pool", {"GlobalMaxPool", "GlobalMaxPooling2D", "ReduceMax", "REDUCE_MAX"}},
    {"resize", {"Resize", "Upsample", "UpSampling2D"}},
    {"resize", {"RESIZE_BILINEAR"}},
    {"resize", {"RESIZE_NEAREST_NEIGHBOR"}},
    {"add", {"Add", "ADD", "Sum", "ADD_N"}},
    {"sub", {"Sub", "SUB", "Subtract"}},
    {"mul", {"Mul", "MUL", "Multiply"}},
    {"binary", {"Div", "DIV", "Divide"}},
    {"binary", {"Pow", "POW", "Power"}},
    {"binary", {"Max", "MAXIMUM"}},
    {"binary", {"Min", "MINIMUM"}},
    {"select", {"Where", "SELECT", "SELECT_V2"}},
    {"clamp", {"Relu", "RELU"}},
    {"clamp", {"Relu6", "RELU6"}},
    {"clamp", {"RELU_N1_TO_1"}},
    {"clamp", {"RELU_0_TO_1"}},
    {"clamp", {"Clip"}},
    {"leaky_relu", {"LeakyRelu", "LEAKY_RELU", "PRelu"}},
    {"sigmoid", {"Sigmoid", "LOGISTIC"}},
    {"tanh", {"Tanh", "TANH"}},
    {"hard_swish", {"HardSwish", "HARD_SWISH", "hard_silu"}},
    {"gelu", {"Gelu", "GELU"}},
    {"silu", {"Silu", "Swish"}},
    {"softmax", {"Softmax", "SOFTMAX"}},
    {"layer_norm", {"LayerNormalization", "LayerNorm"}},
    {"embedding", {"Embedding", "Gather", "GATHER", "EMBEDDING_LOOKUP"}},
    {"tree_ensemble", {"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}},
    {"non_max_suppression",
     {"NonMaxSuppression", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess"}},
    {"lstm", {"LSTM"}},
    {"gru", {"GRU"}},
    {"stream_lstm", {"UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"}},
    {"svdf", {"SVDF"}},
    {"mean", {"ReduceMean", "MEAN"}},
    {"reshape", {"Reshape", "RESHAPE", "Flatten"}},
    {"reshape", {"Squeeze", "SQUEEZE"}},
    {"reshape", {"Unsqueeze", "EXPAND_DIMS"}},
    {"transpose", {"Transpose", "TRANSPOSE", "Permute"}},
    {"concat", {"Concat", "CONCATENATION", "Concatenate"}},
    {"pad", {"Pad", "PAD", "PADV2", "ZeroPadding2D"}},
    {"slice", {"Slice", "SLICE", "STRIDED_SLICE"}},
    {"slice", {"Split", "SPLIT", "SPLIT_V"}},
    {"copy", {"Identity", "Dropout"}},
    {"quantize", {"QuantizeLinear", "QUANTIZE"}},
    {"dequantize", {"DequantizeLinear", "DEQUANTIZE"}},
    {"cast", {"Cast", "CAST"}},
};

// Returns the name in lower case without '_': "BATCH_MATMUL" -> "batchmatmul".
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (c != '_') text += char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool in_row(const Names& row, const std::string& name) {
  return std::ranges::any_of(row.names, [&](const char* n) { return plain(n) == name; });
}

const Names* find_row(const std::string& name) {
  for (const Names& row : kNames)
    if (in_row(row, name)) return &row;
  return nullptr;
}

bool has_node(const Graph& graph, int layer, Op op) {
  return std::ranges::any_of(graph.nodes, [&](const Node& n) { return n.layer == layer && n.op == op; });
}

// Returns the row of kNames that has the layer's source operator, or null. A Conv with a depthwise node has its row.
const Names* row_of(const Graph& graph, int layer) {
  const std::string source = plain(graph.layers[size_t(layer)].source_op);
  if (source == "conv" && has_node(graph, layer, Op::kDepthwiseConv2d)) return find_row("depthwiseconv2d");
  return find_row(source);
}

std::vector<std::string> known_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpRule* rule : all_rules()) names.emplace_back(rule->name);
  for (const Names& row : kNames) names.insert(names.end(), row.names.begin(), row.names.end());
  for (const Layer& layer : graph.layers) names.push_back(layer.source_op);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Returns the source operators of the network's layers, each once.
std::vector<std::string> source_ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Layer& layer : graph.layers)
    if (std::ranges::find(ops, layer.source_op) == ops.end()) ops.push_back(layer.source_op);
  return ops;
}

void require_layer(const Graph& graph, const std::string& name, const Place& place) {
  for (size_t i = 0; i < graph.layers.size(); ++i)
    if (layer_is(graph, int(i), name)) return;
  const std::vector<std::string> ops = source_ops(graph), near = nearest_names(name, ops);
  place.refuse("NoSuchLayer", fmt::format("no layer of the network is {}", in_quotes(name)),
               (near.empty() ? "" : "did you mean " + alternatives(near) + "? ") + "its layers are " + listed(ops, 20));
}

}  // namespace

OpFilter::OpFilter(const std::vector<std::string>& only, const std::vector<std::string>& except)
    : names_(only.empty() ? except : only), only_(!only.empty()) {}

bool OpFilter::takes(const Graph& graph, int layer) const {
  if (names_.empty()) return true;
  const bool named = std::ranges::any_of(names_, [&](const std::string& n) { return layer_is(graph, layer, n); });
  return named == only_;
}

bool layer_is(const Graph& graph, int layer, const std::string& name) {
  const std::string wanted = plain(name);
  if (wanted == plain(graph.layers[size_t(layer)].source_op)) return true;
  const Names* row = row_of(graph, layer);
  if (row == nullptr) return false;
  return wanted == plain(row->op) || in_row(*row, wanted);
}

void check_op_name(const Graph& graph, const std::string& name, const Place& place) {
  const std::string wanted = plain(name);
  const std::vector<std::string> known = known_names(graph);
  if (std::ranges::any_of(known, [&](const std::string& k) { return plain(k) == wanted; }))
    return require_layer(graph, name, place);
  const std::vector<std::string> near = nearest_names(name, known);
  place.refuse("UnknownOp", fmt::format("{} is no op, here or in the network", in_quotes(name)),
               near.empty() ? "ops are named like dense, conv2d, batch_norm, or as the network does: Gemm, CONV_2D"
                            : "did you mean " + alternatives(near) + "?");
}

}  // namespace nacre::tools
