// Tests delayed and current scaling: the orders of update, and each guard. tests/claims/golden_policies.cc checks the
// systems' own tables.
#include "engine/numeric/amax_history.h"
#include "tests/short_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <vector>

namespace nacre::test {
namespace {

struct State {
  std::vector<float> amaxes;
  float scale = 1;
  ScaleCounters counters;

  explicit State(size_t length) : amaxes(length) {}
  float update(float amax, const DelayedScaling& rule) {
    return AmaxHistory{amaxes, &scale, &counters}.update(amax, rule);
  }
  uint32_t total() const {
    uint32_t sum = 0;
    for (const uint32_t n : counters.events) sum += n;
    return sum;
  }
};

TEST(amax, bits_order_as_magnitudes_and_show_infinity_and_nan) {
  const std::vector<float> ordered = {0.0f, 1e-45f, -1e-40f, 1.0f, -2.0f, 3e38f, -kInf, kNan};
  for (size_t i = 1; i < ordered.size(); ++i)
    EXPECT_LT(magnitude_bits(ordered[i - 1]), magnitude_bits(ordered[i])) << ordered[i];
  for (size_t i = 0; i < ordered.size(); ++i) {
    const uint32_t bits = amax_bits(std::span<const float>(ordered).first(i + 1));
    EXPECT_EQ(bits, magnitude_bits(ordered[i]));
    EXPECT_EQ(is_finite(amax_value(bits)), i < 6);
  }
  EXPECT_EQ(amax_bits(std::span<const float>()), 0u);
}

// The maximum of parts (micro-batches, workers, ranks) equals that of the whole, in any order.
TEST(amax, maxima_of_parts_merge) {
  std::mt19937 random(3);
  std::vector<float> x(1000);
  for (float& v : x) v = std::bit_cast<float>(uint32_t(random()));
  const std::span<const float> all = x;
  EXPECT_EQ(amax_bits(all), amax_bits(all.first(300), amax_bits(all.subspan(300))));
}

// In TransformerEngine today's amax affects the next scale; in Keras the scale after that.
TEST(amax_history, the_orders_lag_by_one_and_by_two) {
  State one(16), two(16);
  const DelayedScaling transformer_engine = {.format_max = 448},
                       keras = {.format_max = 448, .order = UpdateOrder::kKeras};
  one.update(7, transformer_engine);
  two.update(7, keras);
  EXPECT_EQ(one.scale, 64.0f);
  EXPECT_EQ(two.scale, 1.0f);
  two.update(7, keras);
  EXPECT_EQ(two.scale, 1 / 64.0f);
}

// By definition the scale follows from the largest amax among the last L (TransformerEngine) or the L before (Keras).
TEST(amax_history, the_scale_is_of_the_largest_in_the_window) {
  std::mt19937 random(8);
  for (const size_t length : {1u, 2u, 5u, 16u})
    for (const UpdateOrder order : {UpdateOrder::kTransformerEngine, UpdateOrder::kKeras}) {
      const DelayedScaling rule = {.format_max = 448, .order = order, .fused = false};
      State state(length);
      std::deque<float> window(length, 0.0f);
      for (int step = 0; step < 200; ++step) {
        const float amax = std::ldexp(1.0f, int(random() % 40) - 20);  // powers of two: quotients are exact
        const auto shift = [&] { window.push_back(amax), window.pop_front(); };
        if (order == UpdateOrder::kTransformerEngine) shift();
        const float largest = *std::max_element(window.begin(), window.end());
        EXPECT_EQ(state.update(amax, rule), largest);
        if (order == UpdateOrder::kKeras) shift();
        const float scale = largest == 0 ? 1 : 448 / largest;
        EXPECT_EQ(state.scale, order == UpdateOrder::kKeras ? 1 / scale : scale) << length << " step " << step;
      }
      EXPECT_EQ(state.total(), 200u);
    }
}

TEST(amax_history, most_recent_forgets_the_window) {
  State state(8);
  const DelayedScaling rule = {.format_max = 448, .rule = AmaxRule::kMostRecent};
  state.update(100, rule);
  state.update(1, rule);
  EXPECT_EQ(state.scale, 448.0f);
}

TEST(amax_history, margin_leaves_room_of_powers_of_two) {
  for (int margin = -3; margin <= 6; ++margin) {
    State one(4), two(4);
    one.update(1, {.format_max = 448, .margin = int8_t(margin)});
    for (int i = 0; i < 2; ++i)
      two.update(1, {.format_max = 448, .order = UpdateOrder::kKeras, .margin = int8_t(margin)});
    EXPECT_EQ(one.scale, std::ldexp(448.0f, -margin));
    EXPECT_EQ(two.scale, 1 / std::ldexp(448.0f, -margin));
  }
}

// Unfused, NaN and infinity never change the scale until they have left the window; every such step is counted.
TEST(amax_history, not_finite_freezes_the_scale_and_is_counted) {
  for (const UpdateOrder order : {UpdateOrder::kTransformerEngine, UpdateOrder::kKeras})
    for (const float poison : {kInf, kNan}) {
      State state(4);
      const DelayedScaling rule = {.format_max = 448, .order = order, .fused = false};
      for (int i = 0; i < 3; ++i) state.update(4, rule);
      const float before = state.scale;
      state.update(poison, rule);
      for (int i = 0; i < 8; ++i) {
        if (i < 3) {
          EXPECT_EQ(state.scale, before);
        }
        state.update(1, rule);
      }
      EXPECT_EQ(state.scale, order == UpdateOrder::kKeras ? 1 / 448.0f : 448.0f);
      EXPECT_EQ(state.counters[std::isnan(poison) ? ScaleEvent::kNan : ScaleEvent::kInfinite], 4u);
    }
}

TEST(amax_history, the_fused_path_passes_over_nan_and_ignores_zero) {
  State state(4);
  const DelayedScaling fused = {.format_max = 448};
  state.update(4, fused);
  state.update(kNan, fused);
  EXPECT_EQ(state.scale, 112.0f);  // of the 4
  state.update(8, fused);
  EXPECT_EQ(state.scale, 56.0f);  // with the NaN still in the window
  EXPECT_EQ(state.counters[ScaleEvent::kNan], 0u);
  const std::vector<float> before = state.amaxes;
  state.update(0, fused);
  EXPECT_EQ(state.counters[ScaleEvent::kZero], 1u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), state.amaxes.begin(),
                         [](float a, float b) { return magnitude_bits(a) == magnitude_bits(b); }));
}

