// Tests the steps of --train-share against a sort by distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/kernels/training.h"
#include "engine/ops/integer_share.h"
#include "tests/cases_random.h"
#include "tests/one_step.h"
#include "tests/ops/integer_arrays.h"

namespace nacre::test {
namespace {

using namespace integer_arrays;

// A parameter's master numbers and its codes. Only some codes are those that the masters round to.
struct Parameter {
  int bits, limit;
  std::vector<double> master, code;

  Parameter(Random& random, int count, bool int8) : bits(pick(random, 0, int8 ? 31 : 20)), limit(int8 ? 127 : 0) {
    const int same = pick(random, 0, 100);
    for (int i = 0; i < count; ++i) {
      master.push_back(double(int32_t(uint32_t(random())) >> (random() % 31)));
      code.push_back(chance(random, same) ? double(wanted(i)) : double(pick(random, -127, 127)));
    }
  }
  int64_t wanted(int i) const {
    const int64_t code_of = std::llround(std::ldexp(master[size_t(i)], -bits));
    return limit == 0 ? code_of : clipped(code_of, limit);
  }
  int64_t distance(int i) const { return std::abs(wanted(i) - int64_t(code[size_t(i)])); }
};

TEST(pending_codes, counts_the_steps_that_codes_are_behind) {
  Random random(21);
  for (int trial = 0; trial < 400; ++trial) {
    const int channels = pick(random, 1, 20), inner = pick(random, 1, 40);
    const bool int8 = chance(random, 60), last = chance(random, 50), has_bias = chance(random, 50);
    const Parameter w(random, channels * inner, int8), b(random, channels, false);
    const auto dims = last ? std::vector<int32_t>{inner, channels} : std::vector<int32_t>{channels, inner};
    const Execution run =
        execute(int8 ? reference::kPendingCodesI8 : reference::kPendingCodesI32,
                {uint32_t(w.bits), uint32_t(b.bits), last ? 1u : 0u},
                {words32(kI32, w.master, dims), words32(int8 ? kI8 : kI32, w.code, dims),
                 has_bias ? words32(kI32, b.master) : Array(), has_bias ? words32(kI32, b.code) : Array()});
    ASSERT_EQ(run.code, Code::kOk);
    ASSERT_EQ(run.outputs[0].elements(), channels);
    for (int k = 0; k < channels; ++k) {
      int64_t pending = has_bias ? (b.distance(k) + 127) / 128 : 0;
      for (int i = 0; i < inner; ++i) pending += w.distance(last ? i * channels + k : k * inner + i);
      ASSERT_EQ(run.outputs[0].integer(k), std::min<int64_t>(pending, UINT32_MAX)) << trial;
    }
  }
}

// Distances sum to the counter's largest number 2^32 - 1, to more (2^32 - 1 + 2^31 + 1), and to a number that fits.
TEST(pending_codes, saturates) {
  const double low = INT32_MIN, high = INT32_MAX;
  const auto count = [](const std::vector<double>& master, const std::vector<double>& code) {
    const Execution run = execute(reference::kPendingCodesI32, {0, 0, 0},
                                  {words32(kI32, master, {1, 3}), words32(kI32, code, {1, 3}), Array(), Array()});
    return run.outputs[0].integer(0);
  };
  EXPECT_EQ(count({high, 5, 0}, {low, 5, 0}), UINT32_MAX);
  EXPECT_EQ(count({high, 0, 1}, {low, low, 0}), UINT32_MAX);
  EXPECT_EQ(count({0, 0, 1}, {low, 5, 0}), (int64_t{1} << 31) + 6);
}

TEST(write_codes, writes_the_channels_with_the_most_that_is_pending) {
  Random random(22);
  int waited = 0, idle = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const int channels = pick(random, 1, 30), inner = pick(random, 1, 9), count = pick(random, 1, channels);
    const bool int8 = chance(random, 60), last = chance(random, 50);
    const Parameter w(random, channels * inner, int8);
    std::vector<double> pending;  // few values, so many are equal; sometimes near the type's end
    const int most = pick(random, 0, 4);
    for (int k = 0; k < channels; ++k)
      pending.push_back(chance(random, 5) ? double(UINT32_MAX) - pick(random, 0, 1) : pick(random, 0, most));
    std::vector<int> order(pending.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) { return pending[size_t(a)] > pending[size_t(b)]; });
    std::vector<bool> chosen(pending.size());
    for (int i = 0; i < count; ++i) chosen[size_t(order[size_t(i)])] = pending[size_t(order[size_t(i)])] > 0;

    const auto dims = last ? std::vector<int32_t>{inner, channels} : std::vector<int32_t>{channels, inner};
    const Execution run =
        execute(int8 ? reference::kWriteCodesI8 : reference::kWriteCodesI32,
                {uint32_t(w.bits), last ? 1u : 0u, uint32_t(count - 1)},
                {words32(kU32, pending), words32(kI32, w.master, dims), words32(int8 ? kI8 : kI32, w.code, dims)});
    ASSERT_EQ(run.code, Code::kOk);
    for (int k = 0; k < channels; ++k) {
      waited += pending[size_t(k)] > 0 && !chosen[size_t(k)] ? 1 : 0;
      idle += pending[size_t(k)] == 0 ? 1 : 0;
      for (int i = 0; i < inner; ++i) {
        const int at = last ? i * channels + k : k * inner + i;
        const int64_t want = chosen[size_t(k)] ? w.wanted(at) : int64_t(w.code[size_t(at)]);
        ASSERT_EQ(run.updated[0].integer(at), want) << trial << ", channel " << k;
      }
    }
  }
  EXPECT_GT(waited, 1000);
  EXPECT_GT(idle, 1000);
}

TEST(write_codes, refuses_what_does_not_fit) {
  const auto code = [](std::vector<uint32_t> words, int pending, int channels) {
    const std::vector<double> zeros(size_t(channels) * 2);
    return execute(reference::kWriteCodesI8, std::move(words),
                   {words32(kU32, std::vector<double>(size_t(pending))), words32(kI32, zeros, {channels, 2}),
                    words32(kI8, zeros, {channels, 2})})
        .code;
  };
  EXPECT_EQ(code({24, 0, 3}, 4, 4), Code::kOk);
  EXPECT_EQ(code({24, 0, 4}, 4, 4), Code::kAttribute);  // a count of five out of four
  EXPECT_EQ(code({24, 2, 0}, 4, 4), Code::kAttribute);
  EXPECT_EQ(code({32, 0, 0}, 4, 4), Code::kAttribute);
  EXPECT_EQ(code({24, 0, 0}, 3, 4), Code::kShapeInput);
}

}  // namespace
}  // namespace nacre::test
