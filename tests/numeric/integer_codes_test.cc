// Tests int8, int4 and ternary codes and the 16x8 multiplication, against exact arithmetic over all codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/numeric/absmax.h"
#include "engine/numeric/affine.h"
#include "engine/numeric/grouped_int4.h"
#include "engine/numeric/int4.h"
#include "engine/numeric/ternary.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

template <class T>
class AbsMaxCodes : public testing::Test {};
using ComputeTypes = testing::Types<float, double, Float16, Bfloat16>;
TYPED_TEST_SUITE(AbsMaxCodes, ComputeTypes);

// Returns the integer nearest to a float64 product, half to even, by the C library.
double nearest(double v) { return std::nearbyint(v); }

// Each operation is the float64 one rounded to T. float64 holds results of 24-bit numbers to 53 bits, so the second
// rounding does no harm. For double it is the operation itself.
TYPED_TEST(AbsMaxCodes, every_operation_is_rounded_to_the_type) {
  using T = TypeParam;
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 3);
  for (int row = 0; row < 200; ++row) {
    std::vector<T> x(1 + random() % 40);
    double amax = 0;
    for (T& v : x) v = T(normal(random)), amax = std::max(amax, std::fabs(double(v)));
    std::vector<int8_t> q(x.size());
    const T scale = absmax_quantize<T>(x, q, kInt8Range);
    const T sum = T(amax + double(T(1e-7)));
    EXPECT_EQ(double(scale), double(T(127 / double(sum))));
    for (size_t i = 0; i < x.size(); ++i) {
      const double product = double(T(double(x[i]) * double(scale)));
      EXPECT_EQ(double(q[i]), std::clamp(nearest(product), -127.0, 127.0));
    }
  }
}

TYPED_TEST(AbsMaxCodes, zeros_and_what_is_not_finite) {
  using T = TypeParam;
  const std::vector<T> zeros = {T(0.0f), T(-0.0f)}, infinite = {T(1.0f), T(kInf)}, nans = {T(kNan), T(2.0f), T(kInf)};
  std::vector<int8_t> q(3);
  absmax_quantize<T>(zeros, q, kInt8Range);
  EXPECT_EQ(q[0], 0);
  EXPECT_EQ(double(absmax_quantize<T>(infinite, q, kInt8Range)), 0);  // 127 / infinity; infinity * 0 is NaN, code 0
  EXPECT_EQ(q[0], 0);
  EXPECT_EQ(q[1], 0);
  EXPECT_TRUE(std::isnan(double(absmax<T>(nans))));
  EXPECT_TRUE(std::isnan(double(absmax_quantize<T>(nans, q, kInt8Range))));
  EXPECT_EQ(q[1], 0);
}

TEST(absmax, lowest_codes_never_occur) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int row = 0; row < 2000; ++row) {
    std::vector<float> x(16);
    for (float& v : x) v = normal(random);
    std::vector<int8_t> q(16);
    absmax_quantize<float>(x, q, kInt8Range);
    EXPECT_GE(*std::min_element(q.begin(), q.end()), -127);
    absmax_quantize<float>(x, q, kInt4Range);
    EXPECT_GE(*std::min_element(q.begin(), q.end()), -7);
    EXPECT_LE(*std::max_element(q.begin(), q.end()), 7);
  }
}

TEST(round_half_even, is_the_c_library_s) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200000; ++i) {
    const auto any = std::bit_cast<float>(uint32_t(random()));
    const double half = double(int32_t(random()) >> (random() % 32)) / 2;
    for (const double v : {double(any), half}) {
      const double expected = std::isnan(v) ? 0 : std::clamp(nearest(v), -2147483648.0, 2147483647.0);
      EXPECT_EQ(double(round_half_even(v)), expected) << v;
      if (double(float(v)) == v) {
        EXPECT_EQ(double(round_half_even(float(v))), expected) << v;
      }
    }
  }
}

TEST(affine, saturates_and_rounds_half_away_from_zero) {
  EXPECT_EQ(affine_code(kInf, 1, 5), 127);
  EXPECT_EQ(affine_code(-kInf, 1, 5), -128);
  EXPECT_EQ(affine_code(kNan, 1, 5), 5);
  EXPECT_EQ(affine_code(3e38f, 1, INT32_MAX), 127);
  for (int q = -128; q < 128; ++q)
    for (const int zero : {-128, -5, 0, 127}) {
      EXPECT_EQ(affine_code(affine_value(int8_t(q), 0.037f, zero), 0.037f, zero), q);
      const float half = float(q - zero) * 0.5f + (q >= zero ? 0.25f : -0.25f);  // between two codes of step 1/2
      EXPECT_EQ(affine_code(half, 0.5f, zero), std::clamp(q + (q >= zero ? 1 : -1), -128, 127));
    }
}

// Compares multiply_wide with exact 128-bit arithmetic. Under UBSan it also shows that extreme pairs are defined.
TEST(multiply_wide, is_the_rounded_product_with_a_16_bit_multiplier) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 1000000; ++i) {
    const int64_t x = int64_t(random()) >> (17 + random() % 40);  // |x| < 2^47
    const auto m = int32_t((1u << 30) + random() % (1u << 30));
    const int shift = int(random() % 39) - 31;
    const int64_t cut = std::min<int64_t>((int64_t{m} + 0x8000) >> 16, 0x7FFF);
    const auto exact = (__extension__ __int128{x} * cut + (__int128{1} << (14 - shift))) >> (15 - shift);
    if (exact < INT32_MIN || exact > INT32_MAX) continue;
    ASSERT_EQ(multiply_wide(x, {m, shift}), int64_t(exact)) << x << " " << m << " " << shift;
  }
  for (const int64_t x : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
    for (const int32_t m : {INT32_MIN, -1, 0, INT32_MAX})
      for (const int32_t shift : {INT32_MIN, -64, -32, -1, 0, 15, 16, 64, INT32_MAX}) multiply_wide(x, {m, shift});
}

