// Tests TensorFlow Lite files with int16 activations, int8 weights and biases of 64 or 32 bits, through converter and
// reference kernels. The expected codes follow LiteRT's formulas (NUMERICS.md section 8). Claim tflite_int16 tests
// TensorFlow Lite Micro's own 127 operators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"
#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools::tflite {
namespace {

int activation16(TfliteBuilder& b, const std::string& name, const std::vector<int32_t>& shape, float scale,
                 int64_t zero = 0) {
  return b.tensor({.name = name,
                   .type = TensorType::INT16,
                   .shape = shape,
                   .data = {},
                   .codes = {{scale}, {zero}},
                   .signature = {}});
}

// A real multiplier as QuantizeMultiplier stores it: m 2^(shift - 31).
struct Multiplier {
  int shift = 0;
  int64_t m;

  explicit Multiplier(double real) : m(std::llround(std::ldexp(std::frexp(real, &shift), 31))) {}
};

int64_t floor_shift(int64_t v, int bits) { return v >= 0 ? v >> bits : -((-v + (int64_t{1} << bits) - 1) >> bits); }
int16_t saturated16(int64_t v) { return int16_t(std::clamp<int64_t>(v, -32768, 32767)); }

// Scales a 64-bit sum by a multiplier cut to 16 bits.
int16_t wide(int64_t sum, const Multiplier& real) {
  const int64_t cut = std::min<int64_t>((real.m + (1 << 15)) >> 16, 32767);
  return saturated16(floor_shift(sum * cut + (int64_t{1} << (14 - real.shift)), 15 - real.shift));
}
// Scales a sum of 32 bits. It is rounded twice: first ties upwards, then ties away from 0. shift <= 0.
int16_t twice(int64_t sum, const Multiplier& real) {
  const int64_t high = floor_shift(sum * real.m + (int64_t{1} << 30), 31);
  const int64_t half = real.shift == 0 ? 0 : int64_t{1} << (-real.shift - 1);
  const int64_t size = (std::abs(high) + half) >> -real.shift;
  return saturated16(high < 0 ? -size : size);
}

Graph applied(const std::vector<uint8_t>& file) {
  Graph graph = imported(file);
  simplify(graph);
  apply_policy(graph);
  check(graph);
  return graph;
}

template <class Y = int16_t>
std::vector<Y> run16(const Graph& graph, const std::vector<std::vector<uint8_t>>& inputs) {
  const Value y = run_graph(graph, inputs).values[size_t(graph.outputs[0].value)];
  std::vector<Y> codes(y.data->size() / sizeof(Y));
  std::memcpy(codes.data(), y.data->data(), y.data->size());
  return codes;
}

const std::vector<int16_t> kX = {32767, -32768, 12345, -23456, 801, 17, -30000, 29999};
const std::vector<int8_t> kWeights = {127, -127, 55, -3, 90, -14, 77, 101};
constexpr float kXScale = 0.0009765f, kWScale = 0.0123f, kYScale = 0.0019f;

enum class BiasType { kNone, kInt32, kInt64 };

// Builds y [2, 2] = x [2, 4] times the transpose of w [2, 4], plus a bias of this type.
std::vector<uint8_t> dense_file(BiasType type) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {2, 4}, kXScale), y = activation16(b, "y", {2, 2}, kYScale),
            w = b.codes("w", {2, 4}, kWeights, {{kWScale}, {0}});
  int bias = -1;
  if (type == BiasType::kInt32) bias = b.int32s("b", {2}, {70001, -5}, {{kXScale * kWScale}, {0}});
  if (type == BiasType::kInt64)
    bias = b.tensor({.name = "b",
                     .type = TensorType::INT64,
                     .shape = {2},
                     .data = bytes_of(std::vector<int64_t>{70001, -5}),
                     .codes = {{kXScale * kWScale}, {0}},
                     .signature = {}});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, bias}, {y}, CreateFullyConnectedOptions(b.fbb()));
  return b.finish({x}, {y});
}

TEST(int16x8, sums_have_the_bits_of_the_bias_and_64_without_one) {
  const Multiplier real(double(kXScale * kWScale) / double(kYScale));
  int differing = 0;
  for (const BiasType type : {BiasType::kNone, BiasType::kInt32, BiasType::kInt64}) {
    std::vector<int16_t> want;
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 2; ++k) {
        int64_t sum = type == BiasType::kNone ? 0 : k == 0 ? 70001 : -5;
        for (int i = 0; i < 4; ++i) sum += int64_t{kX[size_t(r * 4 + i)]} * kWeights[size_t(k * 4 + i)];
        want.push_back(type == BiasType::kInt32 ? twice(sum, real) : wide(sum, real));
        differing += twice(sum, real) != wide(sum, real) ? 1 : 0;
      }
    EXPECT_EQ(run16(applied(dense_file(type)), {bytes_of(kX)}), want) << int(type);
  }
  EXPECT_GT(differing, 0);  // the cases tell the two roundings apart
}

