// Tests requantization against the golden tables (golden/policies.json), mostly through linked kernels.
//
// An int8 kernel shows results only as codes. So an accumulator enters as the bias of an output whose weights are 0,
// and results outside [-128, 127] saturate. Every accumulator that the tables list as a divergence gives a code. The
// tables' counts over [-20000, 20000] are checked with the oracle, and kernels and oracle agree on all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "engine/kernels/reference.h"
#include "engine/numeric/fixed_point.h"
#include "tests/golden_tables.h"
#include "tests/one_step.h"
#include "tests/oracle_fixed_point.h"
#include "tools/base/json.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

using json = nacre::tools::Json;

struct Kernels {
  const KernelEntry *dense, *conv2d, *depthwise;
};
constexpr Kernels kDouble = {&reference::kDenseI8Double, &reference::kConv2dI8Double,
                             &reference::kDepthwiseConv2dI8Double};
constexpr Kernels kSingle = {&reference::kDenseI8Single, &reference::kConv2dI8Single,
                             &reference::kDepthwiseConv2dI8Single};
constexpr Kernels kFloatEven = {&reference::kDenseI8FloatEven, &reference::kConv2dI8FloatEven,
                                &reference::kDepthwiseConv2dI8FloatEven};

// Returns the codes of dense, conv2d and depthwise_conv2d for these accumulators. The three must agree.
std::vector<int> codes(const Kernels& kernels, const std::vector<int32_t>& accumulators, const Array& scale) {
  const auto n = int32_t(accumulators.size());
  const Array bias = array_of(ElementType::kInt32, {n}, accumulators);
  const auto zeros = [](std::vector<int32_t> dims) { return make_array(ElementType::kInt8, std::move(dims)); };
  const Execution dense = execute(*kernels.dense, {}, {zeros({1, 1}), zeros({n, 1}), bias, scale});
  const Execution conv = execute(*kernels.conv2d, {}, {zeros({1, 1, 1, 1}), zeros({n, 1, 1, 1}), bias, scale});
  const Execution depthwise = execute(*kernels.depthwise, {}, {zeros({1, 1, 1, 1}), zeros({1, 1, n}), bias, scale});
  EXPECT_EQ(dense.code, Code::kOk);
  EXPECT_EQ(dense.outputs.at(0).bytes, conv.outputs.at(0).bytes);
  EXPECT_EQ(dense.outputs.at(0).bytes, depthwise.outputs.at(0).bytes);
  std::vector<int> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(int(dense.outputs[0].integer(i)));
  return result;
}

Array pair(int32_t multiplier, int32_t shift) {
  return array_of<int32_t>(ElementType::kInt32, {1, 2}, {multiplier, shift});
}

int code(const Kernels& kernels, int32_t accumulator, int32_t multiplier, int32_t shift) {
  return codes(kernels, {accumulator}, pair(multiplier, shift))[0];
}

int saturated(int64_t v) { return int(std::clamp<int64_t>(v, -128, 127)); }

TEST(requantization, golden_rows_hold_in_both_roundings) {
  GOLDEN_OR_SKIP(rows, "mbqm");
  ASSERT_EQ(rows.size(), 20u);
  int in_range = 0;
  for (const json& row : rows) {
    const int32_t x = row["x"], m = row["m"], shift = row["shift"];
    const int64_t twice = row["double_rounding"], once = row["single_rounding"];
    EXPECT_EQ(code(kDouble, x, m, shift), saturated(twice)) << row;
    EXPECT_EQ(code(kSingle, x, m, shift), saturated(once)) << row;
    EXPECT_EQ(multiply<Rounding::kDouble>(x, {m, shift}), twice) << row;  // beyond the range of codes too
    EXPECT_EQ(multiply<Rounding::kSingle>(x, {m, shift}), once) << row;
    in_range += twice == saturated(twice);
  }
  EXPECT_GE(in_range, 12);
}

