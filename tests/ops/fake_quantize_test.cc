// fake_quantize against the converter's own quantizers and the engine's quantize and dequantize kernels, its gradients
// against their formulas in float64.
#include "engine/ops/fake_quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "tests/ops/run_step.h"
#include "tools/calibration/quantizers.h"
#include "tools/passes/quantize_weights.h"

namespace nacre::tests {
namespace {

using Random = std::mt19937_64;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
double uniform(Random& random, double low, double high) { return std::uniform_real_distribution(low, high)(random); }

template <class T>
std::vector<T> fake(const KernelEntry& entry, std::vector<uint32_t> words, std::vector<int32_t> dims, std::vector<T> x,
                    std::vector<float> range = {}) {
  std::vector<T> y(x.size());
  StepOperands operands;
  operands.add(dims, x);
  range.empty() ? operands.absent() : operands.add({2}, range);
  operands.absent().add(dims, y);
  EXPECT_EQ(run_step(entry, words, operands), Code::kOk);
  return y;
}

// Ranges of one sign, of both, tiny, huge, reversed, with an end at 0, and 200 at random.
std::vector<std::vector<float>> ranges() {
  std::vector<std::vector<float>> all = {{-1, 1},     {0, 6},       {-6, 0},    {0.5f, 3}, {-3, -0.5f}, {0, 1e-8f}, {-1e-7f, 1e-7f},
                                         {2, -2},     {-0.1f, 5.9f}, {-1e30f, 1e30f}, {0, 255}, {-128, 127}, {0, 1e-38f}, {-1e-3f, 1e4f},
                                         {-3.4e38f, 3.4e38f}};
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const float size = float(std::exp(uniform(random, -12, 12)));
    all.push_back({size * float(uniform(random, -1, 0.2)), size * float(uniform(random, -0.2, 1))});
  }
  return all;
}

// Every code's value, the middles between them, their neighbours in float32, and what lies beyond.
std::vector<float> points(float scale, int64_t zero) {
  std::vector<float> x = {0.0f, -0.0f, 1e30f, -1e30f, kInf, -kInf, 1e-30f};
  for (int q = -129; q <= 128; ++q)
    for (const double at : {double(q - zero), double(q - zero) + 0.5}) {
      const float v = float(double(scale) * at);
      for (const float w : {v, std::nextafter(v, kInf), std::nextafter(v, -kInf)}) x.push_back(w);
    }
  return x;
}

// The converter's scale and zero point, through the engine's quantize and dequantize kernels.
TEST(fake_quantize, is_what_the_integer_network_makes_of_every_code) {
  size_t compared = 0;
  for (const std::vector<float>& range : ranges()) {
    const tools::Quantizer quantizer = tools::quantizer_of_range({range[0], range[1]});
    std::vector<float> x = points(quantizer.scale[0], quantizer.zero[0]), scale = quantizer.scale, want(x.size());
    std::vector<int8_t> q(x.size());
    std::vector<int32_t> zero = {int32_t(quantizer.zero[0])};
    const std::vector<int32_t> dims = {int32_t(x.size())};
    StepOperands quantize, dequantize;
    quantize.add(dims, x).add({1}, scale).add({1}, zero).add(dims, q);
    dequantize.add(dims, q).add({1}, scale).add({1}, zero).add(dims, want);
    ASSERT_EQ(run_step(reference::kQuantizeI8HalfAway, {}, quantize), Code::kOk);
    ASSERT_EQ(run_step(reference::kDequantizeI8, {}, dequantize), Code::kOk);
    const std::vector<float> y = fake(reference::kFakeQuantizeF32, {}, dims, x, range);
    for (size_t i = 0; i < x.size(); ++i, ++compared)
      ASSERT_EQ(bits(y[i]), bits(want[i])) << x[i] << " in [" << range[0] << ", " << range[1] << "]";
  }
  EXPECT_GT(compared, 300000u);
}

// All 256 codes are met, and y of y is y: the grid is the quantizer's.
TEST(fake_quantize, has_256_values_which_it_keeps) {
  const std::vector<float> range = {-2.5f, 3.75f};
  std::vector<float> x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(float(i) * 0.001f);
  const std::vector<float> y = fake(reference::kFakeQuantizeF32, {}, {int32_t(x.size())}, x, range);
  std::vector<float> values = y;
  values.erase(std::unique(values.begin(), values.end()), values.end());
  EXPECT_EQ(values.size(), 256u);
  EXPECT_EQ(fake(reference::kFakeQuantizeF32, {}, {int32_t(x.size())}, y, range), y);
}

// Against the codes that convert writes for the same weights.
TEST(fake_quantize, weights_are_what_the_converter_stores) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    const std::vector<int32_t> dims = {int32_t(1 + random() % 5), int32_t(1 + random() % 4), int32_t(1 + random() % 6), int32_t(1 + random() % 5)};
    std::vector<float> w(size_t(dims[0] * dims[1] * dims[2] * dims[3]));
    const double size = std::exp(uniform(random, -20, 5));
    for (float& v : w) v = round % 7 == 0 ? 0 : float(uniform(random, -size, size));
    const std::vector<int64_t> wide(dims.begin(), dims.end());
    for (int axis = tools::kPerTensor; axis < 4; ++axis) {
      const tools::Quantizer quantizer = tools::symmetric_quantizer(w, wide, axis);
      const std::vector<int8_t> codes = tools::symmetric_codes(w, wide, quantizer);
      const std::vector<uint32_t> words = axis < 0 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, 1, uint32_t(axis)};
      const std::vector<float> y = fake(reference::kFakeQuantizeF32, words, dims, w);
      const auto inner = size_t(axis < 0 ? 1 : tools::inner_elements(wide, axis));
      for (size_t i = 0; i < w.size(); ++i)
        ASSERT_EQ(bits(y[i] + 0.0f), bits(quantizer.scale[i / inner % quantizer.scale.size()] * float(codes[i])));
    }
    for (const Op op : {Op::kConv2d, Op::kDepthwiseConv2d}) {
      const tools::WeightLayout layout = tools::layout_of(op, {wide[0], wide[1], wide[2] * wide[3]});
      const std::vector<int32_t> shape = {dims[0], dims[1], dims[2] * dims[3]};
      const uint32_t axis = op == Op::kDepthwiseConv2d ? 2 : 0;
      const tools::WeightCodes step = tools::step_codes(w, layout), int8 = tools::absmax_codes(w, layout, kInt8Range),
                               int4 = tools::absmax_codes(w, layout, kInt4Range);
      const auto y1 = fake(reference::kFakeQuantizeF32, {1, 1, axis}, shape, w), y2 = fake(reference::kFakeQuantizeF32, {2, 1, axis}, shape, w),
                 y3 = fake(reference::kFakeQuantizeF32, {3, 1, axis}, shape, w);
      for (int64_t k = 0; k < layout.channels; ++k)
        for (int64_t r = 0; r < layout.terms; ++r) {
          const auto i = size_t(layout.at(k, r));
          ASSERT_EQ(bits(y1[i] + 0.0f), bits(float(step.codes[i]) * step.scale[size_t(k)]));
          ASSERT_EQ(bits(y2[i] + 0.0f), bits(float(int8.codes[i]) / int8.scale[size_t(k)] + 0.0f));
          ASSERT_EQ(bits(y3[i] + 0.0f), bits(float(int4.codes[i]) / int4.scale[size_t(k)] + 0.0f));
        }
    }
  }
}

