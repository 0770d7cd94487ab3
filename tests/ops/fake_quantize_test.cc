// Tests fake_quantize against the converter's quantizers and the engine's quantize and dequantize kernels. Also tests
// observe_range.
#include "engine/ops/fake_quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "tests/ops/fake_quantize_steps.h"
#include "tests/ops/run_step.h"
#include "tools/calibration/quantizers.h"
#include "tools/passes/policy/quantize_weights.h"

namespace nacre::test {
namespace {

using namespace fake_quantize_steps;

// Returns the value of every code, the midpoints between them, their float32 neighbours, and numbers beyond the
// range.
std::vector<float> points(float scale, int64_t zero) {
  std::vector<float> x = {0.0f, -0.0f, 1e30f, -1e30f, kInf, -kInf, 1e-30f};
  for (int q = -129; q <= 128; ++q)
    for (const double at : {double(q - zero), double(q - zero) + 0.5}) {
      const float v = float(double(scale) * at);
      for (const float w : {v, std::nextafter(v, kInf), std::nextafter(v, -kInf)}) x.push_back(w);
    }
  return x;
}

// Compares with the engine's quantize and dequantize kernels for the converter's scale and zero point.
TEST(fake_quantize, is_what_the_integer_network_makes_of_every_code) {
  size_t compared = 0;
  for (const std::vector<float>& range : ranges()) {
    const tools::Quantizer quantizer = tools::quantizer_of_range({range[0], range[1]});
    std::vector<float> x = points(quantizer.scale[0], quantizer.zero[0]), scale = quantizer.scale, want(x.size());
    std::vector<int8_t> q(x.size());
    std::vector<int32_t> zero = {int32_t(quantizer.zero[0])};
    const std::vector<int32_t> dims = {int32_t(x.size())};
    StepOperands quantize, dequantize;
    quantize.add(dims, x).add({1}, scale).add({1}, zero).add(dims, q);
    dequantize.add(dims, q).add({1}, scale).add({1}, zero).add(dims, want);
    ASSERT_EQ(run_step(reference::kQuantizeI8HalfAway, {}, quantize), Code::kOk);
    ASSERT_EQ(run_step(reference::kDequantizeI8, {}, dequantize), Code::kOk);
    const std::vector<float> y = fake(reference::kFakeQuantizeF32, {}, dims, x, range);
    for (size_t i = 0; i < x.size(); ++i, ++compared)
      ASSERT_EQ(bits(y[i]), bits(want[i])) << x[i] << " in [" << range[0] << ", " << range[1] << "]";
  }
  EXPECT_GT(compared, 300000u);
}

// All 256 codes occur, and fake_quantize of y is y: the values are those of the quantizer.
TEST(fake_quantize, has_256_values_which_it_keeps) {
  const std::vector<float> range = {-2.5f, 3.75f};
  std::vector<float> x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(float(i) * 0.001f);
  const std::vector<float> y = fake(reference::kFakeQuantizeF32, {}, {int32_t(x.size())}, x, range);
  std::vector<float> values = y;
  values.erase(std::unique(values.begin(), values.end()), values.end());
  EXPECT_EQ(values.size(), 256u);
  EXPECT_EQ(fake(reference::kFakeQuantizeF32, {}, {int32_t(x.size())}, y, range), y);
}

// Compares with the codes that convert writes for the same weights.
TEST(fake_quantize, weights_are_what_the_converter_stores) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    const std::vector<int32_t> dims = {int32_t(1 + random() % 5), int32_t(1 + random() % 4), int32_t(1 + random() % 6),
                                       int32_t(1 + random() % 5)};
    std::vector<float> w(size_t(dims[0] * dims[1] * dims[2] * dims[3]));
    const double size = std::exp(uniform(random, -20, 5));
    for (float& v : w) v = round % 7 == 0 ? 0 : float(uniform(random, -size, size));
    const std::vector<int64_t> wide(dims.begin(), dims.end());
    for (int axis = tools::kPerTensor; axis < 4; ++axis) {
      const tools::Quantizer quantizer = tools::symmetric_quantizer(w, wide, axis);
      const std::vector<int8_t> codes = tools::symmetric_codes(w, wide, quantizer);
      const std::vector<uint32_t> words =
          axis < 0 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, 1, uint32_t(axis)};
      const std::vector<float> y = fake(reference::kFakeQuantizeF32, words, dims, w);
      const auto inner = size_t(axis < 0 ? 1 : tools::inner_elements(wide, axis));
      for (size_t i = 0; i < w.size(); ++i)
        ASSERT_EQ(bits(y[i] + 0.0f), bits(quantizer.scale[i / inner % quantizer.scale.size()] * float(codes[i])));
    }
    for (const Op op : {Op::kConv2d, Op::kDepthwiseConv2d}) {
      const tools::WeightLayout layout = tools::layout_of(op, {wide[0], wide[1], wide[2] * wide[3]});
      const std::vector<int32_t> shape = {dims[0], dims[1], dims[2] * dims[3]};
      const uint32_t axis = op == Op::kDepthwiseConv2d ? 2 : 0;
      const tools::WeightCodes step = tools::step_codes(w, layout), int8 = tools::absmax_codes(w, layout, kInt8Range),
                               int4 = tools::absmax_codes(w, layout, kInt4Range);
      const auto y1 = fake(reference::kFakeQuantizeF32, {1, 1, axis}, shape, w),
                 y2 = fake(reference::kFakeQuantizeF32, {2, 1, axis}, shape, w),
                 y3 = fake(reference::kFakeQuantizeF32, {3, 1, axis}, shape, w);
      for (int64_t k = 0; k < layout.channels; ++k)
        for (int64_t r = 0; r < layout.terms; ++r) {
          const auto i = size_t(layout.at(k, r));
          ASSERT_EQ(bits(y1[i] + 0.0f), bits(float(step.codes[i]) * step.scale[size_t(k)]));
          ASSERT_EQ(bits(y2[i] + 0.0f), bits(float(int8.codes[i]) / int8.scale[size_t(k)] + 0.0f));
          ASSERT_EQ(bits(y3[i] + 0.0f), bits(float(int4.codes[i]) / int4.scale[size_t(k)] + 0.0f));
        }
    }
  }
}