// multiply_wide_single takes the whole multiplier and rounds once. It is tested as multiply_wide is.
TEST(multiply_wide_single, is_the_rounded_product) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 300000; ++i) {
    const int64_t x = int64_t(random()) >> (17 + random() % 40);  // |x| < 2^47
    const auto m = int32_t((1u << 30) + random() % (1u << 30));
    const int shift = int(random() % 47) - 31;
    const auto exact = (__extension__ __int128{x} * m + (__int128{1} << (30 - shift))) >> (31 - shift);
    if (exact < INT32_MIN || exact > INT32_MAX) continue;
    ASSERT_EQ(multiply_wide_single(x, {m, shift}), int64_t(exact)) << x << " " << m << " " << shift;
  }
  for (const int64_t x : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
    for (const int32_t m : {INT32_MIN, -1, 0, INT32_MAX})
      for (const int32_t shift : {INT32_MIN, -64, -32, -1, 0, 15, 16, 64, INT32_MAX})
        multiply_wide_single(x, {m, shift});
}

TEST(int4, every_pair_of_codes_round_trips) {
  for (int low = -8; low < 8; ++low)
    for (int high = -8; high < 8; ++high) {
      const Int4Pair pair = int4_pair(int8_t(low), int8_t(high));
      EXPECT_EQ(int4_low(pair), low);
      EXPECT_EQ(int4_high(pair), high);
      EXPECT_EQ(int4_at(&pair, 0), low);
      EXPECT_EQ(int4_at(&pair, 1), high);
    }
  for (int bits = 0; bits < 256; ++bits) {
    const Int4Pair pair = {uint8_t(bits)};
    EXPECT_EQ(int4_pair(int4_low(pair), int4_high(pair)).bits, bits);
  }
}

TEST(int4, odd_lengths_are_filled_with_zero) {
  const std::vector<int8_t> codes = {-8, 7, -1};
  std::vector<Int4Pair> packed(int4_bytes(3));
  pack_int4(codes, packed);
  EXPECT_EQ(packed[1].bits, 0x0F);
  std::vector<int8_t> back(3);
  unpack_int4(packed, back);
  EXPECT_EQ(back, codes);
}

// If 0 is in the range, a value is within one step of its code, even in a constant or one-signed group.
TEST(grouped_int4, a_range_with_zero_loses_at_most_half_a_step) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 5000; ++trial) {
    std::vector<float> x(1 + random() % 32);
    const float offset = 4 * normal(random), spread = trial % 5 == 0 ? 0 : 1;
    for (float& v : x) v = offset + spread * normal(random);
    const Group group = group_of(x, 32, GroupRange::kWithZero);
    for (const float v : x)  // the zero point is rounded too: one step; 1e-4 for float32 against values near 10
      EXPECT_NEAR(group_value(group_code(v, group), group), v, 1.0001f * group.scale);
    EXPECT_EQ(group_value(group_code(0, group), group), 0.0f);
  }
}

// Here -min / step is beyond int32. The zero point and the codes saturate, as in Keras, and nothing wraps.
TEST(grouped_int4, a_constant_group_of_large_values_saturates) {
  for (const float v : {100.0f, 1e30f}) {
    const std::vector<float> above = {v, v}, below = {-v, -v};
    const Group high = group_of(above, 2, GroupRange::kKeras), low = group_of(below, 2, GroupRange::kKeras);
    EXPECT_EQ(high.zero, -8);
    EXPECT_EQ(group_code(v, high), 7);
    EXPECT_EQ(low.zero, 7);
    EXPECT_EQ(group_code(-v, low), -8);
  }
}

TEST(grouped_int4, missing_values_count_as_zeros) {
  const std::vector<float> x = {1, 2}, padded = {1, 2, 0, 0};
  const Group open = group_of(x, 4, GroupRange::kKeras), full = group_of(padded, 4, GroupRange::kKeras);
  EXPECT_EQ(open.scale, full.scale);
  EXPECT_EQ(open.zero, full.zero);
  EXPECT_NE(group_of(x, 2, GroupRange::kKeras).scale, open.scale);
}

TEST(ternary, every_byte_of_five_round_trips) {
  for (int code = 0; code < 243; ++code) {
    std::vector<int8_t> trits;
    for (int i = 0, rest = code; i < 5; ++i, rest /= 3) trits.push_back(int8_t(rest % 3 - 1));
    uint8_t byte = 0;
    pack_ternary(trits, {&byte, 1});
    EXPECT_EQ(byte, code);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(trit_at(&byte, i), trits[i]);
  }
  uint8_t neutral = 0;
  pack_ternary(std::vector<int8_t>{0}, {&neutral, 1});
  EXPECT_EQ(neutral, 121);
  for (int byte = 243; byte < 256; ++byte) {
    const auto b = uint8_t(byte);
    for (size_t i = 0; i < 5; ++i) EXPECT_LE(std::abs(trit_at(&b, i)), 1);
  }
}

TEST(ternary, thresholds_are_strict) {
  EXPECT_EQ(trit_of(0.5f, 0.5), 0);
  EXPECT_EQ(trit_of(-0.5f, 0.5), 0);
  EXPECT_EQ(trit_of(std::nextafter(0.5f, 1.0f), 0.5), 1);
  EXPECT_EQ(trit_of(kNan, 0.5), 0);
  EXPECT_EQ(ternary_scale(std::span<const float>()), 0);
}

}  // namespace
}  // namespace nacre::test