// 16-bit floats: the float32 result, rounded once. float64: scale and codes of the same range, divided in float64.
TEST(fake_quantize, other_types) {
  Random random(13);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> range = {float(uniform(random, -4, 1)), float(uniform(random, -1, 4))};
    std::vector<float> x(257);
    for (float& v : x) v = float(uniform(random, -5, 5));
    std::vector<Float16> half;
    std::vector<Bfloat16> brain;
    std::vector<double> wide(x.begin(), x.end());
    std::vector<float> of_half, of_brain;
    for (const float v : x) {
      half.emplace_back(v), brain.emplace_back(v);
      of_half.push_back(float(half.back())), of_brain.push_back(float(brain.back()));
    }
    const auto want_half = fake(reference::kFakeQuantizeF32, {}, {257}, of_half, range);
    const auto want_brain = fake(reference::kFakeQuantizeF32, {}, {257}, of_brain, range);
    const auto y_half = fake(reference::kFakeQuantizeF16, {}, {257}, half, range);
    const auto y_brain = fake(reference::kFakeQuantizeBf16, {}, {257}, brain, range);
    const auto y_wide = fake(reference::kFakeQuantizeF64, {}, {257}, wide, range);
    const tools::Quantizer quantizer = tools::quantizer_of_range({range[0], range[1]});
    const double scale = double(quantizer.scale[0]), zero = double(quantizer.zero[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(y_half[i].bits, Float16(want_half[i]).bits);
      EXPECT_EQ(y_brain[i].bits, Bfloat16(want_brain[i]).bits);
      const double code = std::clamp(std::round(wide[i] / scale) + zero, -128.0, 127.0);
      EXPECT_EQ(y_wide[i], scale * (code - zero));
    }
  }
}