TEST(int16x8, is_what_a_model_says_of_such_layers) {
  Graph graph = imported(dense_file(BiasType::kInt64));
  simplify(graph);
  const Compiled compiled = compile(std::move(graph), {});
  const LoadedModel model(compiled.bytes, "model", "");
  ASSERT_EQ(model.layer_count(), 1u);
  EXPECT_EQ(policy_name(model.layer(0).policy), "int16x8");
  EXPECT_TRUE(compiled.graph.fallbacks.empty());
}

TEST(int16x8, a_clamp_becomes_codes_of_16_bits) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {1, 8}, 0.001f), z = activation16(b, "z", {1, 8}, 0.001f),
            y = activation16(b, "y", {1, 8}, 0.0005f);
  b.op(BuiltinOperator::RELU6, {x}, {z});
  b.op(BuiltinOperator::ADD, {z, x}, {y}, CreateAddOptions(b.fbb(), Activation::RELU_N1_TO_1));
  const std::vector<int16_t> codes = {0, 1, -1, 500, -500, 5999, 6001, 32767};
  std::vector<int16_t> want;
  for (const int16_t v : codes) want.push_back(int16_t(std::clamp(2 * (std::clamp<int>(v, 0, 6000) + v), -2000, 2000)));
  EXPECT_EQ(run16(applied(b.finish({x}, {y})), {bytes_of(codes)}), want);
}

TEST(int16x8, leaky_relu_has_a_multiplier_for_each_side) {
  const float alpha = 0.3f, x_scale = 0.0058368747f, y_scale = 0.0046422905f;
  TfliteBuilder b;
  const int x = activation16(b, "x", {8}, x_scale), y = activation16(b, "y", {8}, y_scale);
  b.op(BuiltinOperator::LEAKY_RELU, {x}, {y}, CreateLeakyReluOptions(b.fbb(), alpha));
  const Multiplier up(double(x_scale / y_scale) / 2), down(double(x_scale * alpha / y_scale));
  std::vector<int16_t> want;
  for (const int16_t v : kX) want.push_back(v < 0 ? twice(v, down) : twice(2 * v, up));
  EXPECT_EQ(run16(applied(b.finish({x}, {y})), {bytes_of(kX)}), want);
}

TEST(int16x8, quantize_goes_to_32_bits_and_back) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {8}, 0.5f);
  const int y = b.tensor(
      {.name = "y", .type = TensorType::INT32, .shape = {8}, .data = {}, .codes = {{0x1p-12f}, {0}}, .signature = {}});
  b.op(BuiltinOperator::QUANTIZE, {x}, {y});
  std::vector<int32_t> want;
  for (const int16_t v : kX) want.push_back(v * 2048);
  EXPECT_EQ(run16<int32_t>(applied(b.finish({x}, {y})), {bytes_of(kX)}), want);

  TfliteBuilder c;
  const int wide_x = c.tensor(
      {.name = "x", .type = TensorType::INT32, .shape = {4}, .data = {}, .codes = {{0x1p-12f}, {0}}, .signature = {}});
  const int narrow = activation16(c, "y", {4}, 0.5f);
  c.op(BuiltinOperator::QUANTIZE, {wide_x}, {narrow});
  EXPECT_EQ(run16(applied(c.finish({wide_x}, {narrow})), {bytes_of(std::vector<int32_t>{2048, -2049, 1 << 30, 1000})}),
            (std::vector<int16_t>{1, -1, 32767, 0}));
}

// The network's file declares the output shape. The shape given at run time is not read.
TEST(int16x8, a_transposed_convolution_may_be_given_its_shape_at_run_time) {
  TfliteBuilder b;
  const int shape =
      b.tensor({.name = "shape", .type = TensorType::INT32, .shape = {4}, .data = {}, .codes = {}, .signature = {}});
  const int w = b.codes("w", {1, 1, 3, 1}, {1, 2, 3}, {{1}, {0}}), x = activation16(b, "x", {1, 1, 2, 1}, 1),
            y = activation16(b, "y", {1, 1, 5, 1}, 1);
  b.op(BuiltinOperator::TRANSPOSE_CONV, {shape, w, x}, {y}, CreateTransposeConvOptions(b.fbb(), Padding::VALID, 2, 1));
  const std::vector<uint8_t> given = bytes_of(std::vector<int32_t>{1, 1, 5, 1});
  EXPECT_EQ(run16(applied(b.finish({shape, x}, {y})), {given, bytes_of(std::vector<int16_t>{100, -1000})}),
            (std::vector<int16_t>{100, 200, 300 - 1000, -2000, -3000}));
}

TEST(int16x8, a_negative_slope_has_no_multiplier) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {8}, 0.5f), y = activation16(b, "y", {8}, 0.5f);
  b.op(BuiltinOperator::LEAKY_RELU, {x}, {y}, CreateLeakyReluOptions(b.fbb(), -0.5f));
  EXPECT_EQ(run16(applied(b.finish({x}, {y})), {bytes_of(std::vector<int16_t>{-8, -2, 0, 1, 2, 3, 4, 5})}),
            (std::vector<int16_t>{4, 1, 0, 1, 2, 3, 4, 5}));
}

