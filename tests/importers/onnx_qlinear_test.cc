// Tests import_onnx on operators on codes (QOperator), built in memory, with numbers computed by hand as in
// onnx_quantized_test.cc. Input codes have the scale x_scale and the zero point x_zero.
#include <gtest/gtest.h>

#include "tests/importers/onnx_codes.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using namespace onnx_codes;

Dims result(const OnnxBuilder& b, const std::vector<uint8_t>& x) { return integers(run_converted(b, x)); }

TEST(onnx_quantized, qlinear_conv_is_one_integer_convolution) {
  OnnxBuilder b = on_codes({1, 1, 2, 2}, {0.25f, 10});
  b.codes("w", {1, 1, 2, 2}, {2, -1, 3, 1});
  add_quantizer(b, "w", 0.25f, 0, TensorProto::INT8);
  b.codes("b", {1}, {8}, TensorProto::INT32);
  b.node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"}, {"y"});
  const Graph graph = imported(b);
  const Node& conv = first(graph, Op::kConv2d);
  EXPECT_EQ(integers(operand(graph, conv, 1)), (Dims{2, -1, 3, 1}));
  EXPECT_EQ(integers(operand(graph, conv, 2)), Dims{8});
  EXPECT_EQ(operand(graph, conv, 2).quantizer->scale[0], 0.125f);
  EXPECT_EQ(graph.layers[size_t(conv.layer)].source_op, "QLinearConv");
  EXPECT_EQ(graph.layers[size_t(conv.layer)].name, "y_node");
  // 1 * 0.5 + -1 * -0.25 + 0 + 6 * 0.25 + 8 / 8 = 3.25 -> 13 + 10
  EXPECT_EQ(result(b, {130, 126, 128, 140}), Dims{23});
}

TEST(onnx_quantized, qlinear_conv_takes_uint8_weights_about_128) {
  OnnxBuilder b = on_codes({1, 1, 1, 1}, {0.25f, 10});
  b.codes("w", {1, 1, 1, 1}, {132}, TensorProto::UINT8);
  add_quantizer(b, "w", 0.25f, 128, TensorProto::UINT8);
  b.node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"}, {"y"});
  EXPECT_EQ(operand(imported(b), first(imported(b), Op::kConv2d), 1).stored, ElementType::kInt8);
  EXPECT_EQ(result(b, {131}), Dims{10 + 6});  // 1.5 * 1
}

TEST(onnx_quantized, qlinear_matmul_has_scales_per_column) {
  OnnxBuilder b = on_codes({1, 2}, {0.5f, 100});
  b.codes("w", {2, 2}, {1, 2, 3, 4});
  b.floats("w_scale", {2}, {1, 0.5f});
  b.codes("w_zero", {2}, {0, 0});
  b.node("QLinearMatMul", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"}, {"y"});
  // x = {1, 2}: {1 + 6, 1 + 4} / 0.5
  EXPECT_EQ(result(b, {130, 132}), (Dims{114, 110}));
}

TEST(onnx_quantized, qgemm_takes_a_bias_and_may_give_reals) {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", {1, 2}, {}, TensorProto::UINT8);
  add_quantizer(b, "x", 0.5f, 128, TensorProto::UINT8);
  b.codes("w", {2, 2}, {1, 2, 3, 4});
  add_quantizer(b, "w", 0.5f, 0, TensorProto::INT8);
  b.codes("b", {2}, {4, -4}, TensorProto::INT32);  // in units of 0.25
  b.node("QGemm", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "b"}, {"y"})
      .integer("transB", 1)
      .domain("com.microsoft");
  b.output("y");
  // x = {1, 2}, w = {{0.5, 1}, {1.5, 2}}: {2.5 + 1, 5.5 - 1}
  EXPECT_EQ(reals(run_converted<uint8_t>(b, {130, 132})), (std::vector<float>{3.5f, 4.5f}));
}

TEST(onnx_quantized, qlinear_add_and_mul_have_three_quantizers) {
  for (const bool add : {true, false}) {
    OnnxBuilder b = on_codes({1, 2}, {1, 100});
    b.codes("c", {1, 2}, {3, 5}, TensorProto::UINT8);
    add_quantizer(b, "c", 2, 1, TensorProto::UINT8);  // reals 4 and 8
    b.node(add ? "QLinearAdd" : "QLinearMul", {"x", "x_scale", "x_zero", "c", "c_scale", "c_zero", "y_scale", "y_zero"},
           {"y"})
        .domain("com.microsoft");
    // x = {1, -2}
    EXPECT_EQ(result(b, {130, 124}), (add ? Dims{105, 106} : Dims{104, 84}));
  }
}