// If amax is below max / FLT_MAX, the multiplying scale becomes the largest number, and Keras's step 0 unless
// guarded.
TEST(amax_history, a_tiny_amax_overflows_and_is_clamped) {
  const float tiny = 1e-37f;
  EXPECT_EQ(delayed_scale(tiny, 1, 448, 0, false).scale, kLargest);
  EXPECT_EQ(delayed_scale(tiny, 1, 448, 0, true).event, ScaleEvent::kOverflow);
  EXPECT_EQ(keras_step(tiny, 1, 448, 0, false).scale, 0.0f);
  const NewScale guarded = keras_step(tiny, 1, 448, 0, true);
  EXPECT_EQ(guarded.scale, kSmallestNormal);
  EXPECT_EQ(guarded.event, ScaleEvent::kOverflow);
}

TEST(amax_history, a_large_margin_underflows_and_is_clamped) {
  EXPECT_LT(delayed_scale(3e38f, 1, 448, 10, false).scale, kSmallestNormal);
  const NewScale guarded = delayed_scale(3e38f, 1, 448, 10, true);
  EXPECT_EQ(guarded.scale, kSmallestNormal);
  EXPECT_EQ(guarded.event, ScaleEvent::kUnderflow);
  EXPECT_EQ(keras_step(3e38f, 1, 448, 127, false).scale, kInf);
  EXPECT_EQ(keras_step(3e38f, 1, 448, 127, true).scale, kLargest);
  EXPECT_EQ(keras_step(3e38f, 1, 448, 127, true).event, ScaleEvent::kUnderflow);
}

// With the guards the scale and its inverse are positive and finite for any amax.
TEST(amax_history, guarded_scales_stay_usable_for_any_amax) {
  std::mt19937 random(9);
  for (const UpdateOrder order : {UpdateOrder::kTransformerEngine, UpdateOrder::kKeras})
    for (const bool fused : {false, true})
      for (int margin = -128; margin < 128; margin += 5) {
        State state(3);
        for (int i = 0; i < 2000; ++i) {
          state.update(amax_value(uint32_t(random()) & 0x7FFFFFFFu),
                       {.format_max = 57344, .order = order, .margin = int8_t(margin), .fused = fused});
          ASSERT_TRUE(state.scale >= kSmallestNormal && state.scale <= kLargest) << state.scale << " margin " << margin;
          ASSERT_TRUE(is_finite(1 / state.scale));
        }
        EXPECT_EQ(state.total(), 2000u);
      }
}

// Without the guards Keras inverts twice in an idle step (golden: 327 of 1999 steps move). With them nothing moves.
TEST(amax_history, guarded_idle_steps_do_not_drift) {
  for (int k = 1; k < 2000; ++k) EXPECT_EQ(keras_step(0, float(k) / 448, 448, 0, true).scale, float(k) / 448);
}

TEST(current_scale, falls_back_to_one) {
  for (const float amax : {0.0f, kInf, kNan}) {
    EXPECT_EQ(current_scale(amax, {448}).scale, 1.0f);
    EXPECT_EQ(current_scale(amax, {448}).event, event_of(amax));
  }
  EXPECT_EQ(current_scale(1e-38f, {448}).event, ScaleEvent::kOverflow);
  EXPECT_EQ(current_scale(2, {448, 4}).scale, 112.0f);
}

// No element saturates: x amax / max rounds to at most the largest code, and a power of two is at most the quotient.
TEST(current_scale, brings_the_largest_magnitude_to_the_largest_code) {
  std::mt19937 random(10);
  for (int i = 0; i < 100000; ++i) {
    const float amax = amax_value(uint32_t(random()) % 0x7F800000u);
    const NewScale plain = current_scale(amax, {448}), power = current_scale(amax, {448, 0, true});
    if (plain.event != ScaleEvent::kUpdated) continue;
    EXPECT_NEAR(double(amax) * double(plain.scale), 448, 448 * 0x1p-23) << amax;
    EXPECT_LE(power.scale, plain.scale);
    EXPECT_GT(2 * double(power.scale), double(plain.scale));
    EXPECT_EQ(cut_to_power_of_two(power.scale), power.scale);
  }
}

TEST(power_of_two, is_exact_everywhere) {
  for (int e = -200; e <= 200; ++e) EXPECT_EQ(power_of_two(e), float(std::ldexp(1.0, e))) << e;
  for (int e = -149; e < 128; ++e) {
    EXPECT_EQ(exponent_of(power_of_two(e)), e);
    EXPECT_EQ(exponent_of(std::nextafter(power_of_two(e + 1), 0.0f)), e);
  }
}

}  // namespace
}  // namespace nacre::test
