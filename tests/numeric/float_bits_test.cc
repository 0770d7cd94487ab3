// Tests numbers by their bits, against float and double arithmetic.
#include "engine/numeric/float_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/random.h"

namespace nacre::test {
namespace {

TEST(float_bits, a_number_is_the_same_by_its_bits) {
  Random random(7);
  for (int trial = 0; trial < 200000; ++trial) {
    const auto bits = uint32_t(random()) & 0x7FFFFFFF;
    const auto x = std::bit_cast<float>(bits);
    const ScaledInteger v = scaled_of_float(bits);
    if (!std::isfinite(x)) {
      EXPECT_EQ(v.mantissa, 0);
      continue;
    }
    ASSERT_EQ(std::ldexp(double(v.mantissa), v.exponent - 31), double(x)) << bits;
    if (v.exponent >= -125) {
      ASSERT_EQ(float_of_scaled(v), bits);
    }
    const auto n = uint32_t(random()) >> (1 + random() % 31);
    const ScaledInteger whole = scaled_of_integer(n);
    ASSERT_EQ(std::bit_cast<float>(float_of_scaled(whole)), float(n));
    if (n == 0 || v.mantissa == 0) continue;
    const ScaledInteger q = divided(v, n);
    const double exact = double(x) / n, found = std::ldexp(double(q.mantissa), q.exponent - 31);
    ASSERT_TRUE(q.mantissa >= 1 << 30 && found <= exact && exact - found <= std::ldexp(exact, -30)) << x << ' ' << n;
  }
}

TEST(float_bits, float64_becomes_float32_as_the_cast_does) {
  Random random(8);
  const auto same = [](uint64_t bits) {
    const auto wide = std::bit_cast<double>(bits);
    const auto cast = float(wide);
    return std::isnan(wide) ? std::isnan(std::bit_cast<float>(float_of_double(bits)))
                            : float_of_double(bits) == std::bit_cast<uint32_t>(cast);
  };
  for (int trial = 0; trial < 400000; ++trial) {
    uint64_t bits = random();
    const uint64_t field = 1023 - 160 + random() % 300;  // below, at and above what float32 has
    if (trial % 2 == 0) bits = (bits & ~(uint64_t{0x7FF} << 52)) | field << 52;
    if (trial % 8 < 2) bits &= ~uint64_t{0xFFFFFFF};  // ties
    ASSERT_TRUE(same(bits)) << bits;
  }
  for (const double v : {0.0, -0.0, 1e-45, 0x1p-150, 0x1.8p-149, 3.4028235677973366e38, 3.4028235e38, HUGE_VAL, 5e-324})
    EXPECT_TRUE(same(std::bit_cast<uint64_t>(v))) << v;
}

}  // namespace
}  // namespace nacre::test