// 16-bit floats give the float32 result, rounded once. float64 uses the range's scale and codes, and divides in
// float64.
TEST(fake_quantize, other_types) {
  Random random(13);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> range = {float(uniform(random, -4, 1)), float(uniform(random, -1, 4))};
    std::vector<float> x(257);
    for (float& v : x) v = float(uniform(random, -5, 5));
    std::vector<Float16> half;
    std::vector<Bfloat16> brain;
    std::vector<double> wide(x.begin(), x.end());
    std::vector<float> of_half, of_brain;
    for (const float v : x) {
      half.emplace_back(v), brain.emplace_back(v);
      of_half.push_back(float(half.back())), of_brain.push_back(float(brain.back()));
    }
    const auto want_half = fake(reference::kFakeQuantizeF32, {}, {257}, of_half, range);
    const auto want_brain = fake(reference::kFakeQuantizeF32, {}, {257}, of_brain, range);
    const auto y_half = fake(reference::kFakeQuantizeF16, {}, {257}, half, range);
    const auto y_brain = fake(reference::kFakeQuantizeBf16, {}, {257}, brain, range);
    const auto y_wide = fake(reference::kFakeQuantizeF64, {}, {257}, wide, range);
    const tools::Quantizer quantizer = tools::quantizer_of_range({range[0], range[1]});
    const double scale = double(quantizer.scale[0]), zero = double(quantizer.zero[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(y_half[i].bits, Float16(want_half[i]).bits);
      EXPECT_EQ(y_brain[i].bits, Bfloat16(want_brain[i]).bits);
      const double code = std::clamp(std::round(wide[i] / scale) + zero, -128.0, 127.0);
      EXPECT_EQ(y_wide[i], scale * (code - zero));
    }
  }
}

TEST(fake_quantize, nan_stays_and_no_range_changes_nothing) {
  const std::vector<float> x = {kNan, 1.25f, -3e5f, 0.1f};
  const auto y = fake(reference::kFakeQuantizeF32, {}, {4}, x, {-1, 1});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(fake<float>(reference::kFakeQuantizeF32, {}, {3}, {x[1], x[2], x[3]}, {0, 0}),
            (std::vector<float>{x[1], x[2], x[3]}));
  for (const uint32_t rule : {0u, 1u, 2u, 3u}) {
    EXPECT_TRUE(std::isnan(fake<float>(reference::kFakeQuantizeF32, {rule}, {4}, x)[1])) << rule;
    EXPECT_EQ(fake<float>(reference::kFakeQuantizeF32, {rule, 1, 0}, {2, 2}, {kNan, 1, 0, 0})[3], 0) << rule;
  }
  for (const std::vector<float>& range : {std::vector<float>{kNan, 1}, {0, kInf}, {-kInf, kInf}, {1, kNan}})
    EXPECT_TRUE(std::isnan(fake<float>(reference::kFakeQuantizeF32, {}, {1}, {0.5f}, range)[0]))
        << range[0] << ' ' << range[1];
}

template <class T>
std::vector<float> observe(const KernelEntry& entry, std::vector<std::vector<float>> batches) {
  std::vector<float> sum = {0, 0}, count = {0};
  for (const std::vector<float>& batch : batches) {
    std::vector<T> x;
    for (const float v : batch) x.push_back(T(v));
    StepOperands operands;
    operands.add({int32_t(x.size())}, x).add({2}, sum).add({1}, count);
    EXPECT_EQ(run_step(entry, {}, operands), Code::kOk);
  }
  return {sum[0], sum[1], count[0]};
}

