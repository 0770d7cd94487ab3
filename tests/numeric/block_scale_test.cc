// Tests MXFP8 and NVFP4 blocks: scales against exact powers of two, elements within the step of their format.
#include "engine/numeric/block_scale.h"
#include "tests/short_names.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace nacre::test {
namespace {

template <class Q>
class MxScale : public testing::Test {};
using Elements = testing::Types<Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(MxScale, Elements);

// Searches the smallest power of two s with amax <= s max. 1 / max is rounded up in float32, so an amax within 2^-22
// below s max may get the next power.
TYPED_TEST(MxScale, rounds_up_so_that_nothing_saturates) {
  using Q = TypeParam;
  std::mt19937 random(1);
  const double max = double(largest_of<Q>());
  for (int i = 0; i < 200000; ++i) {
    const float amax = amax_value(uint32_t(random()) % 0x7F800000u);
    const Float8E8M0 scale = mx_scale<Q>(amax);
    int code = 0;
    while (code < 254 && double(amax) > max * std::ldexp(1.0, code - 127)) ++code;
    const bool near = std::fabs(double(amax) / (max * std::ldexp(1.0, code - 127)) - 1) < 0x1p-22;
    EXPECT_TRUE(scale.bits == code || (near && scale.bits == code + 1))
        << amax << " " << int(scale.bits) << " " << code;
    if (!near) {  // no saturation
      EXPECT_EQ(mx_code<Q>(amax, scale).bits, Q(amax * power_of_two(127 - scale.bits)).bits);
    }
  }
  EXPECT_EQ(mx_scale<Q>(0).bits, 0);
  EXPECT_EQ(mx_scale<Q>(kInf).bits, 254);
  EXPECT_EQ(mx_scale<Q>(kNan).bits, 255);
  EXPECT_TRUE(std::isnan(float(mx_code<Q>(1, mx_scale<Q>(kNan)))));
}

TYPED_TEST(MxScale, the_floor_rule_is_the_document_s) {
  using Q = TypeParam;
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const float amax = amax_value(1 + uint32_t(random()) % (0x7F800000u - 1));
    const int expected = std::max(std::ilogb(amax) - std::ilogb(largest_of<Q>()), -127) + 127;
    ASSERT_EQ(mx_scale_floor<Q>(amax).bits, expected) << amax;
  }
  EXPECT_EQ(mx_scale_floor<Q>(0).bits, 0);
  EXPECT_EQ(mx_scale_floor<Q>(kInf).bits, 255);
  EXPECT_EQ(mx_scale_floor<Q>(kNan).bits, 255);
}

// |x - q s| is at most half a step of the code, which for E4M3 is 2^-4 of |x|, or half the smallest step, s 2^-10.
TEST(mxfp8, blocks_are_within_half_a_step) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> x(kMxBlock);
    const float size = std::ldexp(1.0f, int(random() % 200) - 100);
    for (float& v : x) v = size * normal(random);
    const auto scale = mx_scale<Float8E4M3>(amax_value(amax_bits<float>(x)));
    for (const float v : x) {
      const float error = std::fabs(mx_value(mx_code<Float8E4M3>(v, scale), scale) - v);
      EXPECT_LE(error, std::max(0x1p-4f * std::fabs(v), 0x1p-10f * float(scale)));
    }
  }
}

TEST(nvfp4, tensor_scale_edges) {
  EXPECT_EQ(nvfp4_tensor_scale(0), 1.0f);
  EXPECT_EQ(nvfp4_tensor_scale(kInf), 1.0f);
  EXPECT_EQ(nvfp4_tensor_scale(kNan), kLargest);
  EXPECT_EQ(nvfp4_tensor_scale(1e-40f), kLargest);
  EXPECT_EQ(nvfp4_tensor_scale(2688), 1.0f);
  EXPECT_EQ(nvfp4_block_scale(0, 1).bits, 0);
  EXPECT_EQ(nvfp4_multiplier(Float8E4M3(0.0f), 1), kLargest);  // of a block of zeros
  EXPECT_EQ(nvfp4_code(0, kLargest).bits, 0);
}

// Let u = s_b / S. E2M1's largest step is 2, so an element is within u of its code. Beyond 6 u, if s_b was rounded
// down by up to 2^-4, it is within 6 u / 16. 1e-3 allows for the float32 roundings of u.
TEST(nvfp4, blocks_are_within_a_step) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> x(kNvfp4Block);
    for (float& v : x) v = normal(random);
    const float amax = amax_value(amax_bits<float>(x)),
                tensor_scale = nvfp4_tensor_scale(amax * float(1 + random() % 20));
    const Float8E4M3 scale = nvfp4_block_scale(amax, tensor_scale);
    const float multiplier = nvfp4_multiplier(scale, tensor_scale), unit = 1 / multiplier;
    for (const float v : x)
      EXPECT_LE(std::fabs(nvfp4_value(nvfp4_code(v, multiplier), scale, tensor_scale) - v), 1.001f * unit);
  }
}

}  // namespace
}  // namespace nacre::test
