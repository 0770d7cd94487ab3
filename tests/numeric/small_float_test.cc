// Tests every number format against its definition (exact_format.h), the compiler's own float16 and the golden
// tables. With NACRE_LONG=1 float16 and bfloat16 are tested on all 2^32 float32 patterns.
#include "engine/numeric/small_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "tests/numeric/exact_format.h"
#include "tests/sanitized.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

template <class T>
ExactFormat exact() {
  return ExactFormat(T::kExponentBits, T::kMantissaBits, T::kBias, Kind(int(T::kKind)));
}
static_assert(int(Kind::kFinite) == int(Special::kFinite) && int(Kind::kFnuz) == int(Special::kFnuz));

template <class T>
class SmallFloats : public testing::Test {};
using Formats = testing::Types<Float16, Bfloat16, Float8E4M3, Float8E5M2, Float8E4M3Fnuz, Float8E5M2Fnuz, Float4E2M1>;
TYPED_TEST_SUITE(SmallFloats, Formats);

TYPED_TEST(SmallFloats, every_code_has_its_value_and_round_trips) {
  using T = TypeParam;
  const ExactFormat format = exact<T>();
  for (uint32_t code = 0; code < 2 * format.sign_bit; ++code) {
    const auto value = T::of_bits(decltype(T::bits)(code));
    if (format.nan(code)) {
      EXPECT_TRUE(std::isnan(float(value)) && std::isnan(double(value))) << code;
      EXPECT_TRUE(format.nan(T(float(value)).bits)) << code;
      EXPECT_TRUE(format.nan(T::saturated(float(value)).bits)) << code;
      continue;
    }
    EXPECT_EQ(double(value), format.value(code)) << code;
    EXPECT_EQ(std::signbit(float(value)), (code & format.sign_bit) != 0) << code;
    EXPECT_EQ(T(float(value)).bits, code);
    EXPECT_EQ(T(double(value)).bits, code);
    const bool infinite = std::isinf(float(value));
    EXPECT_EQ(T::saturated(float(value)).bits, infinite ? (code & format.sign_bit) | format.max_code() : code);
  }
}

TYPED_TEST(SmallFloats, every_tie_and_its_neighbours_round_as_defined) {
  using T = TypeParam;
  const ExactFormat format = exact<T>();
  for (const float v : ties(format)) {
    ASSERT_EQ(T(v).bits, format.encode(v, false)) << std::hexfloat << v;
    ASSERT_EQ(T::saturated(v).bits, format.encode(v, true)) << std::hexfloat << v;
  }
}

TYPED_TEST(SmallFloats, samples_of_all_float32_round_as_defined) {
  using T = TypeParam;
  const ExactFormat format = exact<T>();
  uint64_t differ = 0, numbers = 0;
  const uint32_t step = sanitized() ? 16 : 1;
  for (const uint32_t sign : {0u, 1u << 23}) {
    uint32_t plain = 0, saturating = 0;
    for (uint32_t prefix = 0; prefix < (1u << 23); prefix += step) {
      const auto v = std::bit_cast<float>(sampled_pattern(prefix | sign));
      if (std::isnan(v)) continue;
      ++numbers;
      differ += T(v).bits != format.encode(v, false, &plain);
      differ += T::saturated(v).bits != format.encode(v, true, &saturating);
    }
  }
  EXPECT_EQ(differ, 0u);
  EXPECT_EQ(numbers, ((1u << 24) - (1u << 16)) / step);  // 2^15 prefixes of each sign are NaN
}

// NaN keeps its sign if the format has a NaN of each sign. E4M3FNUZ and E5M2FNUZ have one NaN, E2M1 has none.
TYPED_TEST(SmallFloats, nan_is_the_documented_code) {
  using T = TypeParam;
  for (const uint32_t pattern : {0x7FC00000u, 0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u, 0xFF800001u}) {
    const auto v = std::bit_cast<float>(pattern);
    const uint32_t sign = (pattern >> 31) * T::kSign;
    const uint32_t expected = T::kKind == Special::kFnuz     ? T::kNan
                              : T::kKind == Special::kFinite ? sign ^ T::kSign
                                                             : sign | T::kNan;
    EXPECT_EQ(T(v).bits, expected);
    EXPECT_EQ(T::saturated(v).bits, expected);
    EXPECT_EQ(T(double(v)).bits, expected);
  }
}

// A double is rounded once. The tests are 2^-50 above or below the middle of two codes, which float32 cannot tell
// from a tie.
TYPED_TEST(SmallFloats, doubles_are_rounded_once) {
  using T = TypeParam;
  const ExactFormat format = exact<T>();
  for (uint32_t code = 0; code + 1 < format.values.size(); ++code)
    for (const double sign : {1.0, -1.0}) {
      const double tie = sign * format.midpoints[code];
      const uint32_t sign_bit = sign < 0 ? format.sign_bit : 0;
      const uint32_t below = code == 0 && T::kKind == Special::kFnuz ? 0 : code | sign_bit;
      ASSERT_EQ(T(tie * (1 - 0x1p-50)).bits, below) << code;
      ASSERT_EQ(T(tie * (1 + 0x1p-50)).bits, (code + 1) | sign_bit) << code;
    }
  EXPECT_EQ(T(1e300).bits, T(kInf).bits);
  EXPECT_EQ(T(-1e300).bits, T(-kInf).bits);
  EXPECT_EQ(T(1e-300).bits, 0u);
}

