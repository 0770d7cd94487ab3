// Tests losses on extreme input: labels out of range, the largest logits, NaN, fewer rows, wrong shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/kernels/training.h"
#include "tests/ops/step_in_place.h"

namespace nacre::test {
namespace {

using namespace reference;

constexpr const KernelEntry* kElementwise[] = {&kSigmoidCrossEntropyF32, &kSquaredErrorF32, &kAbsoluteErrorF32,
                                               &kHuberF32};
constexpr const KernelEntry* kElementwiseGradient[] = {&kSigmoidCrossEntropyGradientF32, &kSquaredErrorGradientF32,
                                                       &kAbsoluteErrorGradientF32, &kHuberGradientF32};

TEST(softmax_cross_entropy, refuses_labels_out_of_range_and_adds_nothing) {
  for (const int32_t label : {-1, 3, INT32_MIN, INT32_MAX}) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6}, loss = {7}, count = {2}, seed = {1}, dx(6, 9);
    std::vector<int32_t> y = {0, label};
    for (const uint32_t ignores : {0u, 1u}) {
      const std::vector<uint32_t> words = {0, ignores, uint32_t(-100)};
      EXPECT_EQ(Step(&kSoftmaxCrossEntropyF32, words)
                    .operand(x, {2, 3})
                    .operand(y, {2})
                    .operand(loss, {1})
                    .operand(count, {1})
                    .run(),
                Code::kIndex);
      EXPECT_EQ(Step(&kSoftmaxCrossEntropyGradientF32, words)
                    .operand(x, {2, 3})
                    .operand(y, {2})
                    .operand(seed, {1})
                    .operand(dx, {2, 3})
                    .run(),
                Code::kIndex);
    }
    EXPECT_EQ(loss[0], 7);
    EXPECT_EQ(count[0], 2);
    EXPECT_EQ(dx, std::vector<float>(6, 9));
    std::vector<uint32_t> ignored = {0, 1, uint32_t(label)};  // the same label, now ignored
    EXPECT_EQ(Step(&kSoftmaxCrossEntropyF32, ignored)
                  .operand(x, {2, 3})
                  .operand(y, {2})
                  .operand(loss, {1})
                  .operand(count, {1})
                  .run(),
              Code::kOk);
    EXPECT_EQ(count[0], 3);
  }
}

TEST(softmax_cross_entropy, takes_the_largest_logits) {
  constexpr float kMost = std::numeric_limits<float>::max(), kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> x = {kMost, -kMost, 0, 1000, 0, -1000, 3, kNever, 3}, loss = {0}, count = {0}, seed = {2}, dx(9);
  std::vector<int32_t> y = {0, 0, 2};
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyF32, {0})
                .operand(x, {3, 3})
                .operand(y, {3})
                .operand(loss, {1})
                .operand(count, {1})
                .run(),
            Code::kOk);
  EXPECT_FLOAT_EQ(loss[0], std::log(2.0f));  // rows 0 and 1 are certain
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyGradientF32, {0})
                .operand(x, {3, 3})
                .operand(y, {3})
                .operand(seed, {1})
                .operand(dx, {3, 3})
                .run(),
            Code::kOk);
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 0, -1}));
  std::vector<Float16> h = {Float16(65504.0f), Float16(-65504.0f)}, dh(2);
  std::vector<int32_t> wrong = {1};
  loss = {0};
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyF16, {0})
                .operand(h, {1, 2})
                .operand(wrong, {1})
                .operand(loss, {1})
                .operand(count, {1})
                .run(),
            Code::kOk);
  EXPECT_EQ(loss[0], 131008);  // float16 cannot represent it
  x[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyF32, {0})
                .operand(x, {3, 3})
                .operand(y, {3})
                .operand(loss, {1})
                .operand(count, {1})
                .run(),
            Code::kOk);
  EXPECT_TRUE(std::isnan(loss[0]));
}

TEST(elementwise_losses, let_nan_through_and_overflow_to_infinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<float> y = {nan, 1}, t = {1, 1}, loss = {0}, count = {0}, seed = {1}, dy(2);
    EXPECT_EQ(Step(kElementwise[kind], {bits(1)})
                  .operand(y, {2})
                  .operand(t, {2})
                  .operand(loss, {1})
                  .operand(count, {1})
                  .run(),
              Code::kOk);
    EXPECT_EQ(Step(kElementwiseGradient[kind], {bits(1)})
                  .operand(y, {2})
                  .operand(t, {2})
                  .operand(seed, {1})
                  .operand(dy, {2})
                  .run(),
              Code::kOk);
    EXPECT_TRUE(std::isnan(loss[0]) && std::isnan(dy[0])) << kind;
  }
  std::vector<float> y = {1e30f}, t = {0}, loss = {0}, count = {0};
  EXPECT_EQ(Step(&kSquaredErrorF32).operand(y, {1}).operand(t, {1}).operand(loss, {1}).operand(count, {1}).run(),
            Code::kOk);
  EXPECT_TRUE(std::isinf(loss[0]));
  for (const float large : {3e38f, -3e38f}) {
    y = {large}, loss = {0};
    EXPECT_EQ(
        Step(&kSigmoidCrossEntropyF32).operand(y, {1}).operand(t, {1}).operand(loss, {1}).operand(count, {1}).run(),
        Code::kOk);
    EXPECT_EQ(loss[0], large > 0 ? large : 0);
  }
}