TEST(onnx_quantized, qlinear_concat_brings_all_operands_to_one_quantizer) {
  OnnxBuilder b = on_codes({1, 2}, {1, 100});
  add_quantizer(b, "z", 1, 0, TensorProto::UINT8);
  b.node("QLinearLeakyRelu", {"x", "x_scale", "x_zero", "z_scale", "z_zero"}, {"z"})
      .real("alpha", 0.5f)
      .domain("com.microsoft");
  b.node("QLinearConcat", {"y_scale", "y_zero", "x", "x_scale", "x_zero", "z", "z_scale", "z_zero"}, {"y"})
      .integer("axis", 1)
      .domain("com.microsoft");
  EXPECT_EQ(result(b, {132, 136}), (Dims{102, 104, 102, 104}));
}

TEST(onnx_quantized, qlinear_pools_average_reals) {
  OnnxBuilder b = on_codes({1, 1, 2, 2}, {0.5f, 128});
  b.node("QLinearAveragePool", {"x", "x_scale", "x_zero", "y_scale", "y_zero"}, {"y"})
      .ints("kernel_shape", {1, 2})
      .domain("com.microsoft");
  EXPECT_EQ(result(b, {130, 134, 128, 120}), (Dims{132, 124}));
  OnnxBuilder global = on_codes({1, 1, 2, 2}, {0.25f, 0});
  global.node("QLinearGlobalAveragePool", {"x", "x_scale", "x_zero", "y_scale", "y_zero"}, {"y"})
      .domain("com.microsoft");
  EXPECT_EQ(result(global, {130, 134, 128, 128}), Dims{4});  // mean of 1, 3, 0, 0
}

TEST(onnx_quantized, qlinear_functions_are_functions_of_the_reals) {
  OnnxBuilder sigmoid = on_codes({1, 2}, {1.0f / 256, 0});
  sigmoid.node("QLinearSigmoid", {"x", "x_scale", "x_zero", "y_scale", "y_zero"}, {"y"}).domain("com.microsoft");
  EXPECT_EQ(result(sigmoid, {128, 255}), (Dims{128, 255}));  // 1/2, and 1 saturated
  OnnxBuilder softmax = on_codes({1, 2}, {1.0f / 256, 0});
  softmax.node("QLinearSoftmax", {"x", "x_scale", "x_zero", "y_scale", "y_zero"}, {"y"})
      .integer("axis", 1)
      .integer("opset", 13)
      .domain("com.microsoft");
  EXPECT_EQ(result(softmax, {140, 140}), (Dims{128, 128}));
}

TEST(onnx_quantized, codes_are_pooled_and_reshaped_with_their_quantizer) {
  OnnxBuilder b = on_codes({1, 1, 2, 2}, {0.25f, 128});
  b.codes("w", {1, 1, 1, 1}, {1});
  add_quantizer(b, "w", 1, 0, TensorProto::INT8);
  b.node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"}, {"c"});
  b.node("MaxPool", {"c"}, {"p"}).ints("kernel_shape", {1, 2});
  b.node("Flatten", {"p"}, {"y"});
  EXPECT_EQ(result(b, {129, 131, 127, 120}), (Dims{134, 126}));
  for (const Node& node : converted(b).nodes) EXPECT_NE(node.op, Op::kDequantize);
}

TEST(onnx_quantized, what_onnxruntime_fused_is_refused_with_the_remedy) {
  OnnxBuilder b = on_codes({1, 1, 2, 2}, {1, 0});
  b.node("QLinearAveragePool", {"x", "x_scale", "x_zero", "y_scale", "y_zero"}, {"y"})
      .ints("kernel_shape", {1, 2})
      .integer("channels_last", 1)
      .domain("com.microsoft");
  EXPECT_NE(refusal(b).find("export again with graph optimization off"), std::string::npos) << refusal(b);
  OnnxBuilder fused;
  use_microsoft_domain(fused);
  fused.input("x", {1, 2});
  fused.node("NGramRepeatBlock", {"x", "x"}, {"y"}).domain("com.microsoft");
  fused.output("y");
  EXPECT_NE(refusal(fused).find("export again with graph optimization off"), std::string::npos) << refusal(fused);
}

}  // namespace
}  // namespace nacre::tools
