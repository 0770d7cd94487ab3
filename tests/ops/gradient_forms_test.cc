// Tests gradient kernels by hand: refusals of their shape rules, runs with fewer rows, maxima, and clamps at their
// bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/kernels/training.h"
#include "tests/gradient_check.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

Code refusal(const KernelEntry& entry, const std::vector<uint32_t>& words,
             const std::vector<std::vector<int32_t>>& dims) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < dims.size(); ++i) inputs.push_back(make_array(entry.operands[i].element, dims[i]));
  return execute(entry, words, inputs).code;
}

TEST(gradients, refuse_fused_clamps) {
  using namespace reference;
  const std::vector<std::vector<int32_t>> maps = {{1, 3, 3, 6}, {6, 1, 1, 4}},
                                          weights = {{1, 3, 3, 6}, {1, 3, 3, 4}, {6, 1, 1, 4}},
                                          filters = {{1, 3, 3, 6}, {1, 1, 6}},
                                          depthwise = {{1, 3, 3, 6}, {1, 3, 3, 3}, {1, 1, 6}};
  std::vector<uint32_t> conv(19);
  conv[16] = conv[17] = 3, conv[18] = 4;
  std::vector<uint32_t> channels = conv;
  channels[18] = 3;
  const auto with = [](std::vector<uint32_t> words, size_t i, uint32_t value) {
    if (words.size() <= i) words.resize(i + 1);
    words[i] = value;
    return words;
  };
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, maps), Code::kOk);
  EXPECT_EQ(refusal(kConv2dGradientXF32, with(conv, 8, 1), maps), Code::kAttribute);
  EXPECT_EQ(refusal(kConv2dGradientWF32, conv, weights), Code::kOk);
  EXPECT_EQ(refusal(kConv2dGradientWF32, with(conv, 8, 1), weights), Code::kAttribute);
  EXPECT_EQ(refusal(kDepthwiseConv2dGradientXF32, channels, filters), Code::kOk);
  EXPECT_EQ(refusal(kDepthwiseConv2dGradientXF32, with(channels, 8, 1), filters), Code::kAttribute);
  EXPECT_EQ(refusal(kDepthwiseConv2dGradientWF32, channels, depthwise), Code::kOk);
  EXPECT_EQ(refusal(kDepthwiseConv2dGradientWF32, with(channels, 8, 1), depthwise), Code::kAttribute);
  EXPECT_EQ(refusal(kDenseGradientXF32, {}, {{2, 3}, {3, 4}}), Code::kOk);
  EXPECT_EQ(refusal(kDenseGradientXF32, {1}, {{2, 3}, {3, 4}}), Code::kAttribute);
  EXPECT_EQ(refusal(kDenseGradientWF32, {}, {{2, 3}, {2, 4}, {3, 4}}), Code::kOk);
  EXPECT_EQ(refusal(kDenseGradientWF32, {1}, {{2, 3}, {2, 4}, {3, 4}}), Code::kAttribute);
  EXPECT_EQ(refusal(kBiasGradientF32, {1}, {{2, 3}, {3}}), Code::kAttribute);
  EXPECT_EQ(refusal(kSumToF32, {1, 1, 3}, {{2, 3}}), Code::kAttribute);
  EXPECT_EQ(refusal(kMulGradientF32, {1, 1, 3}, {{2, 3}, {2, 3}}), Code::kAttribute);
  std::vector<uint32_t> pool(16);
  pool[14] = pool[15] = 3;
  EXPECT_EQ(refusal(kAveragePoolGradientF32, pool, {{1, 3, 3, 2}}), Code::kOk);
  EXPECT_EQ(refusal(kAveragePoolGradientF32, with(pool, 11, 1), {{1, 3, 3, 2}}), Code::kAttribute);
  EXPECT_EQ(refusal(kMaxPoolGradientF32, pool, {{1, 3, 3, 2}, {1, 3, 3, 2}}), Code::kOk);
  EXPECT_EQ(refusal(kMaxPoolGradientF32, with(pool, 11, 1), {{1, 3, 3, 2}, {1, 3, 3, 2}}), Code::kAttribute);
}

