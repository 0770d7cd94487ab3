// Tests the steps of integer training against references written here: 64-bit integers, float64, and the published
// fixed point of softmax.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/kernels/training.h"
#include "engine/numeric/float_bits.h"
#include "engine/ops/integer_update.h"
#include "tests/cases_random.h"
#include "tests/one_step.h"
#include "tests/ops/integer_arrays.h"
#include "tests/oracle_fixed_point.h"

namespace nacre::test {
namespace {

using namespace integer_arrays;

// The error must equal the published 16-bit softmax to the bit. The loss is compared with float64. Squares cut to 32
// bits cost less than 2^-12 of log2, ln 2 and the parts are cut to 2^-12, and a difference of codes is rounded to
// 2^-26.
TEST(int8_cross_entropy, is_softmax_less_the_label) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int rows = pick(random, 1, 6), classes = pick(random, 2, 40);
    const double scale = std::exp(between(random, std::log(0.01), std::log(0.5)));
    const double real = scale * double(1 << 26);
    const int shift = std::ilogb(real) + 1;
    const auto multiplier = int64_t(std::llround(std::ldexp(real, 31 - shift)));
    const int diff_min = -int(std::floor(31 * double(1 << 26) / std::ldexp(1.0, shift)));
    const Array x = codes(random, {rows, classes}, -128, 127);
    std::vector<double> labels;
    for (int r = 0; r < rows; ++r) labels.push_back(pick(random, 0, classes - 1));
    const Execution run =
        execute(reference::kInt8CrossEntropyI8, {uint32_t(multiplier), uint32_t(shift), uint32_t(diff_min)},
                {x, words32(kI32, labels), words32(kI32, {7}), words32(kI32, {5})});
    ASSERT_EQ(run.code, Code::kOk);
    double loss = 0;
    for (int r = 0; r < rows; ++r) {
      std::vector<double> row;
      for (int k = 0; k < classes; ++k) row.push_back(x.real(r * classes + k));
      double sum = 0, peak = *std::ranges::max_element(row);
      for (const double v : row) sum += std::exp((v - peak) * scale);
      const double distance = std::min((peak - row[size_t(labels[size_t(r)])]) * scale, -diff_min * scale);
      loss += std::log(sum) + distance;
      for (int k = 0; k < classes; ++k) {
        const int64_t share =
            32768 + softmax_code(row, size_t(k), Rounding::kDouble, {multiplier, shift, diff_min, 16});
        const int64_t want = clipped((share + 256) / 512 - (k == int(labels[size_t(r)]) ? 128 : 0), 127);
        ASSERT_EQ(run.outputs[0].integer(r * classes + k), want) << trial;
      }
    }
    EXPECT_NEAR((run.updated[0].real(0) - 7) / 4096, loss, rows * 1e-3 + loss * 1e-4) << trial;
    EXPECT_EQ(run.updated[1].integer(0), 5 + rows);
  }
}

TEST(int8_cross_entropy, refuses_a_label_before_it_writes) {
  Random random(4);
  for (const double label : {-1.0, 3.0}) {
    const Execution run =
        execute(reference::kInt8CrossEntropyI8, {1 << 30, 20, uint32_t(-100)},
                {codes(random, {2, 3}, -9, 9), words32(kI32, {1, label}), words32(kI32, {7}), words32(kI32, {5})});
    EXPECT_EQ(run.code, Code::kIndex);
    EXPECT_EQ(run.updated[0].integer(0), 7);
    EXPECT_EQ(run.updated[1].integer(0), 5);
  }
}

TEST(int8_gradients, of_parameters_are_exact_sums) {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int rows = pick(random, 1, 9), in = pick(random, 1, 70), out = pick(random, 1, 20),
              zero = pick(random, -128, 127);
    const Array e = codes(random, {rows, out}, -127, 127), x = codes(random, {rows, in}, -128, 127);
    const double before = trial % 3 == 0 ? INT32_MAX - 1000 : trial % 3 == 1 ? INT32_MIN + 1000 : 0;
    const auto sums = [&](std::vector<int32_t> dims, int count) {
      return words32(kI32, std::vector<double>(size_t(count), before), std::move(dims));
    };
    const Execution w = execute(reference::kDenseInt8GradientWI8, {uint32_t(zero)}, {e, x, sums({out, in}, out * in)});
    const Execution b = execute(reference::kBiasInt8GradientI8, {}, {e, sums({out}, out)});
    ASSERT_TRUE(w.code == Code::kOk && b.code == Code::kOk);
    for (int k = 0; k < out; ++k) {
      int64_t bias = 0;
      for (int r = 0; r < rows; ++r) bias += e.integer(r * out + k);
      ASSERT_EQ(b.updated[0].integer(k), in_int32(int64_t(before) + bias));
      for (int i = 0; i < in; ++i) {
        int64_t sum = 0;
        for (int r = 0; r < rows; ++r) sum += e.integer(r * out + k) * (x.integer(r * in + i) - zero);
        ASSERT_EQ(w.updated[0].integer(k * in + i), in_int32(int64_t(before) + sum)) << trial;
      }
    }
  }
}

