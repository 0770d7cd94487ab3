// Tests element types other than float32 and integer int8: hand cases, golden tables, and that fusing changes no bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/golden_tables.h"
#include "tests/oracle_rounding.h"
#include "tests/short_names.h"
#include "tools/base/json.h"

namespace nacre::test {
namespace {

using json = nacre::tools::Json;

std::vector<float> numbers(const json& values) {
  std::vector<float> v;
  for (const json& value : values) v.push_back(number(value));
  return v;
}

uint32_t bits_of(const Array& array, int64_t i) { return std::bit_cast<uint32_t>(float(array.real(i))); }

// Runs a step that must be accepted, and returns its outputs.
std::vector<Array> run(const KernelEntry& entry, const std::vector<uint32_t>& words, const std::vector<Array>& inputs) {
  const Execution execution = execute(entry, words, inputs);
  EXPECT_EQ(execution.code, Code::kOk);
  return execution.outputs;
}

// Returns the values as an array of the element type.
Array array_in(ElementType element, std::vector<int32_t> dims, const std::vector<float>& values) {
  return array_of(element, std::move(dims), values);
}

TEST(dynamic_quantize, abs_max_gives_the_golden_codes_and_scales) {
  GOLDEN_OR_SKIP(rows, "int8_absmax");
  for (const json& row : rows) {
    const std::vector<float> x = numbers(row["x"]);
    const auto y = run(reference::kDynamicQuantizeAbsMaxF32, {1}, {array_in(kF32, {1, int32_t(x.size())}, x)});
    EXPECT_EQ(bits_of(y[1], 0), uint32_t(std::stoul(row["scale_f32"].get<std::string>(), nullptr, 16))) << row.dump();
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[0].integer(int64_t(i)), row["q"][i].get<int>()) << row.dump();
  }
}

TEST(dense, keras_int8_gives_the_golden_bits) {
  GOLDEN_OR_SKIP(table, "keras_dense_int8");
  std::vector<float> x, w, b = numbers(table["b"]), scale = numbers(table["kernel_scale"]);
  for (const json& row : table["X"])
    for (const json& v : row) x.push_back(number(v));
  for (size_t k = 0; k < b.size(); ++k)  // Keras keeps [in, out]
    for (const json& row : table["Wq"]) w.push_back(number(row[k]));
  const auto rows = int32_t(table["X"].size()), in = int32_t(table["Wq"].size()), out = int32_t(b.size());
  const auto q = run(reference::kDynamicQuantizeAbsMaxF32, {1}, {array_in(kF32, {rows, in}, x)});
  const auto y = run(reference::kDenseDynamicF32, {},
                     {q[0], array_in(kI8, {out, in}, w), array_in(kF32, {out}, b), array_in(kF32, {out}, scale), q[1]});
  for (int32_t r = 0; r < rows; ++r) {
    const json& row = table["rows"][size_t(r)];
    EXPECT_EQ(float(q[1].real(r)), row["x_scale"].get<float>());
    for (int32_t i = 0; i < in; ++i) EXPECT_EQ(q[0].integer(r * in + i), row["xq"][size_t(i)].get<int>());
    for (int32_t k = 0; k < out; ++k)
      EXPECT_EQ(bits_of(y[0], r * out + k), std::stoul(row["y_f32"][size_t(k)].get<std::string>(), nullptr, 16))
          << r << ", " << k;
  }
}

// 2088 * 127^2 + 127 * 64 + 25 = 2^25 + 2^17 + 1: float32 drops the 1 and leaves a tie of bfloat16, which goes to 2^25.
TEST(dense, a_sum_becomes_bfloat16_by_way_of_float32) {
  std::vector<int> x(2090, 127), w(2090, 127);
  w[2088] = 64, x[2089] = 25, w[2089] = 1;
  const Array one = array_in(ElementType::kBfloat16, {1}, {1});
  const auto y =
      run(reference::kDenseDynamicBf16, {}, {array_of(kI8, {2090}, x), array_of(kI8, {1, 2090}, w), Array(), one, one});
  EXPECT_EQ(y[0].real(0), 0x1p25);
}

TEST(dynamic_quantize, a_nan_reaches_every_output_of_its_row) {
  const auto q = run(reference::kDynamicQuantizeAbsMaxF32, {1}, {array_in(kF32, {2, 3}, {1, NAN, 2, 1, 0, 2})});
  EXPECT_TRUE(std::isnan(q[1].real(0)));
  EXPECT_EQ(q[0].integer(1), 0);
  const auto y = run(reference::kDenseDynamicF32, {},
                     {q[0], array_in(kI8, {1, 3}, {1, 1, 1}), Array(), array_in(kF32, {1}, {127}), q[1]});
  EXPECT_TRUE(std::isnan(y[0].real(0)));
  EXPECT_EQ(y[0].real(1), double(float(64 + 0 + 127) / (127 * float(q[1].real(1)))));  // 1 * 63.5 is rounded to even
}

TEST(dynamic_quantize, float8_takes_the_golden_current_scales) {
  GOLDEN_OR_SKIP(rows, "te_current_scale");
  int tried = 0;
  for (const json& row : rows) {
    if (row["pow2"].get<bool>() || row["eps"].get<double>() != 0) continue;  // options that no step has
    ++tried;
    const float amax = number(row["amax"]), scale = number(row["scale"]);
    const auto y = run(reference::kDynamicQuantizeE4M3, {1}, {array_in(kF32, {1, 2}, {amax / 2, -amax})});
    EXPECT_EQ(float(y[1].real(0)), 1 / scale) << row.dump();
    if (std::isnan(amax)) EXPECT_TRUE(std::isnan(y[0].real(1)));
    else EXPECT_EQ(y[0].real(1), std::isinf(amax) ? -448 : -round_to(kE4M3, amax * scale, true)) << row.dump();
  }
  EXPECT_GE(tried, 5);
}

TEST(quantize, float8_gives_the_golden_codes) {
  GOLDEN_OR_SKIP(rows, "fp8_encode");
  for (const json& row : rows) {
    const auto word = uint32_t(std::stoul(row["f32"].get<std::string>(), nullptr, 16));
    Array x = make_array(kF32, {1});
    std::memcpy(x.bytes.data(), &word, sizeof word);
    for (const uint32_t form : {0u, 1u})  // by a step of 1 and by a reciprocal of 1
      for (const auto& [entry, name] :
           {std::pair{&reference::kQuantizeE4M3, "e4m3fn_sat"}, {&reference::kQuantizeE5M2, "e5m2_sat"}}) {
        const auto y = run(*entry, {0, form}, {x, array_in(kF32, {1}, {1})});
        EXPECT_EQ(y[0].bytes[0], std::stoul(row[name].get<std::string>(), nullptr, 16)) << row.dump();
      }
  }
}

TEST(dense, float8_is_exact_where_every_number_is) {
  // Products of quarters up to 4 * 4 in sums below 2^7 are exact in float32. In bfloat16 multiples of 2^-4 below 2^4
  // are exact.
  const Array x = array_in(kE4M3, {2, 4}, {1, -2, 0.25, 4, 0.5, 0.5, -1, 3}),
              w = array_in(kE4M3, {2, 4}, {1, 1, 4, -0.5, 2, -0.25, 1, 0});
  const Array b = array_in(kF32, {2}, {0.5, -1}), scale = array_in(kF32, {2}, {2, 4}),
              x_scale = array_in(kF32, {2}, {0.5, 0.25});
  // The sums are 1 - 2 + 1 - 2 = -2, 2 + 0.5 + 0.25 = 2.75; 0.5 + 0.5 - 4 - 1.5 = -4.5, 1 - 0.125 - 1 = -0.125.
  const double expected[] = {-2 * 1 + 0.5, 2.75 * 2 - 1, -4.5 * 0.5 + 0.5, -0.125 * 1 - 1};
  for (const KernelEntry* entry :
       {&reference::kDenseFloat8F32, &reference::kDenseFloat8F16, &reference::kDenseFloat8Bf16}) {
    const auto y = run(*entry, {},
                       {x, w, array_of(entry->operands[2].element, {2}, std::vector<double>{0.5, -1}), scale, x_scale});
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y[0].real(i), expected[i]) << i;
  }
  const auto q = run(reference::kDenseFloat8Quantized, {}, {x, w, b, scale, x_scale, array_in(kF32, {1}, {0.125})});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(q[0].real(i), expected[i] * 8) << i;  // 4 significant bits at most
  const auto one = run(reference::kDenseFloat8F32, {}, {x, w, b, scale, array_in(kF32, {1}, {0.5})});
  EXPECT_EQ(one[0].real(2), -4.5 * 1 + 0.5);
}