TEST(gradients, refuse_shapes_that_do_not_belong_together) {
  using namespace reference;
  std::vector<uint32_t> conv(19);
  conv[0] = 1, conv[16] = conv[17] = 4, conv[18] = 4;  // stride 2 down: 4 rows give 2
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 2, 4, 6}, {6, 1, 1, 4}}), Code::kOk);
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 3, 4, 6}, {6, 1, 1, 4}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 2, 4, 5}, {6, 1, 1, 4}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 2, 4, 6}, {6, 1, 1, 2}}), Code::kShapeWeights);
  conv[16] = 0;
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 2, 4, 6}, {6, 1, 1, 4}}), Code::kAttribute);
  conv[16] = 1 << 28;
  EXPECT_EQ(refusal(kConv2dGradientXF32, conv, {{1, 2, 4, 6}, {6, 1, 1, 4}}), Code::kElements);
  EXPECT_EQ(refusal(kDenseGradientXF32, {}, {{2, 3}, {4, 3}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(kDenseGradientXF32, {}, {{1 << 15, 1}, {1, 1 << 16}}), Code::kElements);
  EXPECT_EQ(refusal(kDenseGradientWF32, {}, {{2, 3}, {3, 4}, {3, 4}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kDenseGradientWF32, {}, {{2, 3}, {2, 4}, {4, 3}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(kBiasGradientF32, {}, {{2, 3}, {2}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kBiasGradientF32, {}, {{3}, {1, 3}}), Code::kShapeRank);
  EXPECT_EQ(refusal(kSumToF32, {0, 1, 2}, {{2, 3}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kSumToF32, {0, 9, 2}, {{2, 3}}), Code::kShapeRank);
  EXPECT_EQ(refusal(kSumToF32, {0, 1, 0}, {{2, 3}}), Code::kAttribute);
  EXPECT_EQ(refusal(kMulGradientF32, {0, 1, 3}, {{2, 3}, {2}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kSigmoidGradientF32, {}, {{2, 3}, {3, 2}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kSoftmaxGradientF32, {2, 0x3F800000}, {{2, 3}, {2, 3}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(kMeanGradientF32, {1, 0, 2, 4, 3}, {{3}}), Code::kOk);
  EXPECT_EQ(refusal(kMeanGradientF32, {2, 0, 2, 4, 3}, {{3}}), Code::kShapeInput);
  EXPECT_EQ(refusal(kMeanGradientF32, {4, 0, 2, 4, 3}, {{3}}), Code::kAttributeAxis);
  EXPECT_EQ(refusal(kPadGradientF32, {3}, {{3}}), Code::kPadding);
  EXPECT_EQ(refusal(kPadGradientF32, {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {{4}}), Code::kPadding);
  EXPECT_EQ(refusal(kBatchNormGradientXF32, {0}, {{2, 3}, {3}, {2}}), Code::kShapeWeights);
  EXPECT_EQ(refusal(kBatchNormTrainingF32, {0, 2}, {{2, 3}, {3}, {3}, {3}, {3}, {1}}), Code::kAttribute);
  EXPECT_EQ(refusal(kBatchNormTrainingF32, {0, 1}, {{2, 3}, {3}, {3}, {3}, {3}, {2}}), Code::kShapeInput);
}

// If values in a window are equal, the first takes all of dy.
TEST(gradients, first_maximum_takes_all) {
  std::vector<uint32_t> words(14);
  words[9] = 1;  // a kernel of 1 x 2, stride 1
  const Array x = array_of<double>(kF32, {1, 1, 4, 1}, {2, 2, 2, 1}),
              dy = array_of<double>(kF32, {1, 1, 3, 1}, {1, 10, 100});
  const Execution run = execute(reference::kMaxPoolGradientF32, words, {dy, x});
  ASSERT_EQ(run.code, Code::kOk);
  const double expected[] = {1, 10, 100, 0};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(run.outputs[0].real(i), expected[i]) << i;
}

// The gradient is 0 for relu at 0 and relu6 at 6, as in TensorFlow and PyTorch. For NaN dy passes.
TEST(gradients, of_clamps_stop_at_the_bounds) {
  const std::vector<uint32_t> words = {1, 0, std::bit_cast<uint32_t>(6.0f)};
  const Array y = array_of<double>(kF32, {5}, {0, 0.5, 6, -0.0, NAN}),
              dy = array_of<double>(kF32, {5}, {1, 2, 3, 4, 5});
  const Execution run = execute(reference::kClampGradientF32, words, {dy, y});
  ASSERT_EQ(run.code, Code::kOk);
  const double expected[] = {0, 2, 0, 0, 5};
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(run.outputs[0].real(i), expected[i]) << i;
}

// Checks shapes of gradient steps that run 3 of 4 rows. `batched` has a bit for each operand whose axis 0 is the
// batch.
TEST(gradients, have_the_rows_of_the_run) {
  using namespace reference;
  struct {
    const KernelEntry& entry;
    std::vector<uint32_t> words;
    std::vector<std::vector<int32_t>> operands;
    unsigned batched;
    std::vector<int32_t> dx;
  } const cases[] = {
      {kDenseGradientXF32, {}, {{4, 2, 3}, {3, 5}}, 1, {3, 2, 5}},
      {kDenseGradientWF32, {}, {{4, 3}, {4, 5}, {3, 5}}, 3, {}},
      {kConv2dGradientXF32,
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 5},
       {{4, 2, 3, 6}, {6, 1, 1, 5}},
       1,
       {3, 2, 3, 5}},
      {kConv2dGradientWF32, {}, {{4, 2, 3, 6}, {4, 2, 3, 5}, {6, 1, 1, 5}}, 3, {}},
      {kDepthwiseConv2dGradientXF32,
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 6},
       {{4, 2, 3, 6}, {1, 1, 6}},
       1,
       {3, 2, 3, 6}},
      {kAveragePoolGradientF32, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3}, {{4, 2, 3, 5}}, 1, {3, 2, 3, 5}},
      {kMaxPoolGradientF32, {}, {{4, 2, 3, 5}, {4, 2, 3, 5}}, 3, {3, 2, 3, 5}},
      {kBiasGradientF32, {}, {{4, 2, 3}, {3}}, 1, {}},
      {kSumToF32, {0, 2, 4, 1}, {{4, 3}}, 1, {3, 1}},  // for a batched x
      {kSumToF32, {0, 2, 1, 3}, {{4, 3}}, 1, {1, 3}},  // for an x that is the same for all rows
      {kMulGradientF32, {0, 2, 4, 3}, {{4, 3}, {3}}, 1, {3, 3}},
      {kTanhGradientF32, {}, {{4, 3}, {4, 3}}, 3, {3, 3}},
      {kSoftmaxGradientF32, {1, 0x3F800000}, {{4, 3}, {4, 3}}, 3, {3, 3}},
      {kMeanGradientF32, {2, 0, 3, 4, 5, 2}, {{4, 2}}, 1, {3, 5, 2}},
      {kPadGradientF32, {0, 1}, {{4, 3}}, 1, {3, 2}},
      {kSliceGradientF32,
       {0, 1, 0, 0, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5},
       {{4, 2}},
       1,
       {3, 5}},
      {kReshapeF32, {2, 4, 6}, {{4, 2, 3}}, 1, {3, 6}},
      {kBatchNormGradientXF32, {0}, {{4, 3}, {3}, {3}}, 1, {3, 3}},
      {kBatchNormTrainingGradientXF32, {}, {{4, 3}, {4, 3}, {3}, {3}, {3}}, 3, {3, 3}},
  };
  for (const auto& c : cases) {
    std::vector<TensorRecord> records(c.operands.size(), TensorRecord{});
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      records[i].element = c.entry.operands[i].element;
      records[i].rank = uint8_t(c.operands[i].size());
      std::copy(c.operands[i].begin(), c.operands[i].end(), records[i].dims);
      records[i].flags = uint16_t((c.batched >> i & 1) * kBatched);
      tensors.push_back({nullptr, &records[i]});
    }
    Dims dx[3] = {};
    const char* name = find_rule(c.entry.op)->name;
    const Words words = {c.words.data(), int(c.words.size())};
    ASSERT_EQ(c.entry.shapes(words, {tensors.data(), int(tensors.size()), 3}, dx), Code::kOk) << name;
    EXPECT_EQ(std::vector<int32_t>(dx[0].size, dx[0].size + dx[0].rank), c.dx) << name;
  }
}

}  // namespace
}  // namespace nacre::test
