#include "tests/cases.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tests/cases_parts.h"
#include "tools/passes/policy/curve_points.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

struct Row {
  Op op;
  CaseMaker make;
  unsigned traits;  // that its cases must show
};

constexpr unsigned kWindowTraits = kDilationTrait | kAsymmetricTrait;
constexpr Row kRows[] = {
    {Op::kDense, &dense_case, kRankTrait},
    {Op::kConv2d, &conv2d_case, kWindowTraits | kGroupsTrait},
    {Op::kDepthwiseConv2d, &depthwise_conv2d_case, kWindowTraits | kMultiplierTrait},
    {Op::kAveragePool, &pool_case, kWindowTraits},
    {Op::kMaxPool, &pool_case, kWindowTraits},
    {Op::kResize, &resize_case, 0},
    {Op::kAdd, &elementwise_case, kRankTrait | kBroadcastTrait},
    {Op::kSub, &elementwise_case, kRankTrait | kBroadcastTrait},
    {Op::kMul, &elementwise_case, kRankTrait | kBroadcastTrait},
    {Op::kBinary, &binary_function_case, kRankTrait | kBroadcastTrait},
    {Op::kCompare, &compare_case, kRankTrait | kBroadcastTrait},
    {Op::kSelect, &select_case, kRankTrait | kBroadcastTrait},
    {Op::kClamp, &clamp_case, kRankTrait},
    {Op::kLeakyRelu, &activation_case, kRankTrait},
    {Op::kSigmoid, &activation_case, kRankTrait},
    {Op::kTanh, &activation_case, kRankTrait},
    {Op::kHardSwish, &activation_case, kRankTrait},
    {Op::kLookup, &lookup_case, kRankTrait},
    {Op::kSoftmax, &softmax_case, kRankTrait},
    {Op::kBatchNorm, &batch_norm_case, kRankTrait},
    {Op::kMean, &mean_case, kRankTrait},
    {Op::kReduce, &reduce_case, kRankTrait},
    {Op::kArgMax, &arg_max_case, kRankTrait},
    {Op::kLogSoftmax, &softmax_case, kRankTrait},
    {Op::kReshape, &reshape_case, kRankTrait},
    {Op::kTranspose, &transpose_case, kRankTrait},
    {Op::kConcat, &concat_case, kRankTrait},
    {Op::kPad, &pad_case, kRankTrait | kAsymmetricTrait},
    {Op::kSlice, &slice_case, kRankTrait},
    {Op::kCopy, &unary_case, kRankTrait},
    {Op::kPack, &pack_case, kRankTrait},
    {Op::kStore, &store_case, kRankTrait},
    {Op::kQuantize, &quantize_case, kRankTrait},
    {Op::kDequantize, &quantize_case, kRankTrait},
    {Op::kRequantize, &requantize_case, kRankTrait},
    {Op::kCast, &cast_case, kRankTrait},
    {Op::kDynamicQuantize, &dynamic_quantize_case, kRankTrait},
    {Op::kGelu, &gelu_case, kRankTrait},
    {Op::kSilu, &activation_case, kRankTrait},
    {Op::kUnary, &unary_function_case, kRankTrait},
    {Op::kRandom, &uniform_case, kRankTrait},
    {Op::kLayerNorm, &layer_norm_case, kRankTrait},
    {Op::kEmbedding, &embedding_case, kRankTrait},
    {Op::kBatchedMatmul, &batched_matmul_case, kRankTrait | kBroadcastTrait},
    {Op::kLstm, &lstm_case, 0},
    {Op::kGru, &gru_case, 0},
    {Op::kStreamLstm, &stream_lstm_case, 0},
    {Op::kSvdf, &svdf_case, 0},
    {Op::kTreeEnsemble, &tree_ensemble_case, kRankTrait},
    {Op::kNonMaxSuppression, &non_max_suppression_case, 0},
    {Op::kSignal, &signal_case, 0},
};

const Row* find_row(Op op) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.op == op; });
  return found == std::end(kRows) ? nullptr : found;
}

void fill_pairs(const Input& input, Random& random, Array& array) {
  for (int row = 0; row < input.dims[0]; ++row) {
    const bool operand = input.fill == Input::kSumPairs && row < 2;  // s / (2 max s)
    const double low = operand ? 1.0 / 32 : input.low, high = operand ? 0.5 : input.high;
    const FixedPoint pair = tools::quantize_multiplier(std::exp2(between(random, std::log2(low), std::log2(high))));
    array.set(2 * row, pair.multiplier);
    array.set(2 * row + 1, pair.shift);
  }
}

void fill_extremes(const Input& input, Random& random, Array& array) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kScales[] = {kNan, kInfinity, -kInfinity, 3e38, -3e38, 1e6, -1e6, -0.01, 0, 1e-45};
  for (int64_t i = 0; i < array.elements(); ++i)
    array.set(i, chance(random, 60) ? kScales[pick(random, 0, int(std::size(kScales)) - 1)]
                                    : between(random, input.low, input.high));
}

void fill_curve(Array& array) {
  const std::vector<int32_t> points = tools::sigmoid_points();
  for (size_t i = 0; i < points.size(); ++i) array.set(int64_t(i), points[i]);
}

void fill_trees(const Input& input, Random& random, Array& array) {
  for (int node = 0; node < input.dims[0]; ++node) {
    array.set(3 * node, pick(random, 0, int(input.low) - 1) << 4 | pick(random, 0, 15));
    for (int side = 1; side < 3; ++side) {
      const bool leaf = node + 1 == input.dims[0] || chance(random, 40);
      array.set(3 * node + side, leaf ? pick(random, -int(input.high), -1) : pick(random, node + 1, input.dims[0] - 1));
    }
  }
}

}  // namespace

CaseMaker find_case_maker(Op op) { return find_row(op) == nullptr ? nullptr : find_row(op)->make; }
unsigned expected_traits(Op op) { return find_row(op) == nullptr ? 0 : find_row(op)->traits; }

Case random_case(const KernelEntry& entry, Random& random) {
  Case made;
  find_row(entry.op)->make(entry, random, made);
  return made;
}

std::vector<Array> random_inputs(const Case& made, Random& random) {
  std::vector<Array> arrays;
  for (const Input& input : made.inputs) {
    arrays.push_back(input.element == ElementType::kNone ? Array() : make_array(input.element, input.dims));
    Array& array = arrays.back();
    if (input.fill != Input::kUniform) {
      if (input.fill == Input::kExtremes) fill_extremes(input, random, array);
      else if (input.fill == Input::kTrees) fill_trees(input, random, array);
      else if (input.fill == Input::kCurve) fill_curve(array);
      else fill_pairs(input, random, array);
      continue;
    }
    const bool real = is_float(input.element);
    for (int64_t i = 0; array.present() && i < array.elements(); ++i)
      array.set(i,
                real ? between(random, input.low, input.high)
                     : double(std::uniform_int_distribution<int64_t>(int64_t(input.low), int64_t(input.high))(random)));
  }
  return arrays;
}

std::string text(const Case& made) {
  std::string text = "words";
  for (const uint32_t word : made.words) text += ' ' + std::to_string(int32_t(word));
  for (const Input& input : made.inputs) text += ", " + Array{input.element, input.dims, {}}.text();
  return text;
}

}  // namespace nacre::test
