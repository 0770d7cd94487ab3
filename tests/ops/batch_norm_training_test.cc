// Tests batch_norm_training against float64, with bounds from the roundings of its formulas, and by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/training.h"
#include "tests/gradient_check.h"
#include "tests/op_rows.h"
#include "tests/ops/gradient_precision.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

using namespace gradient_precision;

// Tests float32 and 16-bit floats against float64. The formulas' roundings bound the errors:
//   mean      u (rows + 2) max |x|, for a sum of rows and a quotient
//   variance  relative u (rows + 8), plus the square of the mean's error
//   y         the errors of x - mean, of 1 / sqrt, of two products and a sum
TEST(batch_norm_training, of_smaller_floats_is_within_its_rounding) {
  for (const auto& [entry, element] :
       {std::pair{&reference::kBatchNormTrainingF32, kF32}, std::pair{&reference::kBatchNormTrainingF16, kF16},
        std::pair{&reference::kBatchNormTrainingBf16, kBf16}})
    for (int seed = 0; seed < 40; ++seed) {
      Random random{uint64_t(seed)};
      GradientCase made;
      find_gradient_row(Op::kBatchNormTraining)->gradient(random, made);
      if (made.inputs[0].elements() == made.inputs[1].elements()) continue;  // one row: y is the bias
      std::vector<Array> small;
      for (size_t i = 0; i < made.inputs.size(); ++i) {
        small.push_back(converted(made.inputs[i], entry->operands[i].element));
        made.inputs[i] = converted(small.back(), made.inputs[i].element);
      }
      const Execution got = execute(*entry, made.words, small);
      const Execution want = execute(reference::kBatchNormTrainingF64, made.words, made.inputs);
      ASSERT_EQ(got.code, Code::kOk);
      EXPECT_FALSE(got.overrun || got.impure);
      const Array &x = made.inputs[0], &y = want.outputs[0];
      const int64_t channels = made.inputs[1].elements(), rows = x.elements() / channels;
      const double u = 0x1p-24, k = double(rows) + 8, largest = 4;
      const Precision type = precision(element);
      for (int64_t c = 0; c < channels; ++c) {
        const double f = want.outputs[2].real(c), mean_error = u * k * largest;
        // The variance errs by at most u k variance + mean_error^2. f = variance^-1/2 is at most 2 in these cases.
        const double f_error = f * (u * k + mean_error * mean_error * f * f + 4 * u);
        EXPECT_LE(std::abs(got.outputs[1].real(c) - want.outputs[1].real(c)), mean_error);
        EXPECT_LE(std::abs(got.outputs[2].real(c) - f), f_error);
        for (int64_t i = c; i < x.elements(); i += channels) {
          const double scale = std::abs(made.inputs[1].real(c)), bias = std::abs(made.inputs[2].real(c));
          const double d = std::abs(x.real(i) - want.outputs[1].real(c));
          const double error = scale * (mean_error * f + d * f_error + 4 * u * d * f) + 2 * u * (bias + scale * d * f);
          EXPECT_LE(std::abs(got.outputs[0].real(i) - y.real(i)),
                    error * (1 + type.half_ulp) + type.half_ulp * std::abs(y.real(i)) + type.smallest);
        }
      }
    }
}

// Runs the forward step on two rows of one channel, against its definition: mean 3, variance 4.
TEST(batch_norm_training, normalizes_and_adds_to_the_statistics) {
  const Array x = array_of<double>(kF64, {2, 1}, {1, 5}), one = array_of<double>(kF64, {1}, {1});
  for (const uint32_t unbiased : {0u, 1u}) {
    const Execution run = execute(reference::kBatchNormTrainingF64, {0, unbiased},
                                  {x, array_of<double>(kF64, {1}, {3}), array_of<double>(kF64, {1}, {0.5}), one, one,
                                   array_of<double>(kF32, {1}, {7})});
    ASSERT_EQ(run.code, Code::kOk);
    EXPECT_EQ(run.outputs[0].real(0), -2.5);
    EXPECT_EQ(run.outputs[0].real(1), 3.5);
    EXPECT_EQ(run.outputs[1].real(0), 3);
    EXPECT_EQ(run.outputs[2].real(0), 0.5);
    EXPECT_EQ(run.updated[0].real(0), 4);
    EXPECT_EQ(run.updated[1].real(0), unbiased == 1 ? 9 : 5);
    EXPECT_EQ(run.updated[2].real(0), 8);
  }
}

}  // namespace
}  // namespace nacre::test
