// Tests the gradients of fake_quantize against their formulas in float64, and rounding by a given step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernels/training.h"
#include "engine/ops/fake_quantize.h"
#include "tests/ops/fake_quantize_steps.h"
#include "tests/ops/run_step.h"
#include "tools/calibration/quantizers.h"

namespace nacre::test {
namespace {

using namespace fake_quantize_steps;

struct RangeGradients {
  std::vector<double> dx;
  double low = 0, high = 0;
};

// Computes tf.quantization.fake_quant_with_min_max_vars_gradient over the converter's nudged range.
RangeGradients gradients_of(const std::vector<double>& dy, const std::vector<double>& x,
                            const std::vector<float>& range) {
  const tools::Quantizer quantizer = tools::quantizer_of_range({range[0], range[1]});
  const double low = double(quantizer.scale[0] * float(-128 - quantizer.zero[0])),
               high = double(quantizer.scale[0] * float(127 - quantizer.zero[0]));
  RangeGradients result;
  for (size_t i = 0; i < x.size(); ++i) {
    result.dx.push_back(x[i] >= low && x[i] <= high ? dy[i] : 0);
    if (x[i] < low) result.low += dy[i];
    if (x[i] > high) result.high += dy[i];
  }
  return result;
}

template <class T>
void check_gradients(const KernelEntry& of_x, const KernelEntry& of_range, double epsilon) {
  Random random(17);
  for (const std::vector<float>& each : ranges()) {
    std::vector<float> range = each;
    if (!(std::abs(range[0]) < 1e4f && std::abs(range[1]) < 1e4f)) continue;  // large for float16
    const double size = 1.5 * std::max(std::abs(double(range[0])), std::abs(double(range[1]))) + 1e-6;
    std::vector<T> x, dy, dx(300);
    std::vector<double> real_x, real_dy;
    for (size_t i = 0; i < dx.size(); ++i) {
      x.push_back(T(uniform(random, -size, size)));
      dy.push_back(T(uniform(random, -1, 1)));
      real_x.push_back(double(x[i]));
      real_dy.push_back(double(dy[i]));
    }
    std::vector<float> sum = {3, -5};
    StepOperands first, second;
    first.add({30, 10}, dy).add({30, 10}, x).add({2}, range).absent().add({30, 10}, dx);
    second.add({30, 10}, dy).add({30, 10}, x).add({2}, range).add({2}, sum);
    ASSERT_EQ(run_step(of_x, {}, first), Code::kOk);
    ASSERT_EQ(run_step(of_range, {}, second), Code::kOk);
    const RangeGradients want = gradients_of(real_dy, real_x, range);
    for (size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(double(dx[i]), want.dx[i]) << real_x[i];
    // Sums 300 terms of at most 1 in the accumulator: each addition errs by less than 300 epsilon. The sum is stored
    // as float32, which adds two roundings of at most 305.
    const double tolerance = 300 * 300 * epsilon + 2 * 305 * 0x1p-24;
    ASSERT_NEAR(double(sum[0]), 3 + want.low, tolerance);
    ASSERT_NEAR(double(sum[1]), -5 + want.high, tolerance);
  }
}

TEST(fake_quantize_gradient, is_straight_through_inside_and_of_the_range_outside) {
  check_gradients<float>(reference::kFakeQuantizeGradientXF32, reference::kFakeQuantizeGradientRangeF32, 0x1p-24);
  check_gradients<double>(reference::kFakeQuantizeGradientXF64, reference::kFakeQuantizeGradientRangeF64, 0x1p-53);
  check_gradients<Float16>(reference::kFakeQuantizeGradientXF16, reference::kFakeQuantizeGradientRangeF16, 0x1p-24);
  check_gradients<Bfloat16>(reference::kFakeQuantizeGradientXBf16, reference::kFakeQuantizeGradientRangeBf16, 0x1p-24);
}

// An x equal to an end counts as inside the range; the next number beyond it does not.
TEST(fake_quantize_gradient, at_the_ends) {
  std::vector<float> range = {-1, 2};
  const NudgedRange nudged = NudgedRange::from(range.data());
  std::vector<float> x = {nudged.low, nudged.high, std::nextafter(nudged.low, -kInf),
                          std::nextafter(nudged.high, kInf)};
  std::vector<float> dy = {1, 2, 4, 8}, dx(4), sum = {0, 0};
  StepOperands first, second;
  first.add({4}, dy).add({4}, x).add({2}, range).absent().add({4}, dx);
  second.add({4}, dy).add({4}, x).add({2}, range).add({2}, sum);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, first), Code::kOk);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientRangeF32, {}, second), Code::kOk);
  EXPECT_EQ(dx, (std::vector<float>{1, 2, 0, 0}));
  EXPECT_EQ(sum, (std::vector<float>{4, 8}));
}

