#include "tools/graph/op_facts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "engine/ops/all.h"

namespace nacre::tools {
namespace {

using enum Rows;

// TensorFlow's names by the attribute `function` of an op. Index 0 is not a function.
constexpr const char* kUnaryNames[] = {"",    "Exp",   "Log",  "Sqrt",     "Rsqrt", "Reciprocal", "Abs",
                                       "Neg", "Floor", "Ceil", "Round",    "Sign",  "Square",     "Softplus",
                                       "Elu", "Selu",  "Erf",  "Softsign", "Sin",   "Cos"};
constexpr const char* kBinaryNames[] = {"", "RealDiv", "Pow", "Maximum", "Minimum", "SquaredDifference", "FloorDiv"};
constexpr const char* kReduceNames[] = {"", "Sum", "Max", "Min", "Prod"};
constexpr const char* kCompareNames[] = {"", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"};
static_assert(std::size(kUnaryNames) == Unary::kLast + 1 && std::size(kBinaryNames) == Binary::kLast + 1 &&
              std::size(kReduceNames) == Reduce::kLast + 1 && std::size(kCompareNames) == Compare::kLast + 1);

// TensorFlow names of nodes whose source operator (first name of a pair) has a name of its own in TensorFlow. An
// operator that the importer makes of several nodes gets the name of each node's op.
constexpr TensorflowName kMaxPoolSources[] = {{"GlobalMaxPool", "Max"}, {"ReduceMax", "Max"}, {"REDUCE_MAX", "Max"}};
constexpr TensorflowName kResizeSources[] = {{"RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"}};
constexpr TensorflowName kAddSources[] = {{"Sum", "AddN"}};
constexpr TensorflowName kMulSources[] = {{"Div", "RealDiv"}};
constexpr TensorflowName kSelectSources[] = {{"SELECT", "Select"}};
constexpr TensorflowName kReshapeSources[] = {
    {"Squeeze", "Squeeze"}, {"SQUEEZE", "Squeeze"}, {"Unsqueeze", "ExpandDims"}, {"EXPAND_DIMS", "ExpandDims"}};
constexpr TensorflowName kConcatSources[] = {{"PACK", "Pack"}};
constexpr TensorflowName kSliceSources[] = {{"Split", "Split"},   {"SPLIT", "Split"},     {"SPLIT_V", "SplitV"},
                                            {"UNPACK", "Unpack"}, {"Gather", "GatherV2"}, {"SLICE", "Slice"}};
constexpr TensorflowName kCopySources[] = {{"QUANTIZE", "QuantizeV2"}, {"DEQUANTIZE", "Dequantize"}};

// Each of the functions below makes the facts of several ops that are alike.
constexpr OpFacts matmul(Op op, Rows rows, Pixels pixels, const char* tensorflow) {
  return {.op = op,
          .rows = rows,
          .pixels = pixels,
          .calibrated = StaticForm::kMatmul,
          .any_sign = true,
          .tensorflow = tensorflow};
}
// y = f(x), elementwise.
constexpr OpFacts function(Op op, Zeros zeros, StaticForm calibrated, IntegerOutput forms, const char* tensorflow) {
  return {.op = op,
          .rows = kElements,
          .axes = Axes::kOfFirst,
          .pixels = Pixels::kEach,
          .zeros = zeros,
          .calibrated = calibrated,
          .forms = forms,
          .keeps_axes = true,
          .tensorflow = tensorflow};
}
// y = a f b, with broadcasting.
constexpr OpFacts arithmetic(Op op, const char* tensorflow) {
  return {.op = op,
          .rows = kBroadcast,
          .axes = Axes::kOfTwo,
          .pixels = Pixels::kEach,
          .zeros = Zeros::kTogether,
          .calibrated = StaticForm::kOwn,
          .forms = IntegerOutput::kOwn,
          .any_sign = true,
          .keeps_axes = true,
          .tensorflow = tensorflow};
}
constexpr OpFacts pool(Op op, const char* tensorflow) {
  return {.op = op,
          .pixels = Pixels::kPool,
          .zeros = Zeros::kPooled,
          .calibrated = StaticForm::kSame,
          .forms = IntegerOutput::kOfInput,
          .passes_error = true,
          .tensorflow = tensorflow};
}
// Makes facts with only these fields. The others have their defaults.
constexpr OpFacts plain(Op op, Rows rows = kSamples, const char* tensorflow = nullptr) {
  return {.op = op, .rows = rows, .tensorflow = tensorflow};
}
constexpr OpFacts passing_error(OpFacts facts) {
  facts.passes_error = true;
  return facts;
}
constexpr OpFacts by_source(OpFacts facts, std::span<const TensorflowName> names) {
  facts.tensorflow_sources = names;
  return facts;
}
constexpr OpFacts preparing(OpFacts facts) {
  facts.prepares_operands = true;
  return facts;
}

// `calibrated` follows TensorFlow Lite's operator_property.cc (lite/tools/optimize) where that states a fact:
// restrict_same_input_output_scale is kSame, restrict_scale is kFixed.
constexpr OpFacts kFacts[] = {
    matmul(Op::kDense, kFeatures, Pixels::kOther, "MatMul"),
    matmul(Op::kConv2d, kSamples, Pixels::kConvolution, "Conv2D"),
    matmul(Op::kDepthwiseConv2d, kSamples, Pixels::kConvolution, "DepthwiseConv2dNative"),
    {.op = Op::kBatchedMatmul, .rows = kMatrices, .forms = IntegerOutput::kOwn, .tensorflow = "BatchMatMulV2"},
    pool(Op::kAveragePool, "AvgPool"),
    by_source(pool(Op::kMaxPool, "MaxPool"), kMaxPoolSources),
    {.op = Op::kResize,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOfInput,
     .keeps_axes = true,
     .tensorflow = "ResizeBilinear",
     .tensorflow_sources = kResizeSources},
    by_source(passing_error(arithmetic(Op::kAdd, "AddV2")), kAddSources),
    arithmetic(Op::kSub, "Sub"),
    by_source(arithmetic(Op::kMul, "Mul"), kMulSources),
    {.op = Op::kBinary,
     .rows = kBroadcast,
     .axes = Axes::kOfTwo,
     .pixels = Pixels::kEach,
     .forms = IntegerOutput::kOwn,
     .keeps_axes = true,
     .tensorflow_functions = kBinaryNames},
    {.op = Op::kCompare, .rows = kBroadcast, .tensorflow_functions = kCompareNames},
    {.op = Op::kSelect,
     .rows = kBroadcast,
     .keeps_axes = true,
     .tensorflow = "SelectV2",
     .tensorflow_sources = kSelectSources,
     .broadcast = 3},

    function(Op::kClamp, Zeros::kClamped, StaticForm::kOwn, IntegerOutput::kOwn, nullptr),
    function(Op::kLeakyRelu, Zeros::kKept, StaticForm::kOwn, IntegerOutput::kOwn, "LeakyRelu"),
    function(Op::kSigmoid, Zeros::kLost, StaticForm::kFixed, IntegerOutput::kOwn, "Sigmoid"),
    function(Op::kTanh, Zeros::kKept, StaticForm::kFixed, IntegerOutput::kOwn, "Tanh"),
    // TensorFlow computes x Relu6(x + 3) / 6: AddV2, Relu6, Mul, Mul. The last one gives the result.
    function(Op::kHardSwish, Zeros::kKept, StaticForm::kOwn, IntegerOutput::kOwn, "Mul"),
    {.op = Op::kLookup, .rows = kElements, .axes = Axes::kOfFirst, .pixels = Pixels::kEach, .zeros = Zeros::kKept},
    function(Op::kGelu, Zeros::kKept, StaticForm::kReal, IntegerOutput::kOwn, "Erf"),
    function(Op::kSilu, Zeros::kKept, StaticForm::kOwn, IntegerOutput::kOwn, "Sigmoid"),
    {.op = Op::kUnary,
     .rows = kElements,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kEach,
     .forms = IntegerOutput::kOwn,
     .keeps_axes = true,
     .tensorflow_functions = kUnaryNames},
    {.op = Op::kDropout, .rows = kElements, .keeps_axes = true, .tensorflow = "Mul"},
    plain(Op::kRandom, kSamples, "RandomUniform"),

    {.op = Op::kSoftmax,
     .rows = kAlongAxis,
     .axes = Axes::kOfFirst,
     .calibrated = StaticForm::kFixed,
     .forms = IntegerOutput::kOwn,
     .tensorflow = "Softmax"},
    {.op = Op::kLogSoftmax, .rows = kAlongAxis, .axes = Axes::kOfFirst, .tensorflow = "LogSoftmax"},
    {.op = Op::kMean,
     .rows = kReduced,
     .axes = Axes::kOfFirst,
     .zeros = Zeros::kReduced,
     .calibrated = StaticForm::kOwn,
     .forms = IntegerOutput::kOwn,
     .passes_error = true,
     .tensorflow = "Mean"},
    {.op = Op::kReduce, .rows = kReduced, .axes = Axes::kOfFirst, .tensorflow_functions = kReduceNames},
    plain(Op::kArgMax, kSearched),
    {.op = Op::kBatchNorm,
     .rows = kElements,
     .pixels = Pixels::kEach,
     .any_sign = true,
     .tensorflow = "FusedBatchNormV3"},
    plain(Op::kBatchNormTraining),
    plain(Op::kLayerNorm, kNormalized, "FusedBatchNormV3"),  // Keras's name: it normalizes over the last axis

    {.op = Op::kReshape,
     .rows = kReshaped,
     .zeros = Zeros::kFlattened,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOfInput,
     .passes_error = true,
     .tensorflow = "Reshape",
     .tensorflow_sources = kReshapeSources},
    {.op = Op::kTranspose,
     .rows = kPermuted,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOfInput,
     .tensorflow = "Transpose"},
    {.op = Op::kConcat,
     .rows = kJoined,
     .axes = Axes::kOfAll,
     .pixels = Pixels::kJoined,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOwn,
     .keeps_axes = true,
     .tensorflow = "ConcatV2",
     .tensorflow_sources = kConcatSources},
    {.op = Op::kPad,
     .rows = kPadded,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kPadded,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOwn,
     .keeps_axes = true},
    {.op = Op::kSlice,
     .rows = kSliced,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kSliced,
     .calibrated = StaticForm::kSame,
     .forms = IntegerOutput::kOfInput,
     .keeps_axes = true,
     .tensorflow = "StridedSlice",
     .tensorflow_sources = kSliceSources},
    by_source(function(Op::kCopy, Zeros::kLost, StaticForm::kSame, IntegerOutput::kMissing, "Identity"), kCopySources),
    preparing(plain(Op::kPack)),
    plain(Op::kStore, kStates, "Identity"),

    {.op = Op::kQuantize,
     .rows = kElements,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kScaled,
     .zeros = Zeros::kKept,
     .keeps_axes = true,
     .prepares_operands = true,
     .tensorflow = "QuantizeV2"},
    {.op = Op::kDequantize,
     .rows = kElements,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kScaled,
     .zeros = Zeros::kDecoded,
     .keeps_axes = true,
     .prepares_operands = true,
     .tensorflow = "Dequantize"},
    {.op = Op::kRequantize,
     .rows = kElements,
     .axes = Axes::kOfFirst,
     .pixels = Pixels::kEach,
     .prepares_operands = true,
     .tensorflow = "Requantize"},
    preparing(function(Op::kCast, Zeros::kKept, StaticForm::kReal, IntegerOutput::kMissing, "Cast")),
    {.op = Op::kDynamicQuantize, .zeros = Zeros::kRanged, .prepares_operands = true, .tensorflow = "QuantizeV2"},
    preparing(plain(Op::kFakeQuantize, kElements)),
    preparing(plain(Op::kFakeFloat8, kElements)),
    preparing(plain(Op::kFakeFloat8Gradient)),
    plain(Op::kObserveRange),
    plain(Op::kRoundCodes, kElements),

    plain(Op::kEmbedding, kTable, "GatherV2"),
    plain(Op::kLstm, kRecurrent, "CudnnRNNV3"),
    plain(Op::kGru, kRecurrent, "CudnnRNNV3"),
    plain(Op::kStreamLstm, kStates, "CudnnRNNV3"),
    plain(Op::kSvdf, kStates, "BatchMatMulV2"),
    plain(Op::kTreeEnsemble, kSamples, "SimpleMLInferenceOp"),  // of TensorFlow Decision Forests
    plain(Op::kSignal, kSamples, "SignalRfft"),                 // takes integers, which no policy changes
    plain(Op::kNonMaxSuppression, kMixed, "NonMaxSuppressionV5"),
};

// Index into kFacts plus 1, by the op's number. 0 if the op has no entry in kFacts.
constexpr auto kPlaces = [] {
  std::array<uint8_t, size_t(Op::kSumTo)> places = {};
  for (size_t i = 0; i < std::size(kFacts); ++i) places[size_t(kFacts[i].op)] = uint8_t(i + 1);
  return places;
}();
constexpr bool each_op_has_a_row() {
  size_t rows = 0;
  for (const OpRule* rule : kAllRules) {
    if (rule->op >= Op::kSumTo) continue;
    if (kPlaces[size_t(rule->op)] == 0) return false;
    ++rows;
  }
  return rows == std::size(kFacts);
}
static_assert(each_op_has_a_row(), "an op of inference has no row, or two");

constexpr OpFacts kOther = {};

}  // namespace

const OpFacts& facts_of(Op op) {
  const size_t place = op < Op::kSumTo ? kPlaces[size_t(op)] : 0;
  return place == 0 ? kOther : kFacts[place - 1];
}

bool has_clamp(Op op) {
  const OpRule* rule = find_rule(op);
  return rule != nullptr &&
         std::ranges::any_of(rule->attributes, [](const Attribute& a) { return std::string_view(a.name) == "clamp"; });
}

std::string integer_refusal(const Graph& graph, const Node& node) {
  if (node.op == Op::kSoftmax) {
    const std::vector<int64_t>& dims = graph.values[size_t(node.inputs[0])].dims;
    if (get_integer(node, "axis") != int(dims.size()) - 1) return "its axis is not the last";
    return dims.back() > 4095 ? "it has more than 4095 classes" : "";
  }
  if (node.op == Op::kAveragePool && get_integer(node, "count_include_pad") != 0)
    for (const char* side : {"pad_top", "pad_left", "pad_bottom", "pad_right"})
      if (get_integer(node, side) != 0) return "its average counts padded positions";
  return "";
}

}  // namespace nacre::tools
