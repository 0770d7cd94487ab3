// Tests import_onnx on quantized files built in memory: QDQ, codes at inputs and outputs, blocks, float8 and 16-bit
// weights. Expected numbers are computed by hand from the reals that the codes stand for. onnx_qlinear_test.cc tests
// operators on codes, onnx_dynamic_test.cc layers that are quantized at run time. tests/peers/onnxruntime_parity.py
// compares with onnxruntime.
#include <gtest/gtest.h>

#include "tests/importers/onnx_codes.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using namespace onnx_codes;

// x -> Q -> DQ -> Conv(DQ(w), DQ(b)) -> Relu -> Q -> DQ -> y
OnnxBuilder quantized_convolution(int type, int zero) {
  OnnxBuilder b;
  b.input("x", {1, 2, 4, 4});
  add_quantizer(b, "x", 0.5f, zero, type);
  add_quantizer(b, "y", 0.25f, zero, type);
  b.codes("w", {3, 2, 1, 1}, {1, 2, 3, 4, 5, -6});
  b.floats("w_scale", {3}, {0.1f, 0.2f, 0.3f});
  b.codes("w_zero", {3}, {0, 0, 0});
  b.codes("b", {3}, {7, 8, 9}, TensorProto::INT32);
  b.floats("b_scale", {3}, {0.05f, 0.1f, 0.15f});
  b.node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"xq"});
  b.node("DequantizeLinear", {"xq", "x_scale", "x_zero"}, {"xd"});
  b.node("DequantizeLinear", {"w", "w_scale", "w_zero"}, {"wd"}).integer("axis", 0);
  b.node("DequantizeLinear", {"b", "b_scale"}, {"bd"}).integer("axis", 0);
  b.node("Conv", {"xd", "wd", "bd"}, {"c"});
  b.node("Relu", {"c"}, {"r"});
  b.node("QuantizeLinear", {"r", "y_scale", "y_zero"}, {"rq"});
  b.node("DequantizeLinear", {"rq", "y_scale", "y_zero"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_quantized, weights_keep_their_codes_and_bias_its_int32) {
  const Graph graph = imported(quantized_convolution(TensorProto::INT8, 3));
  const Node& conv = first(graph, Op::kConv2d);
  const Value &w = graph.values[size_t(conv.inputs[1])], &bias = graph.values[size_t(conv.inputs[2])];
  EXPECT_EQ(w.type, ElementType::kFloat32);
  EXPECT_EQ(w.stored, ElementType::kInt8);
  EXPECT_EQ(integers(w), (Dims{1, 2, 3, 4, 5, -6}));
  EXPECT_EQ(w.quantizer->axis, 0);
  EXPECT_EQ(bias.stored, ElementType::kInt32);
  EXPECT_EQ(integers(bias), (Dims{7, 8, 9}));
}

TEST(onnx_quantized, quantizers_stand_on_the_values_between_q_and_dq) {
  const Graph graph = imported(quantized_convolution(TensorProto::INT8, 3));
  const Value& x = graph.values[size_t(graph.inputs[0].value)];
  EXPECT_FALSE(x.quantizer);  // the source's input is real
  EXPECT_EQ(value(graph, "r").quantizer->scale[0], 0.25f);
  EXPECT_EQ(value(graph, "r").quantizer->zero[0], 3);
  EXPECT_FALSE(output(graph).quantizer);
  EXPECT_EQ(output(graph).type, ElementType::kFloat32);
}

TEST(onnx_quantized, a_quantizer_goes_back_through_relu_to_the_convolution) {
  const Graph graph = imported(quantized_convolution(TensorProto::INT8, 3));
  EXPECT_EQ(value(graph, "c").quantizer->scale[0], 0.25f);
}

TEST(onnx_quantized, uint8_codes_are_int8_codes_128_lower) {
  const Graph graph = imported(quantized_convolution(TensorProto::UINT8, 131));
  EXPECT_EQ(value(graph, "r").quantizer->codes, ElementType::kInt8);
  EXPECT_EQ(value(graph, "r").quantizer->zero[0], 3);
}

TEST(onnx_quantized, codes_that_are_asked_for_are_computed) {
  OnnxBuilder b;
  b.input("x", {4});
  add_quantizer(b, "x", 0.5f, 128, TensorProto::UINT8);
  b.node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{0, 0.25f, 0.75f, 100})});
  EXPECT_EQ(output(graph).type, ElementType::kUint8);
  // half to even: 0.5 -> 0, 1.5 -> 2
  EXPECT_EQ(integers(run.values[size_t(graph.outputs[0].value)]), (Dims{128, 128, 130, 255}));
}