TEST(dense, int4_weights_come_low_nibble_first) {
  Array w = make_array(kI4, {1, 3});
  w.bytes = {0x2F, 0x08};  // -1, 2, -8
  const Array x = array_in(kF32, {3}, {1, 10, 100}), one = array_in(kF32, {1}, {1});
  EXPECT_EQ(run(reference::kDenseW4F32, {}, {x, w, Array(), one})[0].real(0), -1 + 20 - 800);
  w = make_array(kI4, {3, 3});  // row 1 begins in the high nibble of byte 1
  w.bytes = {0x21, 0x43, 0x65, 0x07, 0x00};
  const auto y = run(reference::kDenseW4F32, {}, {x, w, Array(), one});
  EXPECT_EQ(y[0].real(0), 321);
  EXPECT_EQ(y[0].real(1), 654);
  EXPECT_EQ(y[0].real(2), 7);
}

TEST(dense, int4_codes_are_those_of_the_golden_packing) {
  GOLDEN_OR_SKIP(rows, "int4_pack");
  for (const json& row : rows) {
    const auto n = int32_t(row["v"].size());
    Array w = make_array(kI4, {n, 1});
    for (size_t i = 0; i < w.bytes.size(); ++i) w.bytes[i] = uint8_t(row["packed_int8"][i].get<int>());
    const auto y = run(reference::kDenseW4F32, {}, {array_in(kF32, {1}, {1}), w, Array(), array_in(kF32, {1}, {1})});
    for (int32_t i = 0; i < n; ++i) EXPECT_EQ(y[0].real(i), row["v"][size_t(i)].get<int>()) << row.dump();
  }
}

