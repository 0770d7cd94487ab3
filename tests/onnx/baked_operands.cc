#include "tests/onnx/baked_operands.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace nacre::tools {
namespace {

// Lists operands that are weights, shapes or axes. An operator that is supported on constants only has all its
// operands.
const std::map<std::string, std::vector<int>>& baked_operands() {
  static const std::map<std::string, std::vector<int>> kBaked = {
      {"AffineGrid", {1}},
      {"ArrayFeatureExtractor", {1}},
      {"BatchNormalization", {1, 2, 3, 4}},
      {"BlackmanWindow", {0}},
      {"CastLike", {1}},
      {"CausalConvWithState", {1, 2}},
      {"CenterCropPad", {1}},
      {"Clip", {1, 2}},
      {"Col2Im", {1, 2}},
      {"Compress", {1}},
      {"ConstantOfShape", {0}},
      {"Conv", {1, 2}},
      {"ConvTranspose", {1, 2}},
      {"CumProd", {1}},
      {"CumSum", {1}},
      {"DFT", {1, 2}},
      {"DequantizeLinear", {1, 2}},
      {"Dropout", {1, 2}},
      {"Expand", {1}},
      {"GRU", {1, 2, 3, 4}},
      {"Gather", {1}},
      {"GatherElements", {1}},
      {"GatherND", {1}},
      {"Gemm", {1, 2}},
      {"GridSample", {1}},
      {"HammingWindow", {0}},
      {"HannWindow", {0}},
      {"If", {0}},
      {"LSTM", {1, 2, 3, 4, 7}},
      {"Loop", {0, 1}},
      {"MatMul", {1}},
      {"MaxUnpool", {2}},
      {"MelWeightMatrix", {0, 1, 2, 3, 4}},
      {"NonMaxSuppression", {0, 1, 2, 3, 4}},
      {"NonZero", {0}},
      {"OneHot", {1, 2}},
      {"PRelu", {1}},
      {"Pad", {1, 2, 3}},
      {"QLinearConv", {1, 2, 3, 4, 5, 6, 7, 8}},
      {"QLinearMatMul", {1, 2, 3, 4, 5, 6, 7}},
      {"QuantizeLinear", {1, 2}},
      {"RNN", {1, 2, 3, 4}},
      {"Range", {0, 1, 2}},
      {"ReduceL1", {1}},
      {"ReduceL2", {1}},
      {"ReduceLogSum", {1}},
      {"ReduceLogSumExp", {1}},
      {"ReduceMax", {1}},
      {"ReduceMean", {1}},
      {"ReduceMin", {1}},
      {"ReduceProd", {1}},
      {"ReduceSum", {1}},
      {"ReduceSumSquare", {1}},
      {"Reshape", {1}},
      {"Resize", {1, 2, 3}},
      {"ReverseSequence", {1}},
      {"RoiAlign", {1, 2}},
      {"RotaryEmbedding", {1, 2}},
      {"STFT", {1, 2, 3}},
      {"Scatter", {1}},
      {"ScatterElements", {1}},
      {"ScatterND", {1}},
      {"Slice", {1, 2, 3, 4}},
      {"Split", {1}},
      {"Squeeze", {1}},
      {"TensorScatter", {2}},
      {"Tile", {1}},
      {"TopK", {1}},
      {"Trilu", {1}},
      {"Unique", {0}},
      {"Unsqueeze", {1}},
      {"Upsample", {1}},
  };
  return kBaked;
}

int type_of(const ::onnx::GraphProto& graph, const std::string& name) {
  for (const auto& input : graph.input())
    if (input.name() == name) return input.type().tensor_type().elem_type();
  return ::onnx::TensorProto::UNDEFINED;
}

// Returns whether no run-time value may have the type.
bool is_stored_only(int type) {
  using Proto = ::onnx::TensorProto;
  static const std::set<int> kTypes = {Proto::UINT16};
  return kTypes.contains(type);
}

}  // namespace

bool is_baked(const ::onnx::GraphProto& graph, const std::string& input) {
  if (is_stored_only(type_of(graph, input))) return true;
  bool read = false;
  for (const auto& node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != input) continue;
      read = true;
      const auto row = baked_operands().find(node.op_type());
      if (row == baked_operands().end() || std::count(row->second.begin(), row->second.end(), i) == 0) return false;
    }
  return read;
}

}  // namespace nacre::tools
