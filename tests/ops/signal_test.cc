// Tests signal on tables that no converter writes, and its transform against the formula. Claim op_table tests the
// values.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/kernels/reference.h"
#include "engine/ops/signal.h"
#include "tests/one_step.h"

namespace nacre::test {
namespace {

Array whole(const std::vector<double>& values, std::vector<int32_t> dims = {}) {
  if (dims.empty()) dims = {int32_t(values.size())};
  return array_of(ElementType::kInt32, dims, values);
}

Execution bank(const std::vector<double>& entries, uint32_t channels) {
  return execute(reference::kSignalI32, {Signal::kFilterBank, channels},
                 {whole({100, 200, -1}), whole(entries, {int32_t(entries.size() / 2), 2}), whole({0})});
}

TEST(signal, channels_sum_their_own_bins) {
  const Execution run = bank({0, 16, 1, 12, 65536, 9, 65538, 1}, 3);
  ASSERT_EQ(run.code, Code::kOk);
  EXPECT_EQ(run.outputs[0].real(0), 63);     // sqrt(4000) = 63.2
  EXPECT_EQ(run.outputs[0].real(1), 65536);  // sqrt(900 + 2^32 - 1)
  EXPECT_EQ(run.outputs[0].real(2), 0);
}

TEST(signal, a_table_that_points_outside_is_refused) {
  EXPECT_EQ(bank({3, 1}, 1).code, Code::kIndex);  // a bin out of range
  for (const double channel : {1.0, -1.0, 32767.0}) EXPECT_EQ(bank({channel * 65536, 1}, 1).code, Code::kIndex);
  EXPECT_EQ(bank({65536, 1, 0, 1}, 2).code, Code::kIndex);  // out of order
}

// The largest bin is about 4200. Five scalings by 1 - 2^-13 change it, and six roundings add half a unit each.
TEST(signal, a_transform_is_near_the_formula) {
  constexpr int kSize = 512;
  std::vector<double> turns, x;
  const auto angle = [](int i) { return 2 * std::numbers::pi * i / kSize; };
  const auto code = [](double v) { return uint32_t(int32_t(std::floor(0.5 + 32767 * v))) & 0xFFFF; };
  for (int i = 0; i < kSize / 4 * 3; ++i)
    turns.push_back(int32_t(code(std::cos(angle(i))) | code(-std::sin(angle(i))) << 16));
  for (int i = 0; i < 480; ++i) x.push_back(std::round(9000 * std::sin(0.3 * i) + 7000 * std::cos(1.9 * i)));
  const Execution run = execute(reference::kSignalI32, {Signal::kFft, kSize}, {whole(x), whole(turns), Array()});
  ASSERT_EQ(run.code, Code::kOk);
  for (int k = 0; k <= kSize / 2; ++k) {
    double re = 0, im = 0;
    for (int i = 0; i < 480; ++i) {
      re += x[size_t(i)] * std::cos(angle(k * i % kSize)) / kSize;
      im -= x[size_t(i)] * std::sin(angle(k * i % kSize)) / kSize;
    }
    EXPECT_NEAR(run.outputs[0].real(2 * k), re, 6) << k;
    EXPECT_NEAR(run.outputs[0].real(2 * k + 1), im, 6) << k;
  }
}

}  // namespace
}  // namespace nacre::test
