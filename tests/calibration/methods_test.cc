// Tests the five methods and their collectors against their definitions, and quantizers of ranges and weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/calibration/brute_force.h"
#include "tools/base/error.h"
#include "tools/calibration/quantizers.h"

namespace nacre::tools {
namespace {

using Tensors = std::vector<std::vector<float>>;

// Returns values on a grid of 2047 steps of 2^-8 from `least` on. Both ends occur, so bins of the histogram are
// values.
Tensors grid_samples(uint32_t seed, int least, size_t count) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal(0, 300);
  Tensors samples(1);
  for (size_t i = 0; i < count; ++i)
    samples[0].push_back(float(std::clamp(std::round(normal(rng)), double(least), least + 2047.0) * 0x1p-8));
  samples[0][0] = float(least * 0x1p-8);
  samples[0][1] = float((least + 2047) * 0x1p-8);
  return samples;
}

TEST(range_methods, each_equals_its_brute_force_on_a_skewed_tensor) {
  for (const MethodResult& m : compare_methods()) {
    EXPECT_EQ(m.found.low, m.expected.low) << m.name;
    EXPECT_EQ(m.found.high, m.expected.high) << m.name;
  }
}

TEST(range_methods, five_give_five_ranges_on_a_skewed_tensor) { EXPECT_TRUE(all_different(compare_methods())); }

TEST(range_methods, mse_equals_brute_force_whatever_the_signs) {
  for (const int least : {-1000, -300, 0, -2047}) {
    const Tensors samples = grid_samples(uint32_t(least + 5000), least, 3000);
    EXPECT_EQ(found_range(RangeMethod::kMse, samples), brute_mse(samples)) << "least " << least;
  }
}

TEST(range_methods, percentile_is_an_order_statistic) {
  std::mt19937 rng(3);
  std::vector<float> x(5003);
  for (float& v : x) v = float(rng() >> 8) * 0x1p-20f - 8;
  for (const double percentile : {90.0, 95.0, 99.0, 99.9, 99.99, 100.0}) {
    Tails tails(percentile, x.size());
    tails.add(std::span<const float>(x).first(1000));
    tails.add(std::span<const float>(x).subspan(1000));
    EXPECT_EQ(percentile_range(tails), brute_percentile({x}, percentile)) << percentile;
  }
}

TEST(range_methods, moving_average_of_one_sample_is_that_sample) {
  const Range one[] = {{-2, 3}};
  EXPECT_EQ(moving_average_range(one, 0.999), (Range{-2, 3}));
  const Range same[] = {{0.5f, 4}, {0.25f, 4}, {1, 4}};  // every sample's range includes 0
  EXPECT_EQ(moving_average_range(same, 0.9).low, 0);
  EXPECT_FLOAT_EQ(moving_average_range(same, 0.9).high, 4);
}

TEST(range_methods, all_zeros_give_an_empty_range) {
  const Tensors zeros = {std::vector<float>(500, 0.0f)};
  for (size_t m = 0; m < size_t(RangeMethod::kCount); ++m)
    EXPECT_EQ(found_range(RangeMethod(m), zeros), (Range{0, 0})) << name_of(RangeMethod(m));
}

// 300 values over 2048 bins are noise. Without merging of bins, KL would fall with every bin left out.
TEST(range_methods, entropy_keeps_the_range_of_few_values) {
  std::mt19937 rng(5);
  Tensors samples(1);
  for (int i = 0; i < 300; ++i) samples[0].push_back(float(rng() >> 8) * 0x1p-24f);
  EXPECT_EQ(found_range(RangeMethod::kEntropy, samples), brute_min_max(samples));
}

TEST(range_methods, entropy_cuts_a_lone_outlier) {
  Tensors samples = grid_samples(11, -1000, 400000);
  for (float& v : samples[0]) v = std::clamp(v, -1.0f, 1.0f);
  samples[0][0] = 40;
  const Range found = found_range(RangeMethod::kEntropy, samples);
  EXPECT_LT(found.high, 20);
  EXPECT_GE(found.high, 1);
  EXPECT_GE(found.low, -1.0f);
}

TEST(range_methods, names_are_parsed) {
  EXPECT_EQ(parse_range_method("mse", "--range-method"), RangeMethod::kMse);
  EXPECT_EQ(parse_range_rule("a=b.*=entropy", "--range"),
            (std::pair<std::string, RangeMethod>{"a=b.*", RangeMethod::kEntropy}));
  EXPECT_THROW(parse_range_method("minmax", "--range-method"), Error);
  EXPECT_THROW(parse_range_rule("entropy", "--range"), Error);
  EXPECT_THROW(parse_range_rule("=entropy", "--range"), Error);
}

TEST(histogram, zero_is_the_center_of_a_bin) {
  Histogram histogram({-0.37f, 2.9f});
  const std::vector<float> x = {0, 0, -0.37f, 2.9f, 1e-30f};
  histogram.add(x);
  EXPECT_EQ(histogram.zeros(), 2u);
  uint64_t total = 0;
  for (size_t i = 0; i < Histogram::kBins; ++i) {
    total += histogram.counts()[i];
    if (histogram.index(i) != 0) continue;
    EXPECT_EQ(histogram.counts()[i], 3u);
    EXPECT_EQ(histogram.center(i), 0);
  }
  EXPECT_EQ(total, x.size());
}

TEST(histogram, of_values_far_from_zero_reaches_to_it) {
  Histogram histogram({1e6f, 1e6f + 1});
  histogram.add(std::vector<float>{1e6f, 1e6f + 1});
  EXPECT_EQ(histogram.range(), (Range{0, 1e6f + 1}));
  EXPECT_EQ(histogram.counts().back(), 2u);
}

TEST(quantizers, a_range_is_coded_as_tflite_does) {
  struct {
    Range range;
    float scale;
    int64_t zero;
  } const cases[] = {
      {{-128, 127}, 1, 0},          // quantization_utils_test.cc, UnitRange
      {{1, 6}, 6.0f / 255, -128},   // widened to hold 0: AllPositiveRange
      {{-6, -1}, 6.0f / 255, 127},  // AllNegativeRange
      {{-1, 1}, 2.0f / 255, -1},    // -128 + 127.5 = -0.5: half away from zero
  };
  for (const auto& c : cases) {
    const Quantizer q = quantizer_of_range(c.range);
    EXPECT_EQ(q.scale[0], c.scale) << c.range.low << " " << c.range.high;
    EXPECT_EQ(q.zero[0], c.zero) << c.range.low << " " << c.range.high;
  }
}

// The range is ExpandVerySmallRange's [-5e-7, 5e-7].
TEST(quantizers, an_empty_range_has_a_scale) {
  const Quantizer q = quantizer_of_range({0, 0});
  EXPECT_FLOAT_EQ(q.scale[0], 1e-6f / 255);
  EXPECT_LE(std::abs(q.zero[0]), 1);  // -0.5: either neighbour
}

TEST(quantizers, zero_has_a_code_and_ends_lose_at_most_a_step) {
  std::mt19937 rng(1);
  for (int i = 0; i < 10000; ++i) {
    const float low = float(int(rng() >> 8) - (1 << 23)) * std::ldexp(1.0f, int(rng() % 40) - 40);
    const float high = low + float(rng() >> 8) * std::ldexp(1.0f, int(rng() % 40) - 40);
    const Quantizer q = quantizer_of_range({low, high});
    ASSERT_GE(q.zero[0], -128);
    ASSERT_LE(q.zero[0], 127);
    const double scale = q.scale[0], first = scale * double(-128 - q.zero[0]), last = scale * double(127 - q.zero[0]);
    // The zero point moves both ends by at most half a step. The scale's rounding to float32 costs 255 2^-24 of a
    // step.
    ASSERT_LE(first - std::min(double(low), 0.0), scale * 0.5001) << low << " " << high;
    ASSERT_LE(std::max(double(high), 0.0) - last, scale * 0.5001) << low << " " << high;
    ASSERT_EQ(asymmetric_codes(std::vector<float>{0}, q)[0], q.zero[0]);
  }
}

TEST(quantizers, weights_have_a_scale_per_channel) {
  const std::vector<float> w = {127, -1.5f, 2.5f, 0, 0, 0, -254, 3, 1};
  const Quantizer rows = symmetric_quantizer(w, {3, 3}, 0);
  EXPECT_EQ(rows.scale, (std::vector<float>{1, float(5e-7 / 127), 2}));
  EXPECT_EQ(symmetric_codes(w, {3, 3}, rows),
            (std::vector<int8_t>{127, -2, 3, 0, 0, 0, -127, 2, 1}));  // ties away from 0
  const Quantizer columns = symmetric_quantizer(w, {1, 3, 3}, 2);
  EXPECT_EQ(columns.axis, 2);
  EXPECT_EQ(columns.scale, (std::vector<float>{2, float(3.0 / 127), float(2.5 / 127)}));
  EXPECT_EQ(symmetric_quantizer(w, {3, 3}, kPerTensor).scale, std::vector<float>{2});
}

TEST(quantizers, codes_beyond_the_scale_saturate) {
  const Quantizer q = {.codes = ElementType::kInt8, .scale = {0.5f}, .zero = {0}, .axis = 0};
  EXPECT_EQ(symmetric_codes(std::vector<float>{-1e9f, 1e9f, -63.9f}, {3}, q), (std::vector<int8_t>{-127, 127, -127}));
  EXPECT_EQ(asymmetric_codes(std::vector<float>{-1e9f, 1e9f}, q), (std::vector<int8_t>{-128, 127}));
}

}  // namespace
}  // namespace nacre::tools