// For x beyond an end, y is that end. So moving the ends must change y by the ends' gradients.
TEST(fake_quantize_gradient, of_the_range_is_the_slope_of_the_ends) {
  const std::vector<double> x = {5, 6, -7};
  std::vector<float> range = {-1, 1}, wider = {-1.5f, 2};
  const auto y = fake(reference::kFakeQuantizeF64, {}, {3}, x, range),
             moved = fake(reference::kFakeQuantizeF64, {}, {3}, x, wider);
  std::vector<double> dy = {1, 1, 1}, copy = x;
  std::vector<float> sum = {0, 0};
  StepOperands operands;
  operands.add({3}, dy).add({3}, copy).add({2}, range).add({2}, sum);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientRangeF64, {}, operands), Code::kOk);
  double change = 0;
  for (size_t i = 0; i < x.size(); ++i) change += moved[i] - y[i];
  // Nudging moves each end by at most half a step of 3.5 / 255; the tolerance is six such halves.
  EXPECT_NEAR(change, double(sum[0]) * -0.5 + double(sum[1]) * 1, 6 * 3.5 / 255 / 2);
}

TEST(fake_quantize_gradient, without_a_range_passes) {
  std::vector<float> x = {1e9f, -3, kNan}, dy = {1, 2, 3}, dx(3), none = {0, 0}, sum = {1, 2};
  StepOperands absent, unset, adds;
  absent.add({3}, dy).add({3}, x).absent().absent().add({3}, dx);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, absent), Code::kOk);
  EXPECT_EQ(dx, dy);
  dx = {0, 0, 0};
  unset.add({3}, dy).add({3}, x).add({2}, none).absent().add({3}, dx);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, unset), Code::kOk);
  EXPECT_EQ(dx, dy);
  adds.add({3}, dy).add({3}, x).add({2}, none).add({2}, sum);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientRangeF32, {}, adds), Code::kOk);
  EXPECT_EQ(sum, (std::vector<float>{1, 2}));
}

template <class T>
struct Coded {
  std::vector<T> y, dx;
  Code forward, backward;
};
template <class T>
Coded<T> with_step(const KernelEntry& entry, const KernelEntry& gradient, std::vector<uint32_t> words,
                   std::vector<int32_t> dims, std::vector<T> x, std::vector<T> dy, std::vector<float> step,
                   std::vector<int32_t> step_dims) {
  Coded<T> made = {std::vector<T>(x.size()), std::vector<T>(x.size()), Code::kOk, Code::kOk};
  StepOperands forward, backward;
  forward.add(dims, x).absent().add(step_dims, step).add(dims, made.y);
  backward.add(dims, dy).add(dims, x).absent().add(step_dims, step).add(dims, made.dx);
  made.forward = run_step(entry, words, forward);
  made.backward = run_step(gradient, {words.begin() + 1, words.end()}, backward);
  return made;
}