// cos has no 16-bit form. It runs in float32, and the log says so.
TEST(int16x8, what_has_no_form_runs_in_float) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {8}, 0.0001f), y = activation16(b, "y", {8}, 0x1p-15f);
  b.op(BuiltinOperator::COS, {x}, {y});
  const Graph graph = applied(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kDequantize, Op::kUnary, Op::kQuantize}));
  std::vector<int16_t> want;
  for (const int16_t v : kX) want.push_back(saturated16(std::llround(std::cos(double(v) * 0.0001) * 32768)));
  EXPECT_EQ(run16(graph, {bytes_of(kX)}), want);
}

// The lines between the table's points are within 2 units of 2^-15 of the curve.
TEST(int16x8, sigmoid_tanh_and_softmax_are_curves) {
  for (const BuiltinOperator code : {BuiltinOperator::LOGISTIC, BuiltinOperator::TANH, BuiltinOperator::SOFTMAX}) {
    TfliteBuilder b;
    const int x = activation16(b, "x", {1, 8}, 0.0001f), y = activation16(b, "y", {1, 8}, 0x1p-15f);
    if (code == BuiltinOperator::SOFTMAX) b.op(code, {x}, {y}, CreateSoftmaxOptions(b.fbb(), 1));
    else b.op(code, {x}, {y});
    const Graph graph = applied(b.finish({x}, {y}));
    EXPECT_EQ(graph.nodes.size(), 1u);
    double sum = 0;
    for (const int16_t v : kX) sum += std::exp(v * 0.0001);
    const std::vector<int16_t> made = run16(graph, {bytes_of(kX)});
    for (size_t i = 0; i < made.size(); ++i) {
      const double v = kX[i] * 0.0001, of_tanh = std::tanh(v), sigmoid = 1 / (1 + std::exp(-v));
      const double want = code == BuiltinOperator::TANH       ? of_tanh
                          : code == BuiltinOperator::LOGISTIC ? sigmoid
                                                              : std::exp(v) / sum;
      EXPECT_NEAR(made[i] / 32768.0, want, 3.0 / 32768) << int(code) << " " << i;
    }
  }
}

// This is the end of TensorFlow Lite Micro's keyword_scrambled: equal scores give halves.
TEST(int16x8, softmax_of_int8_gives_16_bits_with_a_zero_point_to_quantize) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.07f, 2), y = activation16(b, "y", {1, 2}, 1.5259022e-05f, -32768);
  const int z = b.tensor({.name = "z",
                          .type = TensorType::INT32,
                          .shape = {1, 2},
                          .data = {},
                          .codes = {{3.0518044e-05f}, {0}},
                          .signature = {}});
  b.op(BuiltinOperator::SOFTMAX, {x}, {y}, CreateSoftmaxOptions(b.fbb(), 1));
  b.op(BuiltinOperator::QUANTIZE, {y}, {z});
  const Graph graph = applied(b.finish({x}, {z}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kSoftmax, Op::kRequantize}));
  EXPECT_EQ(run16<int32_t>(graph, {bytes_of(std::vector<int8_t>{5, 5})}), (std::vector<int32_t>{16384, 16384}));
}

TEST(int16x8, a_zero_point_is_for_conversions_alone) {
  TfliteBuilder b;
  const int x = activation16(b, "x", {4}, 1, 5), y = activation16(b, "y", {4}, 1, 5);
  b.op(BuiltinOperator::RELU, {x}, {y});
  const Graph graph = applied(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kDequantize, Op::kClamp, Op::kQuantize}));
  EXPECT_EQ(run16(graph, {bytes_of(std::vector<int16_t>{0, 4, 5, 9})}), (std::vector<int16_t>{5, 5, 5, 9}));
}

TEST(int16x8, codes_that_are_none_are_refused) {
  TfliteBuilder c;
  const int bare =
      c.tensor({.name = "x", .type = TensorType::INT16, .shape = {8}, .data = {}, .codes = {}, .signature = {}});
  c.op(BuiltinOperator::RELU, {bare}, {c.activation("y", {8})});
  EXPECT_NE(refusal(c.finish({bare}, {1}), kUnsupported).find("x: has element type INT16 and no scale"),
            std::string::npos);

  TfliteBuilder d;
  const int real = d.activation("x", {8});
  const int coded = d.tensor(
      {.name = "y", .type = TensorType::INT32, .shape = {8}, .data = {}, .codes = {{1}, {0}}, .signature = {}});
  d.op(BuiltinOperator::QUANTIZE, {real}, {coded});
  EXPECT_NE(refusal(d.finish({real}, {coded}), kUnsupported).find("float32 quantized to int32"), std::string::npos);
}

}  // namespace
}  // namespace nacre::tools::tflite