TEST(int8_gradients, of_x_are_rounded_codes_where_the_layer_before_was_not_clamped) {
  Random random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const int rows = pick(random, 1, 5), in = pick(random, 1, 70), out = pick(random, 1, 20), low = -128,
              high = pick(random, 0, 127), e_exponent = pick(random, -9, 9), h = pick(random, -9, 33);
    const Array e = codes(random, {rows, out}, -127, 127), w = codes(random, {out, in}, -127, 127),
                x = codes(random, {rows, in}, -128, 127);
    std::vector<double> factor;
    for (int k = 0; k < out; ++k) factor.push_back(pick(random, 0, 1 << 10));
    const bool first = trial % 2 == 0;
    const Array of_error = first ? Array() : words32(kI32, {double(e_exponent), 3});
    const int exponent = h + (first ? 0 : e_exponent);
    const double before = pick(random, 0, 1000);
    const Execution run = execute(
        reference::kDenseInt8GradientXI8, {uint32_t(low), uint32_t(high)},
        {e, w, words32(kI32, factor), x, of_error, words32(kI32, {double(exponent), 9}), words32(kU32, {before})});
    ASSERT_EQ(run.code, Code::kOk);
    auto most = int64_t(before);
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < in; ++i) {
        int64_t a = 0;
        for (int k = 0; k < out; ++k) a += e.integer(r * out + k) * int64_t(factor[size_t(k)]) * w.integer(k * in + i);
        const int64_t at = x.integer(r * in + i);
        if (at <= low || at >= high) a = 0;
        most = std::max(most, std::abs(a));
        ASSERT_EQ(run.outputs[0].integer(r * in + i), clipped(std::llround(std::ldexp(double(a), -h)), 127))
            << trial << ", h " << h;
      }
    EXPECT_EQ(run.updated[0].integer(0), most);
  }
}

TEST(sgd_codes, moves_masters_by_the_rounded_product) {
  Random random(9);
  for (int trial = 0; trial < 300; ++trial) {
    const int channels = pick(random, 1, 5), inner = pick(random, 1, 40);
    std::vector<double> g, pairs, master;
    for (int i = 0; i < channels * inner; ++i) {
      g.push_back(double(int32_t(uint32_t(random())) >> (random() % 31)));
      master.push_back(double(int32_t(uint32_t(random()))));
    }
    for (int c = 0; c < channels; ++c) {
      pairs.push_back(pick(random, 1 << 30, INT32_MAX));
      pairs.push_back(pick(random, -20, 30));
    }
    const double rate = double(float(std::exp(between(random, -20, 5)))), range = pick(random, -9, 9);
    const int power = std::ilogb(rate) + 1;
    const double mantissa = std::ldexp(rate, 31 - power);
    const bool ranged = trial % 2 == 0;
    const bool last = trial % 3 == 0;  // the axis of channels
    const auto dims = last ? std::vector<int32_t>{inner, channels} : std::vector<int32_t>{channels, inner};
    const Execution run =
        execute(reference::kSgdCodesI32, {last ? 1u : 0u},
                {words32(kI32, g, dims), array_of<double>(ElementType::kFloat32, {4}, {rate, 0, 0, 1}),
                 words32(kI32, pairs, {channels, 2}), ranged ? words32(kI32, {range, 0}) : Array(),
                 words32(kI32, master, dims)});
    ASSERT_EQ(run.code, Code::kOk);
    for (int i = 0; i < channels * inner; ++i) {
      const size_t c = size_t(last ? i % channels : i / inner);
      const auto u = std::floor((long double)mantissa * (long double)pairs[2 * c] / 0x1p31L);
      const long double change = std::floor(
          std::ldexp((long double)g[size_t(i)] * u, int(double(power) + pairs[2 * c + 1] + (ranged ? range : 0)) - 31) +
          0.5L);
      const long double bounded = std::min(0x1p31L - 1, std::max(-0x1p31L, change));
      ASSERT_EQ(run.updated[0].integer(i), in_int32(int64_t(master[size_t(i)]) - int64_t(bounded))) << trial;
    }
  }
}