TEST(fake_quantize, nan_stays_and_no_range_changes_nothing) {
  const std::vector<float> x = {kNan, 1.25f, -3e5f, 0.1f};
  const auto y = fake(reference::kFakeQuantizeF32, {}, {4}, x, {-1, 1});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(fake<float>(reference::kFakeQuantizeF32, {}, {3}, {x[1], x[2], x[3]}, {0, 0}), (std::vector<float>{x[1], x[2], x[3]}));
  for (const uint32_t rule : {0u, 1u, 2u, 3u}) {
    EXPECT_TRUE(std::isnan(fake<float>(reference::kFakeQuantizeF32, {rule}, {4}, x)[1])) << rule;
    EXPECT_EQ(fake<float>(reference::kFakeQuantizeF32, {rule, 1, 0}, {2, 2}, {kNan, 1, 0, 0})[3], 0) << rule;
  }
  for (const std::vector<float>& range : {std::vector<float>{kNan, 1}, {0, kInf}, {-kInf, kInf}, {1, kNan}})
    EXPECT_TRUE(std::isnan(fake<float>(reference::kFakeQuantizeF32, {}, {1}, {0.5f}, range)[0])) << range[0] << ' ' << range[1];
}

struct RangeGradients {
  std::vector<double> dx;
  double low = 0, high = 0;
};

// tf.quantization.fake_quant_with_min_max_vars_gradient over the converter's nudged range.
RangeGradients gradients_of(const std::vector<double>& dy, const std::vector<double>& x, const std::vector<float>& range) {
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
    if (!(std::abs(range[0]) < 1e4f && std::abs(range[1]) < 1e4f)) continue;  // of float16 too
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
    // 300 terms of at most 1 in the accumulator: each addition errs by less than 300 epsilon. The sum itself is float32: two
    // roundings of at most 305.
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

// Both ends belong to the inside; the next numbers do not.
TEST(fake_quantize_gradient, at_the_ends) {
  std::vector<float> range = {-1, 2};
  const NudgedRange nudged = NudgedRange::from(range.data());
  std::vector<float> x = {nudged.low, nudged.high, std::nextafter(nudged.low, -kInf), std::nextafter(nudged.high, kInf)};
  std::vector<float> dy = {1, 2, 4, 8}, dx(4), sum = {0, 0};
  StepOperands first, second;
  first.add({4}, dy).add({4}, x).add({2}, range).absent().add({4}, dx);
  second.add({4}, dy).add({4}, x).add({2}, range).add({2}, sum);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, first), Code::kOk);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientRangeF32, {}, second), Code::kOk);
  EXPECT_EQ(dx, (std::vector<float>{1, 2, 0, 0}));
  EXPECT_EQ(sum, (std::vector<float>{4, 8}));
}

