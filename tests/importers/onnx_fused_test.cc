// Tests import_onnx on the fused operators of onnxruntime's optimizer, against their formulas or numbers by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

OnnxBuilder microsoft(const Dims& x) {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", x);
  return b;
}

OnnxNode fused(OnnxBuilder& b, const std::string& op, const std::vector<std::string>& inputs) {
  OnnxNode node = b.node(op, inputs, {"y"});
  node.domain("com.microsoft");
  b.output("y");
  return node;
}

// Allows an error of 12 times 2^-24 of the largest expected number.
void expect_close(const std::vector<float>& y, const std::vector<double>& wanted) {
  ASSERT_EQ(y.size(), wanted.size());
  double largest = 0;
  for (const double number : wanted) largest = std::max(largest, std::fabs(number));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 12 * 0x1p-24 * largest) << i;
}

std::vector<double> each(const std::vector<float>& x, const std::function<double(double)>& f) {
  std::vector<double> y;
  for (const float number : x) y.push_back(f(number));
  return y;
}

double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
double tanh_gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}

const std::vector<float> kX = {-3, -0.5f, 0.25f, 2};

TEST(onnx_fused, gelu_has_its_forms) {
  OnnxBuilder plain = microsoft({1, 4}), fast = microsoft({1, 4}), bias = microsoft({1, 4}), quick = microsoft({1, 4});
  fused(plain, "Gelu", {"x"});
  expect_close(reals(run_converted<float>(plain, kX)), each(kX, gelu));
  fused(fast, "FastGelu", {"x"});
  expect_close(reals(run_converted<float>(fast, kX)), each(kX, tanh_gelu));
  bias.filled("b", {4}, 0.5f);
  fused(bias, "BiasGelu", {"x", "b"});
  expect_close(reals(run_converted<float>(bias, kX)), each(kX, [](double x) { return gelu(x + 0.5); }));
  fused(quick, "QuickGelu", {"x"});
  expect_close(reals(run_converted<float>(quick, kX)),
               each(kX, [](double x) { return x / (1 + std::exp(-1.702 * x)); }));
}

TEST(onnx_fused, a_product_transposes_and_scales) {
  OnnxBuilder b = microsoft({1, 2, 3});  // the transposes x' [3, 2] times w' [2, 2]
  b.floats("w", {1, 2, 2}, {1, 2, 3, 4});
  fused(b, "FusedMatMul", {"x", "w"}).integer("transA", 1).integer("transB", 1).real("alpha", 0.5f);
  EXPECT_EQ(reals(run_converted<float>(b, {1, 2, 3, 4, 5, 6})), (std::vector<float>{4.5f, 9.5f, 6, 13, 7.5f, 16.5f}));
}

TEST(onnx_fused, layers_have_activations_behind_them) {
  OnnxBuilder gemm = microsoft({1, 2});
  gemm.floats("w", {2, 2}, {1, -1, 2, -2});
  gemm.filled("b", {2}, 0.5f);
  fused(gemm, "FusedGemm", {"x", "w", "b"}).text("activation", "LeakyRelu").real("activation_alpha", 0.25f);
  EXPECT_EQ(reals(run_converted<float>(gemm, {1, 2})), (std::vector<float>{5.5f, -1.125f}));
  OnnxBuilder conv = microsoft({1, 1, 1, 3});
  conv.floats("w", {1, 1, 1, 1}, {2});
  conv.floats("b", {1}, {-1});
  conv.floats("z", {1, 1, 1, 3}, {0, -10, 1});
  fused(conv, "FusedConv", {"x", "w", "b", "z"}).text("activation", "Relu");
  EXPECT_EQ(reals(run_converted<float>(conv, {1, 2, 3})), (std::vector<float>{1, 0, 6}));
  OnnxBuilder other = microsoft({1, 2});
  other.floats("w", {2, 1}, {1, 1});
  fused(other, "FusedGemm", {"x", "w"}).text("activation", "Softsquare");
  EXPECT_NE(refusal(other).find("its activation 'Softsquare' is not supported"), std::string::npos) << refusal(other);
}