TEST(dense, a_reciprocal_scale_divides) {
  const Array x = array_in(kF32, {2}, {1, 2}), w = array_in(kI8, {1, 2}, {3, 5}), s = array_in(kF32, {1}, {7});
  EXPECT_EQ(run(reference::kDenseW8F32, {}, {x, w, Array(), s})[0].real(0), 91);
  EXPECT_EQ(float(run(reference::kDenseW8F32, {0, 0, 0, 0, 0, 1}, {x, w, Array(), s})[0].real(0)), 13.0f / 7);
}

// Each x is a unit vector, so each weight is seen alone.
TEST(dense, grouped_weights_are_the_golden_ones) {
  GOLDEN_OR_SKIP(rows, "keras_int4_grouped");
  for (const json& row : rows) {
    const auto n = int32_t(row["x"].size()), groups = int32_t(row["scale"].size());
    Array x = make_array(kF32, {n, n});
    for (int32_t i = 0; i < n; ++i) x.set(i * n + i, 1);
    const auto y =
        run(reference::kDenseGroupedF32, {0, 0, 0, 0, 0, 0, row["block"].get<uint32_t>()},
            {x, array_in(kI4, {1, n}, numbers(row["q"])), Array(), array_in(kF32, {1, groups}, numbers(row["scale"])),
             array_in(kI8, {1, groups}, numbers(row["zero"]))});
    for (int32_t i = 0; i < n; ++i)
      EXPECT_EQ(float(y[0].real(i)), row["dequant"][size_t(i)].get<float>()) << row.dump();
  }
}

// For a filter [1, 2, 1, 3] of ones, groups of 2 terms follow the order i, j, c, even if padding cuts the window.
TEST(conv2d, groups_follow_the_filter_not_the_window) {
  const Array w = array_in(kI4, {1, 2, 1, 3}, {1, 1, 1, 1, 1, 1}), scale = array_in(kF32, {1, 3}, {1, 10, 100}),
              zero = array_in(kI8, {1, 3}, {0, 0, 0});
  std::vector<uint32_t> words(16);
  words[15] = 2;
  words[4] = 1;  // a row of padding above
  const auto y = run(reference::kConv2dGroupedF32, words,
                     {array_in(kF32, {1, 2, 1, 3}, {1, 2, 3, 4, 5, 6}), w, Array(), scale, zero});
  EXPECT_EQ(y[0].real(0), 10 * 1 + 100 * (2 + 3));  // row 1 of the filter alone
  EXPECT_EQ(y[0].real(1), 1 * (1 + 2) + 10 * (3 + 4) + 100 * (5 + 6));
}