// Tests random codes, numbers at quarters between codes, and the ends of int8 or int32, against float64: without an
// axis and for each axis.
template <class T>
void check_codes(const KernelEntry& entry, const KernelEntry& gradient) {
  Random random(19);
  const std::vector<int32_t> dims = {3, 7, 5, 11};
  for (const uint32_t rule : {4u, 5u})
    for (int axis = -1; axis < 4; ++axis) {
      std::vector<T> x(3 * 7 * 5 * 11), dy;
      const double edge = rule == 4 ? 127 : 2147483648.0;
      for (T& v : x) {
        const double near =
            random() % 3 == 0 ? (random() % 2 == 0 ? -edge : edge) : std::floor(uniform(random, -130, 130));
        v = T(near + double(random() % 5) / 4 - 0.5);
        dy.push_back(T(uniform(random, -1, 1)));
      }
      x[0] = T(kNan), x[1] = T(kInf), x[2] = T(-kInf), x[3] = T(1e30f);
      std::vector<float> step;
      for (int32_t c = 0; c < (axis < 0 ? 1 : dims[size_t(axis)]); ++c)
        step.push_back(float(std::exp(uniform(random, -9, 0))));
      const std::vector<uint32_t> words = {rule, axis < 0 ? 0u : 1u, axis < 0 ? 0u : uint32_t(axis)};
      const Coded<T> got = with_step<T>(entry, gradient, words, dims, x, dy, step, {int32_t(step.size())});
      ASSERT_EQ(got.forward, Code::kOk);
      ASSERT_EQ(got.backward, Code::kOk);
      size_t inner = 1;
      for (int a = axis + 1; axis >= 0 && a < 4; ++a) inner *= size_t(dims[size_t(a)]);
      using A = typename Element<T>::Accumulator;
      for (size_t i = 0; i < x.size(); ++i) {
        const A s = A(step[i / inner % step.size()]);
        ASSERT_EQ(double(got.dx[i]), double(T(A(dy[i]) / s))) << i;
        if (double(x[i]) != double(x[i])) {
          ASSERT_TRUE(std::isnan(double(got.y[i])));
          continue;
        }
        const double low = rule == 4 ? -128 : -2147483648.0, high = rule == 4 ? 127 : 2147483647.0;
        const double code = std::clamp(std::round(double(x[i])), low, high);  // half away from zero
        ASSERT_EQ(double(got.y[i]), double(T(s * A(int32_t(code))))) << double(x[i]);
      }
    }
}

TEST(fake_quantize, of_a_step_is_the_code_it_rounds_to) {
  check_codes<float>(reference::kFakeQuantizeF32, reference::kFakeQuantizeGradientXF32);
  check_codes<double>(reference::kFakeQuantizeF64, reference::kFakeQuantizeGradientXF64);
  check_codes<Bfloat16>(reference::kFakeQuantizeBf16, reference::kFakeQuantizeGradientXBf16);
}

// By the chain rule dL/dx is step dL/dy. With the factor step^-2, SGD moves the real number step x by the same amount
// whatever the step is.
TEST(fake_quantize_gradient, of_a_step_moves_the_real_number_as_sgd_does) {
  const std::vector<double> x = {3, -8, 100}, dy = {0.5, -0.25, 2};
  const float rate = 0.125f;
  for (const float step : {0.5f, 0.0078125f, 1e-3f}) {
    const Coded<double> got = with_step<double>(reference::kFakeQuantizeF64, reference::kFakeQuantizeGradientXF64,
                                                {4, 0, 0}, {3}, x, dy, {step}, {1});
    for (size_t i = 0; i < x.size(); ++i) {
      const double chain = double(step) * dy[i],
                   moved = double(step) * (x[i] - double(rate) * got.dx[i]) - double(step) * x[i];
      EXPECT_NEAR(got.dx[i], chain / (double(step) * double(step)), 1e-12 * std::abs(got.dx[i]));
      EXPECT_NEAR(moved, -double(rate) * dy[i], 1e-12);
    }
  }
}

TEST(fake_quantize, refuses_steps_of_another_shape) {
  const auto code = [](std::vector<uint32_t> words, int32_t steps) {
    const Coded<float> got =
        with_step<float>(reference::kFakeQuantizeF32, reference::kFakeQuantizeGradientXF32, words, {2, 3},
                         std::vector<float>(6), std::vector<float>(6), std::vector<float>(size_t(steps), 1), {steps});
    return std::pair(got.forward, got.backward);
  };
  EXPECT_EQ(code({4, 0, 0}, 1), std::pair(Code::kOk, Code::kOk));
  EXPECT_EQ(code({5, 1, 1}, 3), std::pair(Code::kOk, Code::kOk));
  EXPECT_EQ(code({4, 1, 0}, 3), std::pair(Code::kShapeScale, Code::kShapeScale));
  EXPECT_EQ(code({4, 0, 0}, 3), std::pair(Code::kShapeScale, Code::kShapeScale));
  EXPECT_EQ(code({4, 1, 2}, 3), std::pair(Code::kAttributeAxis, Code::kAttributeAxis));
  EXPECT_EQ(code({4, 1, 0x80000000}, 3), std::pair(Code::kAttributeAxis, Code::kAttributeAxis));
  EXPECT_EQ(code({4, 2, 0}, 2), std::pair(Code::kAttribute, Code::kAttribute));
  EXPECT_EQ(code({0, 0, 0}, 1).first, Code::kAttribute);  // a step, and a rule without one
}

}  // namespace
}  // namespace nacre::test