TEST(requantization, roundings_differ_where_the_golden_table_says) {
  GOLDEN_OR_SKIP(rows, "mbqm_divergence_in_[-20000,20000]");
  ASSERT_EQ(rows.size(), 8u);
  std::vector<int32_t> all(40001);
  std::iota(all.begin(), all.end(), -20000);
  for (const json& row : rows) {
    const int32_t m = row["q"], shift = row["shift"];
    const std::vector<int> twice = codes(kDouble, all, pair(m, shift)), once = codes(kSingle, all, pair(m, shift));
    std::vector<int> differ;
    for (size_t i = 0; i < all.size(); ++i) {
      const int64_t exact_twice = exact_multiply(Rounding::kDouble, all[i], m, shift);
      const int64_t exact_once = exact_multiply(Rounding::kSingle, all[i], m, shift);
      ASSERT_EQ(twice[i], saturated(exact_twice)) << row << " accumulator " << all[i];
      ASSERT_EQ(once[i], saturated(exact_once)) << row << " accumulator " << all[i];
      if (exact_twice != exact_once) differ.push_back(all[i]);
    }
    EXPECT_EQ(int(differ.size()), int(row["count"])) << row;
    for (const char* list : {"first_positive", "last_negative"})
      for (const int x : row[list]) {
        EXPECT_TRUE(std::binary_search(differ.begin(), differ.end(), x)) << row;
        EXPECT_NE(twice[size_t(x + 20000)], once[size_t(x + 20000)]) << row << " accumulator " << x;
      }
  }
}

TEST(requantization, float_rounds_585_to_6_and_fixed_point_to_7) {
  GOLDEN_OR_SKIP(row, "float_requant_585");
  const auto bits = uint32_t(std::stoul(row["f32_scale"].get<std::string>(), nullptr, 16));
  const Array scale = array_of<float>(ElementType::kFloat32, {1}, {std::bit_cast<float>(bits)});
  EXPECT_EQ(codes(kFloatEven, {585}, scale)[0], int(row["rne"]));
  EXPECT_EQ(code(kDouble, 585, 1527099593, -6), 7);
  EXPECT_EQ(code(kSingle, 585, 1527099593, -6), 7);
}

TEST(quantize_multiplier, golden_pairs) {
  GOLDEN_OR_SKIP(rows, "quantize_multiplier");
  ASSERT_EQ(rows.size(), 18u);
  for (const json& row : rows) {
    const FixedPoint made = tools::quantize_multiplier(row["real"].get<double>());
    EXPECT_EQ(made.multiplier, int32_t(row["q"])) << row;
    EXPECT_EQ(made.shift, int32_t(row["shift"])) << row;
  }
}

// The pair of -x is that of x with the other sign, where |m| rounds up to 2^31 and where it saturates too.
TEST(quantize_multiplier, is_odd_and_saturates_by_sign) {
  const struct {
    double real;
    int32_t multiplier, shift;
  } rows[] = {{0.75, 3 << 29, 0},      {1 - 0x1p-33, 1 << 30, 1}, {0x1p30 - 1, INT32_MAX - 1, 30},
              {0x1p30, INT32_MAX, 30}, {1e300, INT32_MAX, 30},    {0x1p30 - 0x1p-3, INT32_MAX, 30},
              {0x1p-32, 1 << 30, -31}, {0x1p-32 * 0.75, 0, 0},    {0, 0, 0}};
  for (const auto& row : rows)
    for (const int sign : {1, -1}) {
      const FixedPoint made = tools::quantize_multiplier(sign * row.real);
      EXPECT_EQ(made.multiplier, sign * row.multiplier) << sign * row.real;
      EXPECT_EQ(made.shift, row.shift) << sign * row.real;
    }
}

TEST(clamp, golden_ranges_of_activations) {
  GOLDEN_OR_SKIP(rows, "act_range");
  ASSERT_EQ(rows.size(), 7u);
  const std::map<std::string, std::pair<float, float>> bounds = {{"none", {-INFINITY, INFINITY}},
                                                                 {"relu", {0.0f, INFINITY}},
                                                                 {"relu6", {0.0f, 6.0f}},
                                                                 {"relu_n1_1", {-1.0f, 1.0f}}};
  std::vector<int8_t> every(256);
  std::iota(every.begin(), every.end(), int8_t{-128});
  for (const json& row : rows) {
    const auto [low, high] = bounds.at(row["act"]);
    const tools::Codes y = {row["scale"], row["zp"]};
    const auto clamp_low = uint32_t(tools::bound_code(low, y)), clamp_high = uint32_t(tools::bound_code(high, y));
    const Execution run =
        execute(reference::kClampI8Double, {1, clamp_low, clamp_high, uint32_t(y.zero), uint32_t(y.zero)},
                {array_of(ElementType::kInt8, {256}, every), Array()});
    ASSERT_EQ(run.code, Code::kOk) << row;
    for (int64_t i = 0; i < 256; ++i)
      EXPECT_EQ(run.outputs[0].integer(i), std::clamp<int64_t>(i - 128, row["range"][0], row["range"][1])) << row;
  }
}