// For pairs of steps that fuse() may merge, the fused step must give the bits of the two steps.
TEST(fused_conversions, give_the_bits_of_the_steps_alone) {
  struct Fusion {
    const KernelEntry *fused, *step, *conversion;
  };
  constexpr Fusion kFusions[] = {
      {&reference::kDenseF16ToF32, &reference::kDenseF16, &reference::kCastF16F32},
      {&reference::kDenseBf16ToF32, &reference::kDenseBf16, &reference::kCastBf16F32},
      {&reference::kDenseF32ToF16, &reference::kDenseF32, &reference::kCastF32F16},
      {&reference::kDenseF32ToBf16, &reference::kDenseF32, &reference::kCastF32Bf16},
      {&reference::kDenseFloat8Quantized, &reference::kDenseFloat8F32, &reference::kQuantizeE4M3},
      {&reference::kConv2dF16ToF32, &reference::kConv2dF16, &reference::kCastF16F32},
      {&reference::kConv2dBf16ToF32, &reference::kConv2dBf16, &reference::kCastBf16F32},
      {&reference::kConv2dF32ToF16, &reference::kConv2dF32, &reference::kCastF32F16},
      {&reference::kConv2dF32ToBf16, &reference::kConv2dF32, &reference::kCastF32Bf16},
      {&reference::kConv2dFloat8Quantized, &reference::kConv2dFloat8F32, &reference::kQuantizeE4M3},
      {&reference::kDepthwiseConv2dF16ToF32, &reference::kDepthwiseConv2dF16, &reference::kCastF16F32},
      {&reference::kDepthwiseConv2dBf16ToF32, &reference::kDepthwiseConv2dBf16, &reference::kCastBf16F32},
      {&reference::kDepthwiseConv2dF32ToF16, &reference::kDepthwiseConv2dF32, &reference::kCastF32F16},
      {&reference::kDepthwiseConv2dF32ToBf16, &reference::kDepthwiseConv2dF32, &reference::kCastF32Bf16},
      {&reference::kDepthwiseConv2dFloat8Quantized, &reference::kDepthwiseConv2dFloat8F32, &reference::kQuantizeE4M3},
  };
  for (size_t f = 0; f < std::size(kFusions); ++f)
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Random random(seed);
      const Case made = random_case(*kFusions[f].fused, random);
      std::vector<Array> inputs = random_inputs(made, random);
      const Array fused = run(*kFusions[f].fused, made.words, inputs)[0];
      std::vector<Array> rest;
      if (kFusions[f].conversion == &reference::kQuantizeE4M3) rest.push_back(inputs.back()), inputs.pop_back();
      rest.insert(rest.begin(), run(*kFusions[f].step, made.words, inputs)[0]);
      ASSERT_EQ(fused.bytes, run(*kFusions[f].conversion, {}, rest)[0].bytes) << "fusion " << f << " seed " << seed;
    }
}

TEST(cast, rounds_float64_once) {
  // By way of float32 this would be the tie 1 + 2^-11, and then 1.
  const Array x = array_of<double>(kF64, {4}, {1 + 0x1p-11 + 0x1p-40, -INFINITY, NAN, 65520});
  const auto y = run(reference::kCastF64F16, {}, {x});
  EXPECT_EQ(y[0].real(0), 1 + 0x1p-10);
  EXPECT_EQ(y[0].real(1), -INFINITY);
  EXPECT_TRUE(std::isnan(y[0].real(2)));
  EXPECT_EQ(y[0].real(3), INFINITY);
  EXPECT_EQ(run(reference::kCastF64Bf16, {}, {array_of<double>(kF64, {1}, {1 + 0x1p-8 + 0x1p-40})})[0].real(0),
            1 + 0x1p-7);
  EXPECT_EQ(run(reference::kCastBf16F16, {}, {array_in(ElementType::kBfloat16, {1}, {0x1p20f})})[0].real(0), INFINITY);
}

TEST(clamp, bounds_are_float32_in_every_float_type) {
  const std::vector<uint32_t> words = {1, std::bit_cast<uint32_t>(0.1f), std::bit_cast<uint32_t>(6.0f)};
  const auto clamped = [&](const KernelEntry& entry) {
    return run(entry, words, {array_in(entry.operands[0].element, {2}, {-1, 8})})[0];
  };
  EXPECT_EQ(clamped(reference::kClampF64).real(0), double(0.1f));
  EXPECT_EQ(clamped(reference::kClampF16).real(0), round_to(ElementType::kFloat16, 0.1f));
  EXPECT_EQ(clamped(reference::kClampBf16).real(0), round_to(ElementType::kBfloat16, 0.1f));
  EXPECT_EQ(clamped(reference::kClampBf16).real(1), 6);
}

TEST(dynamic_quantize, one_scale_for_each_index_before_the_axis) {
  const auto dims = [](uint32_t axis) {
    return run(reference::kDynamicQuantizeE4M3, {axis}, {make_array(kF32, {2, 3, 4})})[1].dims;
  };
  EXPECT_EQ(dims(0), (std::vector<int32_t>{1}));
  EXPECT_EQ(dims(1), (std::vector<int32_t>{2}));
  EXPECT_EQ(dims(2), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(dims(3), (std::vector<int32_t>{2, 3, 4}));
}

}  // namespace
}  // namespace nacre::test