TEST(float8_e8m0, every_code_round_trips) {
  for (int code = 0; code < 255; ++code) {
    const Float8E8M0 value = Float8E8M0::of_bits(uint8_t(code));
    EXPECT_EQ(float(value), std::ldexp(1.0f, code - 127));
    EXPECT_EQ(Float8E8M0(float(value)).bits, code);
    EXPECT_EQ(Float8E8M0(double(value)).bits, code);
    EXPECT_EQ(Float8E8M0::saturated(float(value)).bits, code);
    EXPECT_EQ(Float8E8M0::rounded_up(float(value)).bits, code);
  }
  EXPECT_TRUE(std::isnan(float(Float8E8M0::of_bits(255))));
}

// Ties at 1.5 2^k go up. Below 2^-126 everything above 2^-127 goes up, which is nearest only from 1.5 2^-127 on.
TEST(float8_e8m0, rounds_as_documented_between_codes) {
  for (int code = 0; code < 254; ++code) {
    const float low = std::ldexp(1.0f, code - 127), tie = 1.5f * low;
    EXPECT_EQ(Float8E8M0(tie).bits, code + 1);
    EXPECT_EQ(Float8E8M0(std::nextafter(tie, 0.0f)).bits, code == 0 ? 1 : code);
    EXPECT_EQ(Float8E8M0(std::nextafter(low, kInf)).bits, code == 0 ? 1 : code);
    EXPECT_EQ(Float8E8M0(std::nextafter(2 * low, 0.0f)).bits, code + 1);
    EXPECT_EQ(Float8E8M0::rounded_up(std::nextafter(low, kInf)).bits, code + 1);
    EXPECT_EQ(Float8E8M0::rounded_up(std::nextafter(2 * low, 0.0f)).bits, code + 1);
  }
  EXPECT_EQ(Float8E8M0(0x1p-149f).bits, 0);
  EXPECT_EQ(Float8E8M0(1.5 - 0x1p-40).bits, 127);  // rounded once
}

TEST(float8_e8m0, what_it_has_not_is_nan_or_saturates) {
  for (const float v : {0.0f, -0.0f, -1.0f, -0x1p-149f, kInf, -kInf, NAN, -NAN, 0x1.8p127f})
    EXPECT_EQ(Float8E8M0(v).bits, Float8E8M0::kNan) << v;
  EXPECT_EQ(Float8E8M0(std::nextafter(0x1.8p127f, 0.0f)).bits, 254);
  for (const float v : {-1.0f, -0x1p-149f, -kInf, NAN, -NAN}) {
    EXPECT_EQ(Float8E8M0::saturated(v).bits, Float8E8M0::kNan) << v;
    EXPECT_EQ(Float8E8M0::rounded_up(v).bits, Float8E8M0::kNan) << v;
  }
  for (const float v : {0.0f, -0.0f, 0x1p-149f}) {
    EXPECT_EQ(Float8E8M0::saturated(v).bits, 0);
    EXPECT_EQ(Float8E8M0::rounded_up(v).bits, 0);
  }
  for (const float v : {kInf, std::numeric_limits<float>::max(), 0x1.8p127f}) {
    EXPECT_EQ(Float8E8M0::saturated(v).bits, 254);
    EXPECT_EQ(Float8E8M0::rounded_up(v).bits, 254);
  }
}

// Adds 0x7FFF and the last bit that is kept, then truncates: the usual integer formula, which ignores exponents.
uint16_t bfloat16_by_addition(uint32_t pattern) { return uint16_t((pattern + 0x7FFF + (pattern >> 16 & 1)) >> 16); }

// Calls `f` for every float32 pattern, or for 2^24 of them.
template <class F>
void patterns(const char* name, F f) {
  const char* asked = std::getenv("NACRE_LONG");
  if (asked == nullptr || *asked != '1') {
    for (uint32_t prefix = 0; prefix < (1u << 24); ++prefix) f(sampled_pattern(prefix));
    return;
  }
  for (uint64_t pattern = 0; pattern < (uint64_t{1} << 32); ++pattern) {
    if (pattern % (1u << 28) == 0) std::printf("%s: %d of 16\n", name, int(pattern >> 28)), std::fflush(stdout);
    f(uint32_t(pattern));
  }
}

TEST(bfloat16, agrees_with_rounding_by_integer_addition) {
  uint64_t differ = 0;
  patterns("bfloat16", [&](uint32_t pattern) {
    const auto v = std::bit_cast<float>(pattern);
    const uint16_t code = Bfloat16(v).bits;
    differ += std::isnan(v) ? (code & 0x7FFF) != 0x7FC0 : code != bfloat16_by_addition(pattern);
  });
  EXPECT_EQ(differ, 0u);
}

#ifdef __FLT16_MAX__
TEST(float16, agrees_with_the_compiler) {
  uint64_t differ = 0;
  patterns("float16", [&](uint32_t pattern) {
    const auto v = std::bit_cast<float>(pattern);
    const uint16_t code = Float16(v).bits;
    differ += std::isnan(v) ? (code & 0x7FFF) != 0x7E00 : code != std::bit_cast<uint16_t>(_Float16(v));
  });
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto value = float(std::bit_cast<_Float16>(uint16_t(code)));
    if (!std::isnan(value)) differ += float(Float16::of_bits(uint16_t(code))) != value;
  }
  EXPECT_EQ(differ, 0u);
}

TEST(float16, doubles_agree_with_the_compiler) {
  std::mt19937_64 random(16);
  for (int i = 0; i < 1 << 20; ++i) {
    const uint64_t word = random();
    const auto v =
        std::bit_cast<double>((word & ~(0x7FFull << 52)) | (uint64_t(980 + word % 64) << 52));  // 2^-43 .. 2^20
    ASSERT_EQ(Float16(v).bits, std::bit_cast<uint16_t>(_Float16(v))) << std::hexfloat << v;
  }
}
#endif

}  // namespace
}  // namespace nacre::test
