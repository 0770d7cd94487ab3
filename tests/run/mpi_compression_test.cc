// Tests gradients in fewer bits for the way between machines (ports/mpi/compression.h): NUMERICS.md (58).
#ifdef NACRE_MPI
#include "ports/mpi/compression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace nacre::test {
namespace {

using mpi::Coding;

constexpr size_t kNumbers = 1000;  // not a multiple of a run of 256

struct Line {  // the numbers that a rank sends, step after step
  Coding coding;
  std::vector<float> error = std::vector<float>(kNumbers);

  std::vector<float> send(const std::vector<float>& x, float unit = 1) {
    std::vector<std::byte> coded(mpi::coded_bytes(coding, x.size()));
    std::vector<float> got(x.size());
    mpi::encode(coding, x, unit, error, coded.data());
    mpi::decode(coding, coded.data(), got);
    return got;
  }
};

std::vector<float> gradients(std::mt19937& random, float size = 1) {
  std::vector<float> x(kNumbers);
  for (float& v : x) v = std::ldexp(float(random() % 65536) / 32768 - 1, -int(random() % 12)) * size;
  return x;
}

float largest(const std::vector<float>& x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

// Returns the error bound of a number. The largest magnitude of a run is 448 steps, and E4M3 has 4 bits, so half a
// unit in the last place is 2^-4 of a normal number. Below 2^-6 steps it is 2^-10 steps.
double bound(Coding coding, float v, float most) {
  if (coding == Coding::kBfloat16) return std::fabs(double(v)) * 0x1p-8;
  return std::max(std::fabs(double(v)) * 0x1p-4 * (1 + 0x1p-20), double(most) / 448 * 0x1p-10);
}

TEST(mpi_compression, takes_half_and_a_quarter_of_the_bytes) {
  EXPECT_EQ(mpi::coded_bytes(Coding::kNone, kNumbers), 4000u);
  EXPECT_EQ(mpi::coded_bytes(Coding::kBfloat16, kNumbers), 2000u);
  EXPECT_EQ(mpi::coded_bytes(Coding::kFloat8, kNumbers), 1000u + 4 * 4);
  EXPECT_EQ(mpi::coded_bytes(Coding::kFloat8, 0), 0u);
}

TEST(mpi_compression, rounds_once) {
  for (const Coding coding : {Coding::kBfloat16, Coding::kFloat8}) {
    std::mt19937 random(1);
    Line line = {.coding = coding};
    const std::vector<float> x = gradients(random), got = line.send(x);
    for (size_t i = 0; i < kNumbers; ++i) {
      EXPECT_LE(std::fabs(double(got[i]) - double(x[i])), bound(coding, x[i], largest(x))) << i;
      EXPECT_EQ(line.error[i], x[i] - got[i]) << "exact: the difference of two numbers this near is a float32";
    }
  }
}

// The sum of what arrives equals the sum of what was sent minus the last error, whatever the loss scales are:
// rounding only delays. In each step v, the difference and the division round by less than 2^-22 of the largest
// gradient.
TEST(mpi_compression, what_rounding_leaves_behind_comes_later) {
  for (const Coding coding : {Coding::kBfloat16, Coding::kFloat8}) {
    std::mt19937 random(2);
    Line line = {.coding = coding}, forgets = {.coding = coding};
    std::vector<double> sent(kNumbers), arrived(kNumbers), without(kNumbers);
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      const float unit = std::ldexp(1.0f, step % 7);  // the loss scale
      std::vector<float> x = gradients(random);
      for (float& v : x) v = (std::fabs(v) + 0.001f) * unit;  // always up: without feedback, roundings add up
      const std::vector<float> got = line.send(x, unit);
      forgets.error.assign(kNumbers, 0);
      const std::vector<float> lost = forgets.send(x, unit);
      for (size_t i = 0; i < kNumbers; ++i)
        sent[i] += double(x[i] / unit), arrived[i] += double(got[i] / unit), without[i] += double(lost[i] / unit);
    }
    double worst = 0, worst_without = 0;
    for (size_t i = 0; i < kNumbers; ++i) {
      worst = std::max(worst, std::fabs(sent[i] - arrived[i] - double(line.error[i])));
      worst_without = std::max(worst_without, std::fabs(sent[i] - without[i]));
    }
    EXPECT_LE(worst, kSteps * 0x1p-22);
    EXPECT_GT(worst_without, 100 * worst) << "that the bound can fail";
  }
}

TEST(mpi_compression, what_is_not_finite_arrives_as_such) {
  for (const Coding coding : {Coding::kBfloat16, Coding::kFloat8})
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      std::mt19937 random(3);
      Line line = {.coding = coding};
      line.send(gradients(random));
      const std::vector<float> before = line.error;
      std::vector<float> x = gradients(random);
      x[300] = bad;
      const std::vector<float> got = line.send(x);
      EXPECT_FALSE(std::isfinite(got[300]));
      for (size_t i = 0; i < kNumbers; ++i) {
        EXPECT_TRUE(i == 300 || std::isfinite(got[i])) << i;
        EXPECT_TRUE(i / 256 != 1 || line.error[i] == before[i]) << "the errors of that run stay: " << i;
        EXPECT_TRUE(std::isfinite(line.error[i]));
      }
    }
}

TEST(mpi_compression, zeros_and_subnormals_stay_small) {
  for (const Coding coding : {Coding::kBfloat16, Coding::kFloat8}) {
    Line line = {.coding = coding};
    std::vector<float> x(kNumbers);
    EXPECT_EQ(line.send(x), x);
    x[7] = 0x1p-140f;
    EXPECT_LE(std::fabs(line.send(x)[7]), 0x1p-126f);
    EXPECT_EQ(largest(line.send(std::vector<float>(kNumbers, 0x1p100f))), 0x1p100f);
  }
}

}  // namespace
}  // namespace nacre::test
#endif
