// Tests fake_float8 against the float8 kernels of quantize and dequantize and the golden tables.
#include "engine/ops/fake_float8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "tests/golden_tables.h"
#include "tests/ops/run_step.h"
#include "tests/project_path.h"
#include "tests/short_names.h"
#include "tools/base/json.h"

namespace nacre::test {
namespace {

using json = nacre::tools::Json;
uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
bool same_bits(float a, float b) { return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b)); }

template <class T>
std::vector<T> fake_float8(const KernelEntry& entry, std::vector<uint32_t> words, std::vector<T> x, float scale,
                           uint32_t* amax) {
  std::vector<T> y(x.size());
  std::vector<float> scales = {scale};
  std::vector<uint32_t> amaxes = {*amax};
  const std::vector<int32_t> dims = {int32_t(x.size())};
  StepOperands operands;
  operands.add(dims, x).add({1}, scales).add({1}, amaxes).add(dims, y);
  EXPECT_EQ(run_step(entry, words, operands), Code::kOk);
  *amax = amaxes[0];
  return y;
}

// Returns all E4M3 and E5M2 numbers, numbers 1/16 and 1/8 above each, the ends of float32, and 3,000 random numbers.
std::vector<float> float8_points() {
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, kNan, 3.4e38f, -3.4e38f, 1e-45f};
  for (uint32_t code = 0; code < 256; ++code)
    for (const float v : {float(Float8E4M3::of_bits(uint8_t(code))), float(Float8E5M2::of_bits(uint8_t(code)))})
      for (const float w : {v, v * 1.0625f, v * 1.125f, std::nextafter(v * 1.0625f, kInf)}) x.push_back(w);
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) x.push_back(std::bit_cast<float>(uint32_t(random())));
  return x;
}

template <class Q>
void check_against_kernels(const KernelEntry& quantize, const KernelEntry& dequantize, uint32_t format) {
  std::vector<float> x = float8_points();
  const std::vector<int32_t> dims = {int32_t(x.size())};
  for (const float scale : {1.0f, 0.017857142857142856f, 448.0f, 1e-3f, 3.7e5f, 1.1754944e-38f, 3.4028235e38f})
    for (const uint32_t form : {0u, 1u}) {
      std::vector<float> scales = {scale}, want(x.size());
      std::vector<Q> q(x.size());
      StepOperands there, back;
      there.add(dims, x).add({1}, scales).add(dims, q);
      back.add(dims, q).add({1}, scales).add(dims, want);
      ASSERT_EQ(run_step(quantize, {0, form}, there), Code::kOk);
      ASSERT_EQ(run_step(dequantize, {0, form}, back), Code::kOk);
      uint32_t amax = 0;
      const std::vector<float> y = fake_float8(reference::kFakeFloat8F32, {format, form}, x, scale, &amax);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_TRUE(same_bits(y[i], want[i])) << x[i] << ' ' << scale << ' ' << form;
    }
}

TEST(fake_float8, is_dequantize_of_quantize_to_the_bit) {
  check_against_kernels<Float8E4M3>(reference::kQuantizeE4M3, reference::kDequantizeE4M3, 0);
  check_against_kernels<Float8E5M2>(reference::kQuantizeE5M2, reference::kDequantizeE5M2, 1);
}

// amax keeps the largest magnitude's bits over several steps. Infinity counts above every number, NaN above infinity.
TEST(fake_float8, amax_is_the_largest_magnitude_so_far) {
  uint32_t amax = 0;
  fake_float8<float>(reference::kFakeFloat8F32, {}, {1, -3, 2}, 1, &amax);
  EXPECT_EQ(amax, bits(3));
  fake_float8<float>(reference::kFakeFloat8F32, {}, {0.5f}, 1, &amax);
  EXPECT_EQ(amax, bits(3));
  fake_float8<Bfloat16>(reference::kFakeFloat8Bf16, {}, {Bfloat16(-700.0f)}, 1, &amax);
  EXPECT_EQ(amax, bits(float(Bfloat16(700.0f))));
  fake_float8<double>(reference::kFakeFloat8F64, {}, {1e300}, 1, &amax);
  EXPECT_EQ(amax, bits(kInf));
  fake_float8<Float16>(reference::kFakeFloat8F16, {}, {Float16(kNan), Float16(2.0f)}, 1, &amax);
  EXPECT_TRUE(is_nan(amax_value(amax)));
}

template <class T>
void check_narrow(const KernelEntry& entry) {
  std::vector<T> x;
  std::vector<float> wide;
  for (const float v : float8_points()) {
    x.push_back(T(v));
    wide.push_back(float(x.back()));
  }
  for (const uint32_t format : {0u, 1u})
    for (const uint32_t form : {0u, 1u}) {
      uint32_t amax = 0, of_wide = 0;
      const std::vector<T> y = fake_float8(entry, {format, form}, x, 0.37f, &amax);
      const std::vector<float> want = fake_float8(reference::kFakeFloat8F32, {format, form}, wide, 0.37f, &of_wide);
      EXPECT_EQ(amax, of_wide);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same_bits(float(y[i]), float(T(want[i])))) << wide[i];
    }
}

