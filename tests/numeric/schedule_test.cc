// Tests learning rates against the formulas of torch and Keras in long double, and the ends of every schedule.
#include "engine/numeric/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nacre {
namespace {

using Real = long double;
const Real kPi = std::acos(Real(-1));

// Allows one rounding to float32 of a float64 number, which has some roundings of 2^-53 relative to the peak.
void expect_rate(const Schedule& schedule, uint32_t step, Real expected) {
  const Real error = std::ldexp(Real(1), -48) * schedule.rate;
  EXPECT_GE(Real(schedule.at(step)), Real(float(expected - error))) << step;
  EXPECT_LE(Real(schedule.at(step)), Real(float(expected + error))) << step;
}

TEST(schedule, cosine_without_libm_is_within_two_to_the_minus_50) {
  for (int i = 0; i <= 4000; ++i) {
    const double x = i / 4000.0;
    EXPECT_LE(std::abs(Real(cosine_of_half_turns(x)) - std::cos(kPi * Real(x))), std::ldexp(Real(1), -50)) << x;
  }
  EXPECT_EQ(cosine_of_half_turns(0), 1);
  EXPECT_EQ(cosine_of_half_turns(1), -1);
}

TEST(schedule, constant_step_linear_and_cosine_are_their_formulas) {
  for (const uint32_t steps : {1u, 7u, 1000u})
    for (const uint32_t warmup : {0u, 1u, 13u}) {
      Schedule s = {
          .rate = 0.3f, .steps = steps, .gamma = 0.7f, .end = 0.01f, .warmup_steps = warmup, .warmup_start = 0.125f};
      for (uint32_t step = 0; step < 2 * steps + warmup; step += 1 + step / 50) {
        for (const ScheduleKind kind :
             {ScheduleKind::kConstant, ScheduleKind::kStep, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
          s.kind = kind;
          ASSERT_TRUE(s.valid());
          const Real r = s.rate, e = s.end, at = Real(step) - warmup, q = std::min<Real>(at, steps) / steps;
          if (step < warmup) expect_rate(s, step, r * (0.125L + 0.875L * step / warmup));
          else if (kind == ScheduleKind::kConstant) expect_rate(s, step, r);
          else if (kind == ScheduleKind::kStep)
            expect_rate(s, step, r * std::pow(Real(s.gamma), std::floor(at / steps)));
          else if (kind == ScheduleKind::kLinear) expect_rate(s, step, r * (1 + (e - 1) * q));
          else expect_rate(s, step, r * (e + (1 - e) * (1 + std::cos(kPi * q)) / 2));
        }
      }
    }
}

TEST(schedule, one_cycle_rises_and_falls_as_torch_s) {
  const Schedule s = {.kind = ScheduleKind::kOneCycle,
                      .rate = 0.5f,
                      .steps = 100,
                      .end = 1.0f / 1024,
                      .warmup_start = 1.0f / 32,
                      .pct = 0.25f};
  ASSERT_TRUE(s.valid());
  const Real low = s.rate / 32, least = low / 1024;
  for (uint32_t step = 0; step < 120; ++step) {
    const Real t = step;
    const auto anneal = [](Real from, Real to, Real q) { return to + (from - to) / 2 * (1 + std::cos(kPi * q)); };
    expect_rate(s, step,
                step <= 24 ? anneal(low, s.rate, t / 24) : anneal(s.rate, least, std::min<Real>(1, (t - 24) / 75)));
  }
  EXPECT_EQ(s.at(0), 0.5f / 32);
  EXPECT_EQ(s.at(24), 0.5f);
  EXPECT_EQ(s.at(99), 0.5f / 32 / 1024);
  EXPECT_EQ(s.at(0xFFFFFFFF), s.at(99));
}

TEST(schedule, refuses_what_gives_no_rate) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(Schedule().valid());
  EXPECT_FALSE((Schedule{.kind = ScheduleKind::kCount}).valid());
  EXPECT_FALSE((Schedule{.steps = 0}).valid());
  for (const float bad : {-0.1f, nan, infinity}) {
    EXPECT_FALSE((Schedule{.rate = bad}).valid());
    EXPECT_FALSE((Schedule{.gamma = bad}).valid());
    EXPECT_FALSE((Schedule{.end = bad}).valid());
    EXPECT_FALSE((Schedule{.warmup_start = bad}).valid());
    EXPECT_FALSE((Schedule{.kind = ScheduleKind::kOneCycle, .steps = 100, .pct = bad}).valid());
  }
  Schedule cycle = {.kind = ScheduleKind::kOneCycle, .steps = 100};
  EXPECT_TRUE(cycle.valid());
  cycle.warmup_steps = 1;
  EXPECT_FALSE(cycle.valid());
  cycle = {.kind = ScheduleKind::kOneCycle, .steps = 3};  // too short to rise
  EXPECT_FALSE(cycle.valid());
  cycle = {.kind = ScheduleKind::kOneCycle, .steps = 100, .pct = 1};  // never falls
  EXPECT_FALSE(cycle.valid());
}

TEST(schedule, never_leaves_zero_to_the_rate) {
  for (int kind = 0; kind < int(ScheduleKind::kCount); ++kind)
    for (const uint32_t step : {0u, 1u, 4u, 5u, 99u, 100u, 1u << 31, 0xFFFFFFFFu}) {
      const bool cycle = ScheduleKind(kind) == ScheduleKind::kOneCycle;
      const Schedule s = {.kind = ScheduleKind(kind), .rate = 2, .steps = 100, .warmup_steps = cycle ? 0u : 5u};
      EXPECT_GE(s.at(step), 0) << kind << ", " << step;
      EXPECT_LE(s.at(step), 2) << kind << ", " << step;
    }
}

}  // namespace
}  // namespace nacre