TEST(round_codes, clips_int8_and_rounds_away_from_zero) {
  Random random(10);
  for (int trial = 0; trial < 200; ++trial) {
    const int bits = pick(random, 0, 31);
    std::vector<double> master;
    for (int i = 0; i < 50; ++i) master.push_back(double(int32_t(uint32_t(random())) >> (random() % 31)));
    const Array m = words32(kI32, master);
    const Execution narrow = execute(reference::kRoundCodesI8, {uint32_t(bits)}, {m}),
                    wide = execute(reference::kRoundCodesI32, {uint32_t(bits)}, {m});
    for (int i = 0; i < 50; ++i) {
      const int64_t code = std::llround(std::ldexp(master[size_t(i)], -bits));
      ASSERT_EQ(narrow.outputs[0].integer(i), clipped(code, 127));
      ASSERT_EQ(wide.outputs[0].integer(i), code);
    }
  }
}

struct Judged {
  int64_t apply, amax;
  double factor, mean;
};
Judged judge(const std::vector<double>& g, double loss, double count, uint32_t rate_bits) {
  Array rate = make_array(ElementType::kFloat32, {1});
  std::memcpy(rate.bytes.data(), &rate_bits, sizeof rate_bits);
  const Execution run =
      execute(reference::kVerdictCodesI32, {}, {words32(kI32, g), words32(kI32, {loss}), words32(kI32, {count}), rate});
  const Array& report = run.outputs[2];
  return {run.outputs[0].integer(0), run.outputs[1].integer(0), report.real(0), report.real(2)};
}

TEST(verdict_codes, divides_by_the_samples_and_refuses_what_saturated) {
  Random random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const double rate = std::exp(between(random, -20, 5)), count = pick(random, 1, 1 << 20),
                 loss = pick(random, 1, 1 << 30);
    const Judged j = judge({3, -9, 4}, loss, count, std::bit_cast<uint32_t>(float(rate)));
    EXPECT_EQ(j.apply, 1);
    EXPECT_EQ(j.amax, 9);
    EXPECT_NEAR(j.factor, double(float(rate)) / count, double(float(rate)) / count * 0x1p-23);
    EXPECT_NEAR(j.mean, loss / 4096 / count, loss / 4096 / count * 0x1p-23);
  }
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  EXPECT_EQ(judge({1, INT32_MAX}, 1, 1, one).apply, 0);
  EXPECT_EQ(judge({1, -double(INT32_MAX)}, 1, 1, one).apply, 0);
  EXPECT_EQ(judge({1, INT32_MIN}, 1, 1, one).apply, 0);
  EXPECT_EQ(judge({1, INT32_MAX - 1}, 1, 1, one).apply, 1);
  EXPECT_EQ(judge({1}, INT32_MAX, 1, one).apply, 0);
  EXPECT_EQ(judge({1}, 1, 0, one).apply, 0);
  EXPECT_EQ(judge({1}, 1, 1 << 23, one).apply, 0);
  for (const uint32_t bits : {0x7F800000u, 0x7FC00000u, 0xBF800000u, 0xFF800000u})
    EXPECT_EQ(judge({1}, 1, 1, bits).apply, 0);
  for (const uint32_t bits : {0u, 0x80000000u}) {
    EXPECT_EQ(judge({1}, 1, 1, bits).apply, 1);
    EXPECT_EQ(judge({1}, 1, 1, bits).factor, 0);
  }
}

TEST(update_error_range, rises_at_once_and_halves_in_sixteen_steps) {
  std::vector<double> range = {kUnknownRange, kUnknownLevel};
  const auto step = [&](double amax, double of_error) {
    const Execution run = execute(reference::kUpdateErrorRangeI32, {},
                                  {words32(kU32, {amax}), words32(kI32, {of_error, 0}), Array(), words32(kI32, range)});
    range = {run.updated[0].real(0), run.updated[0].real(1)};
    return int(range[0]);
  };
  EXPECT_EQ(step(0, 4), kUnknownRange);  // nothing is known yet
  EXPECT_EQ(step(127, 4), 4);            // 7 bits: as it is
  EXPECT_EQ(step(128, 4), 5);
  EXPECT_EQ(step(0x7FFFFFFF, 4), 28);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(step(1, 4), 28) << i;
  EXPECT_EQ(step(1, 4), 27);
  EXPECT_EQ(step(0, 4), 27);  // no error, no news
  for (int i = 0; i < 1000; ++i) step(1, 4);
  EXPECT_EQ(range[0], 4 + 1 - 7);
}

}  // namespace
}  // namespace nacre::test
