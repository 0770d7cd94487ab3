// Tests loss scaling. tests/claims/golden_policies.cc checks the systems' own sequences.
#include "engine/numeric/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace nacre::test {
namespace {

constexpr Gradients kFinite = {}, kInfinite = {.infinite = true}, kNans = {.nan = true};
constexpr LossScaleSystem kSystems[] = {LossScaleSystem::kNacre, LossScaleSystem::kTensorFlow, LossScaleSystem::kKeras,
                                        LossScaleSystem::kJmp,   LossScaleSystem::kFastai,     LossScaleSystem::kAxon};

TEST(loss_scale, every_default_is_valid) {
  for (const LossScaleSystem system : kSystems)
    for (const LossScale kind : {LossScale::kNone, LossScale::kFixed, LossScale::kDynamic})
      EXPECT_TRUE(loss_scaler(system, kind).valid());
}

TEST(loss_scale, what_cannot_be_unscaled_exactly_is_refused) {
  const LossScaler good = loss_scaler(LossScaleSystem::kNacre);
  for (float LossScaler::*field : {&LossScaler::initial, &LossScaler::factor, &LossScaler::min, &LossScaler::max})
    for (const float wrong :
         {0.0f, -2.0f, 3.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      LossScaler rule = good;
      rule.*field = wrong;
      EXPECT_FALSE(rule.valid()) << wrong;
    }
  LossScaler rule = good;
  rule.period = 0;
  EXPECT_FALSE(rule.valid());
  rule = good, rule.factor = 1;
  EXPECT_FALSE(rule.valid());
  rule = good, rule.initial = 0x1p25f;
  EXPECT_FALSE(rule.valid());
  EXPECT_FALSE(
      (LossScaler{.system = LossScaleSystem::kTensorFlow, .kind = LossScale::kFixed, .initial = 0.5f}).valid());
}

// The scale always stays a power of two within [min, max]. A step is applied exactly if its gradients are finite.
TEST(loss_scale, ours_stays_within_its_bounds) {
  std::mt19937 random(5);
  LossScaler rule = loss_scaler(LossScaleSystem::kNacre);
  rule.period = 3;
  LossScaleState state = rule.start();
  uint32_t skipped = 0;
  for (int i = 0; i < 100000; ++i) {
    const bool calm = (i / 1000) % 2 == 0;  // long runs up to the ceiling and down to the floor
    const Gradients gradients = random() % 10 < (calm ? 1u : 9u) ? (random() % 2 ? kInfinite : kNans) : kFinite;
    const float before = state.scale;
    const LossVerdict verdict = rule.step(state, gradients);
    ASSERT_EQ(verdict.apply, gradients.finite());
    ASSERT_EQ(verdict.scale, before);
    ASSERT_EQ(verdict.overflow_at_floor, !gradients.finite() && before == rule.min);
    ASSERT_TRUE(rule.min <= state.scale && state.scale <= rule.max);
    ASSERT_EQ(cut_to_power_of_two(state.scale), state.scale);
    skipped += !verdict.apply;
  }
  EXPECT_EQ(state.skipped, skipped);
}

TEST(loss_scale, overflow_at_the_floor_is_counted_until_it_stops) {
  LossScaler rule = loss_scaler(LossScaleSystem::kNacre);
  rule.initial = 2;
  LossScaleState state = rule.start();
  EXPECT_FALSE(rule.step(state, kInfinite).overflow_at_floor);
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(rule.step(state, kNans).overflow_at_floor);
    EXPECT_EQ(state.at_floor, i);
  }
  rule.step(state, kFinite);
  EXPECT_EQ(state.at_floor, 0u);
  EXPECT_EQ(state.skipped, 4u);
}

// In the kinds fixed and none the scale never moves. Ours skips gradients that are not finite; the other systems do
// not look.
TEST(loss_scale, fixed_and_none_stay) {
  for (const LossScaleSystem system : kSystems)
    for (const LossScale kind : {LossScale::kFixed, LossScale::kNone}) {
      const LossScaler rule = loss_scaler(system, kind);
      LossScaleState state = rule.start();
      const float start = state.scale;
      EXPECT_EQ(start, kind == LossScale::kNone ? 1.0f : rule.initial);
      for (int i = 0; i < 5000; ++i) EXPECT_TRUE(rule.step(state, kFinite).apply);
      for (const Gradients gradients : {kInfinite, kNans})
        EXPECT_EQ(rule.step(state, gradients).apply, system != LossScaleSystem::kNacre);
      EXPECT_EQ(state.scale, start);
    }
}

TEST(loss_scale, gradients_come_from_the_maximum_of_their_bits) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> fine = {1, -3e38f}, infinite = {1, -inf}, nans = {nan, inf};
  EXPECT_TRUE(gradients_of(amax_bits<float>(fine)).finite());
  EXPECT_TRUE(gradients_of(amax_bits<float>(infinite)).infinite);
  EXPECT_TRUE(gradients_of(amax_bits<float>(nans)).nan);
}

}  // namespace
}  // namespace nacre::test