TEST(observe_range, adds_the_ends_of_each_batch) {
  const std::vector<std::vector<float>> batches = {{1, -2, 0.5f}, {4}, {-1, -8, -0.25f, -3}};
  const std::vector<float> want = {-2 + 4 - 8, 1 + 4 - 0.25f, 3};
  EXPECT_EQ(observe<float>(reference::kObserveRangeF32, batches), want);
  EXPECT_EQ(observe<double>(reference::kObserveRangeF64, batches), want);
  EXPECT_EQ(observe<Float16>(reference::kObserveRangeF16, batches), want);
  EXPECT_EQ(observe<Bfloat16>(reference::kObserveRangeBf16, batches), want);
  for (const std::vector<float>& x : {std::vector<float>{kNan, 1, 2}, {1, kNan, 2}, {1, 2, kNan}}) {
    const std::vector<float> sum = observe<float>(reference::kObserveRangeF32, {x, {1}});
    EXPECT_TRUE(std::isnan(sum[0]) && std::isnan(sum[1]));
  }
}

struct UsedRange {
  std::vector<float> used, sum, batches;
};

UsedRange used_range(std::vector<uint32_t> words, std::vector<float> x, std::vector<float> range, uint32_t step) {
  UsedRange made = {{9, 9}, {0, 0}, {0}};
  std::vector<uint32_t> steps = {step};
  StepOperands operands;
  operands.add({int32_t(x.size())}, x).add({2}, made.sum).add({1}, made.batches);
  range.empty() ? operands.absent() : operands.add({2}, range);
  words[0] == 0 ? operands.absent() : operands.add({1}, steps);
  operands.add({2}, made.used);
  EXPECT_EQ(run_step(reference::kObserveUsedRangeF32, words, operands), Code::kOk);
  return made;
}

TEST(observe_range, rounds_by_the_ends_of_the_batch_until_it_freezes) {
  EXPECT_EQ(used_range({0, 0}, {1, -2, 0.5f}, {}, 0).used, (std::vector<float>{-2, 1}));
  EXPECT_EQ(used_range({0, 1}, {1, -2, 0.5f}, {-1, 3}, 0).used, (std::vector<float>{-2, 3}));
  EXPECT_EQ(used_range({5, 0}, {1, -2}, {-1, 3}, 4).used, (std::vector<float>{-2, 1}));
  const UsedRange frozen = used_range({5, 0}, {1, -2}, {-1, 3}, 5);
  EXPECT_EQ(frozen.used, (std::vector<float>{-1, 3}));
  EXPECT_EQ(frozen.batches, std::vector<float>{0});  // update_range then changes nothing
  // A range that has seen no data cannot freeze.
  const UsedRange none = used_range({5, 0}, {1, -2}, {0, 0}, 7);
  EXPECT_EQ(none.used, (std::vector<float>{-2, 1}));
  EXPECT_EQ(none.batches, std::vector<float>{1});
  for (const float end : {kNan, std::numeric_limits<float>::infinity()})
    EXPECT_EQ(used_range({0, 0}, {1, end}, {}, 0).used, (std::vector<float>{0, 0}));
}

TEST(observe_range, refuses_words_without_their_operands) {
  std::vector<float> x(4), sum(2), batches(1), range(2), used(2);
  const auto code = [&](std::vector<uint32_t> words) {
    StepOperands operands;
    operands.add({4}, x).add({2}, sum).add({1}, batches).absent().absent().add({2}, used);
    return run_step(reference::kObserveUsedRangeF32, words, operands);
  };
  EXPECT_EQ(code({}), Code::kOk);
  EXPECT_EQ(code({1, 0}), Code::kAttribute);
  EXPECT_EQ(code({0, 1}), Code::kAttribute);
  EXPECT_EQ(code({0, 2}), Code::kAttribute);
}

TEST(fake_quantize, refuses_what_it_cannot_do) {
  std::vector<float> x(6), y(6), range(2), three(3);
  const auto code = [&](std::vector<uint32_t> words, std::vector<float>* with, std::vector<int32_t> range_dims) {
    StepOperands operands;
    operands.add({2, 3}, x);
    with == nullptr ? operands.absent() : operands.add(range_dims, *with);
    operands.absent().add({2, 3}, y);
    return run_step(reference::kFakeQuantizeF32, words, operands);
  };
  EXPECT_EQ(code({4}, nullptr, {}), Code::kAttribute);  // codes without a step
  EXPECT_EQ(code({6}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0xFFFFFFFF}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0, 2, 0}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0, 1, 2}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 1, 0x80000000}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 0, 1}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({1}, &range, {2}), Code::kAttribute);
  EXPECT_EQ(code({0, 1, 0}, &range, {2}), Code::kAttribute);
  EXPECT_EQ(code({}, &range, {1, 2}), Code::kShapeScale);
  EXPECT_EQ(code({}, &three, {3}), Code::kShapeScale);
  EXPECT_EQ(code({}, &range, {2}), Code::kOk);
  StepOperands other, sum;
  other.add({2, 3}, x).add({3, 2}, x).absent().absent().add({2, 3}, y);
  EXPECT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, other), Code::kShapeInput);
  sum.add({6}, x).add({6}, x).add({2}, range).add({3}, three);
  EXPECT_EQ(run_step(reference::kFakeQuantizeGradientRangeF32, {}, sum), Code::kShapeScale);
  StepOperands observed;
  observed.add({6}, x).add({2}, range).add({3}, three);
  EXPECT_EQ(run_step(reference::kObserveRangeF32, {}, observed), Code::kShapeScale);
}

}  // namespace
}  // namespace nacre::test