TEST(fake_float8, of_16_bits_is_float32_rounded_once) {
  check_narrow<Float16>(reference::kFakeFloat8F16);
  check_narrow<Bfloat16>(reference::kFakeFloat8Bf16);
}

// Searches all codes in float64 for the nearest E4M3 number, ties to the even code.
TEST(fake_float8, of_float64_rounds_once) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(-500, 500);
  std::vector<double> x = {1.0625 + 0x1p-40, 1.0625 - 0x1p-40, 1.0625, 1.1875, 447.9999999999, -1.0625 - 0x1p-50};
  for (int i = 0; i < 500; ++i) x.push_back(uniform(random));
  uint32_t amax = 0;
  const std::vector<double> y = fake_float8(reference::kFakeFloat8F64, {}, x, 1, &amax);
  for (size_t i = 0; i < x.size(); ++i) {
    uint32_t best = 0;
    for (uint32_t code = 1; code <= Float8E4M3::kMax; ++code) {
      const auto distance = [&](uint32_t c) {
        return std::abs(std::abs(x[i]) - double(Float8E4M3::of_bits(uint8_t(c))));
      };
      if (distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0)) best = code;
    }
    ASSERT_EQ(std::abs(y[i]), double(Float8E4M3::of_bits(uint8_t(best)))) << x[i];
  }
}

// Compares row by row with the codes and scales that dynamic_quantize makes in an exported layer.
TEST(fake_float8, current_is_dynamic_quantize_of_each_row) {
  std::vector<float> x = float8_points();
  x.resize(4000);
  for (float& v : x)
    if (!is_finite(v) || std::abs(v) > 1e30f) v = 1;
  for (const uint32_t axis : {0u, 1u, 2u}) {
    const auto rows = int32_t(axis == 0 ? 1 : axis == 1 ? 20 : 400);
    std::vector<Float8E4M3> q(x.size());
    std::vector<float> scale(static_cast<size_t>(rows)), y(x.size());
    StepOperands dynamic, current;
    dynamic.add({20, 20, 10}, x)
        .add({20, 20, 10}, q)
        .add(axis == 2 ? std::vector<int32_t>{20, 20} : std::vector<int32_t>{rows}, scale);
    ASSERT_EQ(run_step(reference::kDynamicQuantizeE4M3, {axis}, dynamic), Code::kOk);
    current.add({20, 20, 10}, x).absent().absent().add({20, 20, 10}, y);
    ASSERT_EQ(run_step(reference::kFakeFloat8CurrentF32, {0, 0, 1, axis}, current), Code::kOk);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same_bits(y[i], float(q[i]) * scale[i / (x.size() / size_t(rows))])) << x[i];
  }
}

TEST(fake_float8, without_an_amax_gives_the_same_numbers) {
  std::vector<float> x = float8_points(), y(x.size()), scale = {0.37f};
  const std::vector<int32_t> dims = {int32_t(x.size())};
  for (const uint32_t form : {0u, 1u}) {
    uint32_t amax = 0;
    const std::vector<float> want = fake_float8(reference::kFakeFloat8F32, {1, form}, x, 0.37f, &amax);
    StepOperands operands;
    operands.add(dims, x).add({1}, scale).absent().add(dims, y);
    ASSERT_EQ(run_step(reference::kFakeFloat8FixedF32, {1, form}, operands), Code::kOk);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same_bits(y[i], want[i])) << x[i];
  }
}

TEST(fake_float8_gradient, gives_x_and_touches_nothing_else) {
  uint32_t amax = 7;
  const std::vector<float> x = {1.3f, -2000, 1e-9f};
  EXPECT_EQ(fake_float8(reference::kFakeFloat8GradientF32, {1, 1}, x, 0.3f, &amax), x);
  EXPECT_EQ(amax, 7u);
}

// Tests the gradients that differentiate uses: fake_float8 passes dy unchanged, and the gradient of
// fake_float8_gradient is fake_float8 with the same attributes.
TEST(fake_float8, gradient_rows) {
  ASSERT_EQ(kFakeFloat8Rule.gradients.size(), 1u);
  EXPECT_EQ(kFakeFloat8Rule.gradients[0].by, Op::kNone);
  ASSERT_EQ(kFakeFloat8GradientRule.gradients.size(), 1u);
  EXPECT_EQ(kFakeFloat8GradientRule.gradients[0].by, Op::kFakeFloat8);
  EXPECT_EQ(kFakeFloat8GradientRule.gradients[0].words, nullptr);  // the same attributes
  EXPECT_EQ(kFakeFloat8GradientRule.gradients[0].reads.size(), 3u);
}