TEST(losses, see_only_the_rows_of_the_run) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, loss = {0}, one = {0}, count = {0}, seed = {1}, dx(6, 9), targets(6, 0.5f);
  std::vector<int32_t> y = {1, 99, 99};  // beyond the run: not read
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyF32, {0})
                .operand(x, {3, 2}, true)
                .operand(y, {3}, true)
                .operand(loss, {1})
                .operand(count, {1})
                .run(1),
            Code::kOk);
  EXPECT_EQ(count[0], 1);
  EXPECT_EQ(Step(&kSoftmaxCrossEntropyGradientF32, {0})
                .operand(x, {3, 2}, true)
                .operand(y, {3}, true)
                .operand(seed, {1})
                .operand(dx, {3, 2}, true)
                .run(1),
            Code::kOk);
  EXPECT_EQ(std::vector<float>(dx.begin() + 2, dx.end()), std::vector<float>(4, 9));
  EXPECT_EQ(Step(&kSquaredErrorF32)
                .operand(x, {3, 2}, true)
                .operand(targets, {3, 2}, true)
                .operand(one, {1})
                .operand(count, {1})
                .run(2),
            Code::kOk);
  EXPECT_EQ(count[0], 3);
  EXPECT_EQ(one[0], (0.25f + 2.25f) / 2 + (6.25f + 12.25f) / 2);
}

TEST(losses, refuse_shapes_and_attributes) {
  std::vector<float> x(24), sum(4), count(1);
  std::vector<int32_t> y(24);
  const auto labels = [&](std::vector<uint32_t> words, std::vector<int32_t> dx, std::vector<int32_t> dy,
                          std::vector<int32_t> ds) {
    return Step(&kSoftmaxCrossEntropyF32, words)
        .operand(x, dx)
        .operand(y, dy)
        .operand(sum, ds)
        .operand(count, {1})
        .run();
  };
  EXPECT_EQ(labels({}, {2, 3, 4}, {2, 3}, {1}), Code::kOk);
  EXPECT_EQ(labels({}, {4}, {}, {1}), Code::kOk);
  EXPECT_EQ(labels({}, {}, {}, {1}), Code::kShapeRank);
  EXPECT_EQ(labels({}, {2, 3}, {2, 3}, {1}), Code::kShapeRank);
  EXPECT_EQ(labels({}, {2, 3}, {3}, {1}), Code::kShapeInput);
  EXPECT_EQ(labels({}, {2, 3}, {2}, {2}), Code::kShapeOutput);
  for (const double bad : {-0.1, 1.1, double(NAN), double(INFINITY)})
    EXPECT_EQ(labels({bits(bad)}, {2, 3}, {2}, {1}), Code::kAttribute);
  EXPECT_EQ(labels({0, 2}, {2, 3}, {2}, {1}), Code::kAttribute);
  const auto huber = [&](double delta, std::vector<int32_t> dy, std::vector<int32_t> dt) {
    std::vector<float> t(24);
    return Step(&kHuberF32, {bits(delta)}).operand(x, dy).operand(t, dt).operand(sum, {1}).operand(count, {1}).run();
  };
  EXPECT_EQ(huber(1, {4, 2}, {4, 2}), Code::kOk);
  for (const double bad : {0.0, -1.0, double(NAN), double(INFINITY)})
    EXPECT_EQ(huber(bad, {4, 2}, {4, 2}), Code::kAttribute);
  EXPECT_EQ(huber(1, {}, {}), Code::kShapeRank);
  EXPECT_EQ(huber(1, {4, 2}, {8}), Code::kShapeRank);
  EXPECT_EQ(huber(1, {4, 2}, {2, 4}), Code::kShapeInput);
  std::vector<float> t(24), seed(2), dx(24);
  EXPECT_EQ(Step(&kDenseCrossEntropyGradientF32, {0, 1})
                .operand(x, {2, 3})
                .operand(t, {2, 3})
                .operand(seed, {1})
                .operand(dx, {2, 3})
                .run(),
            Code::kAttribute);
  EXPECT_EQ(Step(&kDenseCrossEntropyGradientF32)
                .operand(x, {2, 3})
                .operand(t, {2, 3})
                .operand(seed, {2})
                .operand(dx, {2, 3})
                .run(),
            Code::kShapeInput);
  EXPECT_EQ(Step(&kHuberGradientF32, {bits(1)})
                .operand(x, {2, 3})
                .operand(t, {2, 3})
                .operand(seed, {2})
                .operand(dx, {2, 3})
                .run(),
            Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