TEST(onnx_quantized, weights_with_a_zero_point_are_decoded_and_logged) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.codes("w", {2, 1}, {130, 126}, TensorProto::UINT8);
  add_quantizer(b, "w", 0.5f, 127, TensorProto::UINT8);
  b.node("DequantizeLinear", {"w", "w_scale", "w_zero"}, {"wd"});
  b.node("MatMul", {"x", "wd"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(graph.log.size(), 1u);
  EXPECT_EQ(reals(graph.values[size_t(first(graph, Op::kDense).inputs[1])]), (std::vector<float>{1.5f, -0.5f}));
}

TEST(onnx_quantized, matmul_weights_are_turned_with_their_axis) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.codes("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  b.floats("s", {3}, {1, 2, 3});
  b.codes("z", {3}, {0, 0, 0});
  b.node("DequantizeLinear", {"w", "s", "z"}, {"wd"}).integer("axis", 1);
  b.node("MatMul", {"x", "wd"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  const Value& w = graph.values[size_t(first(graph, Op::kDense).inputs[1])];
  EXPECT_EQ(integers(w), (Dims{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(w.quantizer->axis, 0);
}

// Returns the ops of the graph's nodes, without transposes and reshapes.
std::vector<Op> work(const Graph& graph) {
  std::vector<Op> result;
  for (const Node& node : graph.nodes)
    if (node.op != Op::kTranspose && node.op != Op::kReshape) result.push_back(node.op);
  return result;
}

TEST(onnx_quantized, a_convolution_between_codes_is_one_integer_step) {
  const Graph graph = converted(quantized_convolution(TensorProto::UINT8, 131));
  EXPECT_EQ(work(graph), (std::vector<Op>{Op::kQuantize, Op::kConv2d, Op::kDequantize}));
  EXPECT_EQ(operand(graph, first(graph, Op::kConv2d), 1).type, ElementType::kInt8);
}

TEST(onnx_quantized, codes_with_several_dequantizers_have_one_quantizer_and_no_copy) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  add_quantizer(b, "q", 0.5f, 3, TensorProto::INT8);
  b.node("Relu", {"x"}, {"r"});
  b.node("QuantizeLinear", {"r", "q_scale", "q_zero"}, {"c"});
  b.node("DequantizeLinear", {"c", "q_scale", "q_zero"}, {"d1"});
  b.node("DequantizeLinear", {"c", "q_scale", "q_zero"}, {"d2"});
  b.node("Add", {"d1", "d2"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kClamp, Op::kAdd}));
  EXPECT_TRUE(value(graph, "r").quantizer);
}

TEST(onnx_quantized, what_is_also_read_unrounded_keeps_its_reals) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  add_quantizer(b, "q", 0.5f, 0, TensorProto::INT8);
  b.node("Relu", {"x"}, {"r"});
  b.node("QuantizeLinear", {"r", "q_scale", "q_zero"}, {"c"});
  b.node("DequantizeLinear", {"c", "q_scale", "q_zero"}, {"d"});
  b.node("Sub", {"r", "d"}, {"y"});
  b.output("y");
  const Value y = run_converted<float>(b, {0.125f, 0.5f, 0.75f, 1});
  // 0.75 / 0.5 = 1.5 is a tie: 0.75 - 0.5 or 0.75 - 1
  EXPECT_EQ(reals(y)[0], 0.125f);
  EXPECT_EQ(reals(y)[1], 0);
  EXPECT_EQ(std::abs(reals(y)[2]), 0.25f);
  EXPECT_EQ(reals(y)[3], 0);
}

// ---- Codes at inputs and outputs

// Builds x codes -> DQ -> MatMul by the codes {2, 3}, which mean {1, 1.5} -> Q -> y codes.
OnnxBuilder codes_in_and_out(int type, int zero) {
  OnnxBuilder b;
  b.input("x", {1, 2}, {}, type);
  add_quantizer(b, "x", 0.5f, zero, type);
  add_quantizer(b, "y", 0.25f, zero, type);
  b.codes("w", {2, 1}, {2, 3});
  add_quantizer(b, "w", 0.5f, 0, TensorProto::INT8);
  b.node("DequantizeLinear", {"x", "x_scale", "x_zero"}, {"xd"});
  b.node("DequantizeLinear", {"w", "w_scale", "w_zero"}, {"wd"});
  b.node("MatMul", {"xd", "wd"}, {"r"});
  b.node("QuantizeLinear", {"r", "y_scale", "y_zero"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_quantized, int8_at_inputs_and_outputs_needs_no_conversion) {
  const OnnxBuilder b = codes_in_and_out(TensorProto::INT8, 1);
  EXPECT_EQ(ops(converted(b)), std::vector<Op>{Op::kDense});
  // reals 1.5 and -1: y = 1.5 * 1 - 1 * 1.5 = 0 -> code 1; 1.5 and 1: 3 -> 13
  EXPECT_EQ(integers(run_converted<int8_t>(b, {4, -1})), Dims{1});
  EXPECT_EQ(integers(run_converted<int8_t>(b, {4, 3})), Dims{13});
}

TEST(onnx_quantized, uint8_at_inputs_and_outputs_stays_uint8) {
  const OnnxBuilder b = codes_in_and_out(TensorProto::UINT8, 129);
  const Value y = run_converted<uint8_t>(b, {132, 131});
  EXPECT_EQ(y.type, ElementType::kUint8);
  EXPECT_EQ(integers(y), Dims{141});
}

TEST(onnx_quantized, integers_without_a_scale_are_pooled_as_they_are) {
  OnnxBuilder b;
  b.input("x", {1, 1, 2, 2}, {}, TensorProto::UINT8);
  b.node("MaxPool", {"x"}, {"y"}).ints("kernel_shape", {2, 2});
  b.output("y");
  const Value y = run_converted<uint8_t>(b, {3, 200, 130, 7});
  EXPECT_EQ(y.type, ElementType::kUint8);
  EXPECT_EQ(integers(y), Dims{200});
}

// ---- Blocks, 16 bits, float8

TEST(onnx_quantized, scales_per_block_are_decoded) {
  OnnxBuilder b(21);
  b.input("x", {1, 1});
  b.codes("w", {1, 4}, {1, 2, 3, 4});
  b.floats("s", {1, 2}, {1, 10});
  b.codes("z", {1, 2}, {0, 1});
  b.node("DequantizeLinear", {"w", "s", "z"}, {"wd"}).integer("axis", 1).integer("block_size", 2);
  b.node("MatMul", {"x", "wd"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {1}), (std::vector<float>{1, 2, 20, 30}));
  EXPECT_EQ(imported(b).log.size(), 1u);
}

OnnxBuilder matmul_n_bits() {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", {1, 16});
  // Two rows of 16 codes, one block each: the first is 0 1 2 .. 15 with the zero point 8, the second is all 15 with
  // the zero point 3.
  std::vector<int> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(2 * i + 16 * (2 * i + 1));
  for (int i = 0; i < 8; ++i) bytes.push_back(255);
  b.codes("w", {2, 1, 8}, bytes, TensorProto::UINT8);
  b.floats("s", {2}, {1, 0.5f});
  b.codes("z", {2}, {8, 3}, TensorProto::UINT8);
  b.node("MatMulNBits", {"x", "w", "s", "z"}, {"y"})
      .integer("K", 16)
      .integer("N", 2)
      .integer("bits", 4)
      .integer("block_size", 16)
      .domain("com.microsoft");
  b.output("y");
  return b;
}

TEST(onnx_quantized, matmul_n_bits_is_decoded) {
  std::vector<float> x(16, 0);
  x[0] = 1, x[15] = 10;
  EXPECT_EQ(computed(matmul_n_bits(), x), (std::vector<float>{-8 + 70, 6 + 60}));
}

TEST(onnx_quantized, matmul_n_bits_that_contradicts_itself_is_refused) {
  for (const int columns : {0, 15, 17}) {
    OnnxBuilder b;
    use_microsoft_domain(b);
    b.input("x", {1, 16});
    b.codes("w", {1, 1, 8}, std::vector<int>(8, 0), TensorProto::UINT8);
    b.floats("s", {1}, {1});
    b.node("MatMulNBits", {"x", "w", "s"}, {"y"})
        .integer("K", columns)
        .integer("N", 1)
        .integer("block_size", 16)
        .domain("com.microsoft");
    b.output("y");
    EXPECT_NE(refusal(b), "") << columns;
  }
}

TEST(onnx_quantized, weights_of_16_bits_are_real_numbers) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.codes("w", {2, 1}, {0x3e00, 0xc000}, TensorProto::FLOAT16);  // 1.5, -2
  b.codes("c", {1}, {0x4040}, TensorProto::BFLOAT16);            // 3
  b.node("MatMul", {"x", "w"}, {"m"});
  b.node("Add", {"m", "c"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {2, 1}), std::vector<float>{3 - 2 + 3});
}

constexpr int kFloat8E4M3Fn = 17, kFloat8E4M3Fnuz = 18;  // TensorProto.DataType, newer than the library

OnnxBuilder float8_weights(int type) {
  OnnxBuilder b(19);
  b.input("x", {1, 2});
  b.codes("w", {2, 1}, {0x38, 0xc4}, type);  // 1 and -3 in E4M3FN
  b.floats("s", {}, {0.5f});
  b.codes("z", {}, {0}, type);
  b.node("DequantizeLinear", {"w", "s", "z"}, {"wd"});
  b.node("MatMul", {"x", "wd"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_quantized, float8_weights_keep_their_codes) {
  const Graph graph = imported(float8_weights(kFloat8E4M3Fn));
  const Value& w = operand(graph, first(graph, Op::kDense), 1);
  EXPECT_EQ(w.stored, ElementType::kFloat8E4M3);
  EXPECT_EQ(*w.data, (std::vector<uint8_t>{0x38, 0xc4}));
  EXPECT_EQ(w.quantizer->codes, ElementType::kFloat8E4M3);
  EXPECT_EQ(reals(w), (std::vector<float>{0.5f, -1.5f}));
}

TEST(onnx_quantized, other_float8_is_refused_with_the_remedy) {
  EXPECT_NE(refusal(float8_weights(kFloat8E4M3Fnuz)).find("float8e4m3fn"), std::string::npos);
  OnnxBuilder b(19);
  b.input("x", {1, 2});
  b.floats("s", {}, {0.5f});
  b.codes("z", {}, {0}, kFloat8E4M3Fn);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("--policy float8"), std::string::npos) << refusal(b);
}

// Gathers rows 2 and 0 of a table of codes and dequantizes them. The table is stored once, as int8.
TEST(onnx_quantized, rows_of_codes_are_gathered) {
  for (const int type : {TensorProto::INT8, TensorProto::UINT8})
    for (const bool has_zero : {true, false}) {
      OnnxBuilder b;
      b.input("ids", {2}, {}, TensorProto::INT64);
      b.codes("w", {3, 2}, {1, 2, 3, 4, 5, 6}, type);
      add_quantizer(b, "w", 0.5f, 2, type);
      b.node("Gather", {"w", "ids"}, {"rows"});
      b.node("DequantizeLinear", {"rows", "w_scale", has_zero ? "w_zero" : ""}, {"y"});
      b.output("y");
      const Graph graph = imported(b);
      EXPECT_EQ(graph.values[size_t(first(graph, Op::kEmbedding).inputs[0])].stored, ElementType::kInt8);
      const float zero = has_zero ? 2 : 0;
      const Graph run = run_graph(converted(b), {bytes_of(std::vector<int64_t>{2, 0})});
      const std::vector<float> expected = {0.5f * (5 - zero), 0.5f * (6 - zero), 0.5f * (1 - zero), 0.5f * (2 - zero)};
      EXPECT_EQ(reals(output(run)), expected);
    }
}

TEST(onnx_quantized, every_flipped_byte_gives_a_graph_or_an_error) {
  flip_every_byte(quantized_convolution(TensorProto::UINT8, 131));
  flip_every_byte(codes_in_and_out(TensorProto::UINT8, 129));
  OnnxBuilder b = on_codes({1, 1, 2, 2}, {0.25f, 10});
  b.codes("w", {1, 1, 2, 2}, {2, -1, 3, 1});
  add_quantizer(b, "w", 0.25f, 0, TensorProto::INT8);
  b.codes("b", {1}, {8}, TensorProto::INT32);
  b.node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"}, {"c"});
  b.node("MaxPool", {"c"}, {"p"}).ints("kernel_shape", {1, 1});
  b.node("QLinearConcat", {"y_scale", "y_zero", "p", "y_scale", "y_zero", "c", "y_scale", "y_zero"}, {"y"})
      .domain("com.microsoft");
  flip_every_byte(b);
  flip_every_byte(matmul_n_bits());
  flip_every_byte(float8_weights(kFloat8E4M3Fn));
}

}  // namespace
}  // namespace nacre::tools