// In form 2 the scale, the quotient and the product are each rounded to the type of x.
template <class T>
void check_each_rounded(const KernelEntry& entry) {
  std::vector<T> x;
  for (const float v : float8_points()) x.push_back(T(v));
  int others = 0;
  for (const float scale : {1.0f, 0.017857142857142856f, 1e-3f, 3.7e2f}) {
    uint32_t amax = 0;
    const std::vector<T> y = fake_float8(entry, {0, 2}, x, scale, &amax),
                         once = fake_float8(entry, {0, 0}, x, scale, &amax);
    const auto s = float(T(scale));
    for (size_t i = 0; i < x.size(); ++i) {
      const auto q = float(Float8E4M3::saturated(float(T(float(x[i]) / s))));
      ASSERT_TRUE(same_bits(float(y[i]), float(T(q * s)))) << float(x[i]) << ' ' << scale;
      others += same_bits(float(y[i]), float(once[i])) ? 0 : 1;
    }
  }
  EXPECT_GT(others, 100);
}

TEST(fake_float8, rounds_each_operation_to_the_type_of_x) {
  check_each_rounded<Bfloat16>(reference::kFakeFloat8Bf16);
  check_each_rounded<Float16>(reference::kFakeFloat8F16);
  uint32_t amax = 0;
  const std::vector<float> x = float8_points();
  const std::vector<float> each = fake_float8(reference::kFakeFloat8F32, {0, 2}, x, 0.3f, &amax),
                           step = fake_float8(reference::kFakeFloat8F32, {0, 0}, x, 0.3f, &amax);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(same_bits(each[i], step[i])) << x[i];
}

TEST(fake_float8, refuses_what_it_cannot_do) {
  std::vector<float> x(6), y(6), scale(1), two(2);
  std::vector<uint32_t> amax(1);
  const auto code = [&](std::vector<uint32_t> words, bool scaled, std::vector<float>& scales) {
    StepOperands operands;
    operands.add({2, 3}, x);
    if (scaled) operands.add({int32_t(scales.size())}, scales).add({1}, amax);
    else operands.absent().absent();
    operands.add({2, 3}, y);
    return run_step(scaled ? reference::kFakeFloat8F32 : reference::kFakeFloat8CurrentF32, words, operands);
  };
  EXPECT_EQ(code({2}, true, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 3}, true, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 2, 1}, false, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 0, 2}, true, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 0, 1}, true, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 1, 1}, false, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 0, 0}, false, scale), Code::kAttribute);
  EXPECT_EQ(code({0, 0, 0, 1}, true, scale), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 0, 1, 3}, false, scale), Code::kAttributeAxis);
  EXPECT_EQ(code({0, 0, 1, 0x80000000}, false, scale), Code::kAttributeAxis);
  EXPECT_EQ(code({}, true, two), Code::kShapeScale);
  EXPECT_EQ(code({1, 1}, true, scale), Code::kOk);
  EXPECT_EQ(code({1, 0, 1, 2}, false, scale), Code::kOk);
}

TEST(fake_float8, gives_the_golden_numbers) {
  std::ifstream file(tools::shared_path("golden/policies.json"));
  if (!file) GTEST_SKIP() << "no golden tables at " << tools::shared_path("golden");
  const json golden = json::parse(file);
  size_t rows = 0;
  for (const json& row : golden.at("keras_fp8_qdq")) {
    const uint32_t format = row["fmt"] == "float8_e5m2" ? 1 : 0;
    uint32_t amax = 0;
    const auto y =
        fake_float8<float>(reference::kFakeFloat8F32, {format}, {number(row["x"])}, number(row["scale"]), &amax);
    EXPECT_TRUE(same_bits(y[0], number(row["qdq"]))) << row.dump();
    ++rows;
  }
  for (const json& row : golden.at("fp8_encode"))
    for (const uint32_t format : {0u, 1u}) {
      const auto x = std::bit_cast<float>(uint32_t(std::stoul(row["f32"].get<std::string>(), nullptr, 16)));
      const auto code =
          uint8_t(std::stoul(row[format == 0 ? "e4m3fn_sat" : "e5m2_sat"].get<std::string>(), nullptr, 16));
      if (std::isinf(x)) continue;  // ml_dtypes keeps infinity; fake_float8 clips first, as Keras does
      uint32_t amax = 0;
      const auto y = fake_float8<float>(reference::kFakeFloat8F32, {format}, {x}, 1, &amax);
      EXPECT_TRUE(same_bits(y[0], format == 0 ? float(Float8E4M3::of_bits(code)) : float(Float8E5M2::of_bits(code))))
          << row.dump();
      ++rows;
    }
  EXPECT_GT(rows, 20u);
}

}  // namespace
}  // namespace nacre::test