// Where no range cuts, moving the ends moves y by what their gradients say: y(x beyond the end) = the end.
TEST(fake_quantize_gradient, of_the_range_is_the_slope_of_the_ends) {
  const std::vector<double> x = {5, 6, -7};
  std::vector<float> range = {-1, 1}, wider = {-1.5f, 2};
  const auto y = fake(reference::kFakeQuantizeF64, {}, {3}, x, range), moved = fake(reference::kFakeQuantizeF64, {}, {3}, x, wider);
  std::vector<double> dy = {1, 1, 1}, copy = x;
  std::vector<float> sum = {0, 0};
  StepOperands operands;
  operands.add({3}, dy).add({3}, copy).add({2}, range).add({2}, sum);
  ASSERT_EQ(run_step(reference::kFakeQuantizeGradientRangeF64, {}, operands), Code::kOk);
  double change = 0;
  for (size_t i = 0; i < x.size(); ++i) change += moved[i] - y[i];
  // The ends are nudged by at most half a step on each side: 4 of them, 3.5 / 255 / 2 each.
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
Coded<T> with_step(const KernelEntry& entry, const KernelEntry& gradient, std::vector<uint32_t> words, std::vector<int32_t> dims,
                   std::vector<T> x, std::vector<T> dy, std::vector<float> step, std::vector<int32_t> step_dims) {
  Coded<T> made = {std::vector<T>(x.size()), std::vector<T>(x.size()), Code::kOk, Code::kOk};
  StepOperands forward, backward;
  forward.add(dims, x).absent().add(step_dims, step).add(dims, made.y);
  backward.add(dims, dy).add(dims, x).absent().add(step_dims, step).add(dims, made.dx);
  made.forward = run_step(entry, words, forward);
  made.backward = run_step(gradient, {words.begin() + 1, words.end()}, backward);
  return made;
}

// Every code, the middles between them, their neighbours, what saturates; each axis and none; against float64.
template <class T>
void check_codes(const KernelEntry& entry, const KernelEntry& gradient) {
  Random random(19);
  const std::vector<int32_t> dims = {3, 7, 5, 11};
  for (const uint32_t rule : {4u, 5u})
    for (int axis = -1; axis < 4; ++axis) {
      std::vector<T> x(3 * 7 * 5 * 11), dy;
      const double edge = rule == 4 ? 127 : 2147483648.0;
      for (T& v : x) {
        const double near = random() % 3 == 0 ? (random() % 2 == 0 ? -edge : edge) : std::floor(uniform(random, -130, 130));
        v = T(near + double(random() % 5) / 4 - 0.5);
        dy.push_back(T(uniform(random, -1, 1)));
      }
      x[0] = T(kNan), x[1] = T(kInf), x[2] = T(-kInf), x[3] = T(1e30f);
      std::vector<float> step;
      for (int32_t c = 0; c < (axis < 0 ? 1 : dims[size_t(axis)]); ++c) step.push_back(float(std::exp(uniform(random, -9, 0))));
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

// The rule itself: dL/dx by the chain rule is step dL/dy; scaled by step^-2 it moves step x by what moves the real number, whatever the step.
TEST(fake_quantize_gradient, of_a_step_moves_the_real_number_as_sgd_does) {
  const std::vector<double> x = {3, -8, 100}, dy = {0.5, -0.25, 2};
  const float rate = 0.125f;
  for (const float step : {0.5f, 0.0078125f, 1e-3f}) {
    const Coded<double> got = with_step<double>(reference::kFakeQuantizeF64, reference::kFakeQuantizeGradientXF64, {4, 0, 0}, {3}, x, dy, {step}, {1});
    for (size_t i = 0; i < x.size(); ++i) {
      const double chain = double(step) * dy[i], moved = double(step) * (x[i] - double(rate) * got.dx[i]) - double(step) * x[i];
      EXPECT_NEAR(got.dx[i], chain / (double(step) * double(step)), 1e-12 * std::abs(got.dx[i]));
      EXPECT_NEAR(moved, -double(rate) * dy[i], 1e-12);
    }
  }
}

TEST(fake_quantize, refuses_steps_of_another_shape) {
  const auto code = [](std::vector<uint32_t> words, int32_t steps) {
    const Coded<float> got = with_step<float>(reference::kFakeQuantizeF32, reference::kFakeQuantizeGradientXF32, words, {2, 3},
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

template <class T>
std::vector<float> observe(const KernelEntry& entry, std::vector<std::vector<float>> batches) {
  std::vector<float> sum = {0, 0}, count = {0};
  for (const std::vector<float>& batch : batches) {
    std::vector<T> x;
    for (const float v : batch) x.push_back(T(v));
    StepOperands operands;
    operands.add({int32_t(x.size())}, x).add({2}, sum).add({1}, count);
    EXPECT_EQ(run_step(entry, {}, operands), Code::kOk);
  }
  return {sum[0], sum[1], count[0]};
}

TEST(observe_range, adds_the_ends_of_each_batch) {
  const std::vector<std::vector<float>> batches = {{1, -2, 0.5f}, {4}, {-1, -8, -0.25f, -3}};
  const std::vector<float> want = {-2 + 4 - 8, 1 + 4 - 0.25f, 3};
  EXPECT_EQ(observe<float>(reference::kObserveRangeF32, batches), want);
  EXPECT_EQ(observe<double>(reference::kObserveRangeF64, batches), want);
  EXPECT_EQ(observe<Float16>(reference::kObserveRangeF16, batches), want);
  EXPECT_EQ(observe<Bfloat16>(reference::kObserveRangeBf16, batches), want);
  for (const std::vector<float>& x : {std::vector<float>{kNan, 1, 2}, {1, kNan, 2}, {1, 2, kNan}}) {
    const std::vector<float> sum = observe<float>(reference::kObserveRangeF32, {x, {1}});
    EXPECT_TRUE(std::isnan(sum[0]) && std::isnan(sum[1]));
  }
}

TEST(fake_quantize, refuses_what_it_cannot_do) {
  std::vector<float> x(6), y(6), range(2), three(3);
  const auto code = [&](std::vector<uint32_t> words, std::vector<float>* with, std::vector<int32_t> range_dims) {
    StepOperands operands;
    operands.add({2, 3}, x);
    with == nullptr ? operands.absent() : operands.add(range_dims, *with);
    operands.absent().add({2, 3}, y);
    return run_step(reference::kFakeQuantizeF32, words, operands);
  };
  EXPECT_EQ(code({4}, nullptr, {}), Code::kAttribute);  // codes without a step
  EXPECT_EQ(code({6}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0xFFFFFFFF}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0, 2, 0}, nullptr, {}), Code::kAttribute);
  EXPECT_EQ(code({0, 1, 2}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 1, 0x80000000}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 0, 1}, nullptr, {}), Code::kAttributeAxis);
  EXPECT_EQ(code({1}, &range, {2}), Code::kAttribute);
  EXPECT_EQ(code({0, 1, 0}, &range, {2}), Code::kAttribute);
  EXPECT_EQ(code({}, &range, {1, 2}), Code::kShapeScale);
  EXPECT_EQ(code({}, &three, {3}), Code::kShapeScale);
  EXPECT_EQ(code({}, &range, {2}), Code::kOk);
  StepOperands other, sum;
  other.add({2, 3}, x).add({3, 2}, x).absent().absent().add({2, 3}, y);
  EXPECT_EQ(run_step(reference::kFakeQuantizeGradientXF32, {}, other), Code::kShapeInput);
  sum.add({6}, x).add({6}, x).add({2}, range).add({3}, three);
  EXPECT_EQ(run_step(reference::kFakeQuantizeGradientRangeF32, {}, sum), Code::kShapeScale);
  StepOperands observed;
  observed.add({6}, x).add({2}, range).add({3}, three);
  EXPECT_EQ(run_step(reference::kObserveRangeF32, {}, observed), Code::kShapeScale);
}

}  // namespace
}  // namespace nacre::tests