TEST(quantize, golden_codes_half_away_from_zero) {
  GOLDEN_OR_SKIP(rows, "affine_quantize_int8");
  ASSERT_EQ(rows.size(), 11u);
  for (const json& row : rows) {
    const Execution run = execute(reference::kQuantizeI8HalfAway, {0},
                                  {array_of<float>(ElementType::kFloat32, {1}, {row["x"]}),
                                   array_of<float>(ElementType::kFloat32, {1}, {row["scale"]}),
                                   array_of<int32_t>(ElementType::kInt32, {1}, {row["zp"]})});
    ASSERT_EQ(run.code, Code::kOk);
    EXPECT_EQ(run.outputs[0].integer(0), int(row["q"])) << row;
  }
}

TEST(dense, golden_int8_layers) {
  GOLDEN_OR_SKIP(rows, "tflite_fc_int8");
  ASSERT_EQ(rows.size(), 2u);
  for (const json& row : rows) {
    std::vector<int8_t> w;
    for (const json& line : row["Wq"])
      for (const int v : line) w.push_back(int8_t(v));
    std::vector<int32_t> pairs;
    for (size_t k = 0; k < 3; ++k) {
      const double real = row["x_scale"].get<double>() * row["w_scale"][k].get<double>() / row["y_scale"].get<double>();
      pairs.insert(pairs.end(), {row["multiplier_shift"][k][0], row["multiplier_shift"][k][1]});
      // The table's scales are decimals, but the pair is made of their float32 values: 2^-23 apart.
      EXPECT_NEAR(std::ldexp(double(pairs[2 * k]), pairs[2 * k + 1] - 31), real, 4 * 0x1p-23 * real) << row;
    }
    const int y_zero = row["y_zp"];
    const bool relu = row["act"] == "relu";
    const std::vector<uint32_t> words = {relu, uint32_t(y_zero), 127, uint32_t(int(row["x_zp"])), uint32_t(y_zero)};
    const std::vector<Array> inputs = {array_of(ElementType::kInt8, {1, 4}, row["xq"].get<std::vector<int>>()),
                                       array_of(ElementType::kInt8, {3, 4}, w),
                                       array_of(ElementType::kInt32, {3}, row["bq"].get<std::vector<int>>()),
                                       array_of(ElementType::kInt32, {3, 2}, pairs)};
    const Execution twice = execute(reference::kDenseI8Double, words, inputs),
                    once = execute(reference::kDenseI8Single, words, inputs);
    ASSERT_EQ(twice.code, Code::kOk);
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(twice.outputs[0].integer(k), int(row["y_double"][size_t(k)])) << row;
      EXPECT_EQ(once.outputs[0].integer(k), int(row["y_single"][size_t(k)])) << row;
    }
  }
}

// Model files are not trusted, so every multiplier and shift must give a result. Under UBSan this also shows that none
// of these extreme pairs is undefined behaviour.
TEST(requantization, every_pair_is_defined) {
  constexpr int32_t kEdges[] = {INT32_MIN, INT32_MIN + 1, -65,      -33, -32, -31, -1, 0, 1, 30, 31, 32, 33,
                                64,        INT32_MAX - 1, INT32_MAX};
  for (const int32_t x : kEdges)
    for (const int32_t m : kEdges)
      for (const int32_t shift : kEdges) {
        code(kDouble, x, m, shift);
        code(kSingle, x, m, shift);
      }
  for (const float scale : {NAN, INFINITY, -INFINITY, 3e38f, 0.0f, 1e-45f})
    codes(kFloatEven, {INT32_MIN, -1, 0, 1, INT32_MAX}, array_of<float>(ElementType::kFloat32, {1}, {scale}));
}

}  // namespace
}  // namespace nacre::test