std::vector<double> normalized(const std::vector<double>& x, double epsilon, bool centre) {
  const double n = double(x.size()), mean = centre ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0;
  double squares = 0;
  for (const double number : x) squares += (number - mean) * (number - mean);
  std::vector<double> y;
  for (const double number : x) y.push_back((number - mean) / std::sqrt(squares / n + epsilon));
  return y;
}

TEST(onnx_fused, norms_of_sums_and_of_embeddings) {
  OnnxBuilder skip = microsoft({1, 1, 4});
  skip.floats("skip", {1, 1, 4}, {1, 0, -1, 2});
  skip.filled("one", {4}, 1);
  skip.filled("zero", {4}, 0);
  const std::vector<double> sum = {-2, -0.5, -0.75, 4};
  fused(skip, "SkipLayerNormalization", {"x", "skip", "one", "zero"}).real("epsilon", 1e-3f);
  expect_close(reals(run_converted<float>(skip, kX)), normalized(sum, 1e-3f, true));
  OnnxBuilder simple = microsoft({1, 1, 4});
  simple.floats("skip", {1, 1, 4}, {1, 0, -1, 2});
  simple.filled("one", {4}, 1);
  fused(simple, "SkipSimplifiedLayerNormalization", {"x", "skip", "one"}).real("epsilon", 1e-3f);
  expect_close(reals(run_converted<float>(simple, kX)), normalized(sum, 1e-3f, false));
  OnnxBuilder embed;
  use_microsoft_domain(embed);
  embed.input("x", {1, 2}, {}, TensorProto::INT32);
  embed.counted("words", {5, 4});
  embed.floats("positions", {3, 4}, {0, 0, 0, 1, 0, 2, 0, 0, 9, 9, 9, 9});
  embed.filled("one", {4}, 1);
  embed.filled("zero", {4}, 0);
  fused(embed, "EmbedLayerNormalization", {"x", "", "words", "positions", "", "one", "zero"}).real("epsilon", 1e-3f);
  std::vector<double> wanted = normalized({12, 13, 14, 16}, 1e-3f, true);
  for (const double number : normalized({4, 7, 6, 7}, 1e-3f, true)) wanted.push_back(number);
  expect_close(reals(run_converted<int32_t>(embed, {3, 1})), wanted);
}

TEST(onnx_fused, quantizers_of_microsoft_s_domain_are_those_of_onnx) {
  OnnxBuilder b = microsoft({1, 4});
  b.floats("s", {}, {0.5f});
  b.codes("z", {}, {10}, TensorProto::UINT8);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).domain("com.microsoft");
  fused(b, "DequantizeLinear", {"q", "s", "z"});
  EXPECT_EQ(reals(run_converted<float>(b, {0.25f, 0.75f, -9, 1000})), (std::vector<float>{0, 1, -5, 122.5f}));
}

TEST(onnx_fused, every_flipped_byte_gives_a_graph_or_an_error) {
  OnnxBuilder product = microsoft({1, 2, 3});
  product.floats("w", {1, 2, 2}, {1, 2, 3, 4});
  fused(product, "FusedMatMul", {"x", "w"}).integer("transA", 1).integer("transB", 1).real("alpha", 0.5f);
  flip_every_byte(product);
  OnnxBuilder skip = microsoft({1, 1, 4});
  skip.floats("skip", {1, 1, 4}, {1, 0, -1, 2});
  skip.filled("one", {4}, 1);
  fused(skip, "SkipSimplifiedLayerNormalization", {"x", "skip", "one"});
  flip_every_byte(skip);
  OnnxBuilder embed;
  use_microsoft_domain(embed);
  embed.input("x", {1, 2}, {}, TensorProto::INT32);
  embed.counted("words", {5, 4});
  embed.counted("positions", {3, 4});
  embed.filled("one", {4}, 1);
  fused(embed, "EmbedLayerNormalization", {"x", "", "words", "positions", "", "one", "one"});
  flip_every_byte(embed);
}

}  // namespace
}  // namespace nacre::tools
