// Tests import_onnx on layers that are quantized at run time, as onnxruntime's quantize_dynamic writes them.
//
// Most inputs have low = 0 or high = 0 and a range of 255 steps of a power of two: scale and codes of
// DynamicQuantizeLinear are then exact, and so are the sums. Other tests draw their inputs at random.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/ops/quantize.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

// Builds x -> DynamicQuantizeLinear -> `integers` with w -> Cast -> Mul by the scales -> y. w has the scales w_scale
// and, if its type is uint8, the zero point `zero`.
OnnxBuilder dynamic_layer(const Dims& x, const char* integers, const Dims& w, const std::vector<int>& codes,
                          const std::vector<float>& w_scale, int zero = 0, int type = TensorProto::INT8) {
  OnnxBuilder b;
  b.input("x", x);
  b.codes("w", w, codes, type);
  b.codes("wz", {}, {zero}, type);
  b.floats("ws", w_scale.size() == 1 ? Dims{} : Dims{int64_t(w_scale.size())}, w_scale);
  b.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  b.node(integers, {"q", "w", "z", "wz"}, {"i"});
  b.node("Mul", {"s", "ws"}, {"scales"});
  b.node("Cast", {"i"}, {"f"}).integer("to", TensorProto::FLOAT);
  b.node("Mul", {"f", "scales"}, {"y"});
  return b;
}

TEST(onnx_dynamic, a_product_of_sums_and_scales_is_one_dense_layer) {
  OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 2}, {1, 2, 3, 4}, {0.5f, 2});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kDense});
  const Layer& layer = graph.layers[size_t(graph.nodes[0].layer)];
  EXPECT_EQ(layer.name, "i_node");
  EXPECT_EQ(layer.source_op, "MatMulInteger");
  EXPECT_EQ(layer.policy.quantization, Quantization::kInt8Dynamic);
  EXPECT_EQ(layer.policy.activation_zero, 1);
  EXPECT_EQ(integers(operand(graph, graph.nodes[0], 1)), (Dims{1, 3, 2, 4}));
  EXPECT_EQ(ops(converted(b)), (std::vector<Op>{Op::kDynamicQuantize, Op::kDense}));
  EXPECT_EQ(get_integer(converted(b).nodes[0], "onnx"), 1);
  // x = {255, 100} in steps of 1: {(255 + 300) / 2, (510 + 400) * 2}
  EXPECT_EQ(reals(run_converted<float>(b, {255, 100})), (std::vector<float>{277.5f, 1820}));
  EXPECT_EQ(reals(run_converted<float>(b, {-255, 0})), (std::vector<float>{-127.5f, -1020}));
}

TEST(onnx_dynamic, a_stored_bias_after_it_belongs_to_the_layer) {
  OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {1, 2}, {1});
  b.floats("b", {1}, {1000});
  b.node("Add", {"b", "y"}, {"t"});
  b.output("t");
  EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kDense});
  EXPECT_EQ(reals(run_converted<float>(b, {255, 3})), std::vector<float>{1261});
}

TEST(onnx_dynamic, conv_integer_keeps_its_window_and_takes_a_bias_of_channels) {
  OnnxBuilder b = dynamic_layer({1, 1, 1, 3}, "ConvInteger", {2, 1, 1, 3}, {1, 2, 3, 10, 20, 30}, {0.5f, 1});
  b.model().mutable_graph()->mutable_node(1)->set_name("conv");
  OnnxNode(b.model().mutable_graph()->mutable_node(1)).ints("pads", {0, 1, 0, 0});
  b.floats("b", {1, 2, 1, 1}, {0.25f, 8});
  b.node("Add", {"y", "b"}, {"t"});
  b.output("t");
  const Graph graph = imported(b);
  EXPECT_EQ(get_integer(first(graph, Op::kConv2d), "pad_left"), 1);
  EXPECT_EQ(graph.layers[size_t(first(graph, Op::kConv2d).layer)].name, "conv");
  // Padding stands for the real 0. Channel 0: {2 * 255 + 3 * 1, 255 + 2 * 1 + 3 * 2} / 2 + 1/4
  EXPECT_EQ(reals(run_converted<float>(b, {255, 1, 2})), (std::vector<float>{256.75f, 131.75f, 5138, 2638}));
}

TEST(onnx_dynamic, weights_may_have_a_zero_point) {
  OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {129, 126}, {1}, 128, TensorProto::UINT8);
  b.output("y");
  EXPECT_EQ(reals(run_converted<float>(b, {255, 100})), std::vector<float>{55});
  OnnxBuilder skewed = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {129, 126}, {1}, 100, TensorProto::UINT8);
  skewed.output("y");
  // 29 * 255 + 26 * 100, in steps of 1
  EXPECT_EQ(reals(run_converted<float>(skewed, {255, 100})), std::vector<float>{9995});
  OnnxBuilder signed_codes = dynamic_layer({1, 2}, "MatMulInteger", {2, 2}, {1, 2, 3, 4}, {0.5f, 2}, -3);
  signed_codes.floats("b", {2}, {1, -1});
  signed_codes.node("Add", {"y", "b"}, {"t"});
  signed_codes.output("t");
  EXPECT_EQ(reals(run_converted<float>(signed_codes, {255, 100})), (std::vector<float>{811, 3949}));
  // Padding stands for the real 0.
  OnnxBuilder conv = dynamic_layer({1, 1, 1, 3}, "ConvInteger", {2, 1, 1, 3}, {1, 2, 3, 10, 20, 30}, {0.5f, 1}, 1);
  OnnxNode(conv.model().mutable_graph()->mutable_node(1)).ints("pads", {0, 1, 0, 0});
  conv.output("y");
  EXPECT_EQ(reals(run_converted<float>(conv, {255, 1, 2})), (std::vector<float>{128.5f, 2.5f, 4874, 2372}));
  // Two groups, of two output channels each and of one each.
  for (const int channels : {4, 2}) {
    std::vector<int> codes = {1, 2, 3, 4, 5, 6, 7, 8};
    codes.resize(size_t(2 * channels));
    OnnxBuilder groups = dynamic_layer({1, 2, 1, 2}, "ConvInteger", {channels, 1, 1, 2}, codes, {1}, 1);
    OnnxNode(groups.model().mutable_graph()->mutable_node(1)).integer("group", 2);
    groups.output("y");
    const std::vector<float> wide = {1, 513, 23, 33}, narrow = {1, 13};
    EXPECT_EQ(reals(run_converted<float>(groups, {255, 1, 2, 3})), channels == 4 ? wide : narrow);
  }
}

TEST(onnx_dynamic, one_scale_serves_all_of_x_where_axis_0_is_no_batch) {
  OnnxBuilder b = dynamic_layer({2, 1}, "MatMulInteger", {1, 1}, {1}, {1});
  b.output("y");
  const Graph graph = converted(b);
  EXPECT_EQ(graph.values[size_t(first(graph, Op::kDynamicQuantize).outputs[1])].elements(), 1);
  // If each row had its own scale, the second row would be exact.
  EXPECT_EQ(reals(run_converted<float>(b, {255, 0.25f})), (std::vector<float>{255, 0}));
}

TEST(onnx_dynamic, its_sums_are_read_by_nothing_else) {
  for (const std::string part : {"i", "f", "scales"}) {
    OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {1, 2}, {1});
    b.node("Abs", {part}, {"other"});
    b.output("y");
    b.output("other");
    EXPECT_NE(refusal(b).find("dynamically quantized layer"), std::string::npos) << part << ": " << refusal(b);
  }
  for (const std::string part : {"i", "scales"}) {
    OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {1, 2}, {1});
    b.output(part);
    EXPECT_NE(refusal(b).find("dynamically quantized layer"), std::string::npos) << part << ": " << refusal(b);
  }
}

// With QUInt8, quantize_dynamic gives weights a zero point that need not be 0. With QInt8 it is 0.
TEST(onnx_dynamic, stacked_matrices_with_a_zero_point_are_refused_with_what_works) {
  const std::vector<int> codes = {1, 2, 3, 4};
  OnnxBuilder b = dynamic_layer({2, 1, 2}, "MatMulInteger", {2, 2, 1}, codes, {1}, 3, TensorProto::UINT8);
  b.output("y");
  EXPECT_NE(refusal(b).find("its weights [2, 2, 1] have a zero point, and are no matrix"), std::string::npos);
  EXPECT_NE(refusal(b).find("weight_type=QuantType.QInt8"), std::string::npos) << refusal(b);
  OnnxBuilder signed_codes = dynamic_layer({2, 1, 2}, "MatMulInteger", {2, 2, 1}, codes, {1});
  signed_codes.output("y");
  EXPECT_FALSE(imported(signed_codes).nodes.empty());
}

TEST(onnx_dynamic, casts_to_float8_at_run_time_are_refused_by_name) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.node("Cast", {"x"}, {"f8"}).integer("to", 17);  // FLOAT8E4M3FN
  b.node("Cast", {"f8"}, {"y"}).integer("to", TensorProto::FLOAT);
  b.output("y");
  EXPECT_NE(refusal(b).find("casts float32 to float8_e4m3 at run time"), std::string::npos) << refusal(b);
  EXPECT_NE(refusal(b).find("float8/current_from_float32"), std::string::npos) << refusal(b);
}

TEST(onnx_dynamic, integer_products_of_other_codes_are_refused) {
  OnnxBuilder b;
  b.input("q", {1, 2}, {}, TensorProto::UINT8);
  b.codes("w", {2, 1}, {1, 2});
  b.node("MatMulInteger", {"q", "w"}, {"y"});
  b.output("y");
  EXPECT_NE(refusal(b).find("quantize_dynamic"), std::string::npos) << refusal(b);
}

TEST(onnx_dynamic, scales_of_another_tensor_are_refused) {
  OnnxBuilder b = dynamic_layer({1, 2}, "MatMulInteger", {2, 1}, {1, 2}, {1});
  b.input("x2", {1, 2});
  b.node("DynamicQuantizeLinear", {"x2"}, {"q2", "s2", "z2"});
  b.node("Mul", {"s2", "ws"}, {"scales2"});
  b.node("Mul", {"f", "scales2"}, {"y2"});
  b.output("y2");
  EXPECT_NE(refusal(b).find("sums and scales"), std::string::npos) << refusal(b);
}

TEST(onnx_dynamic, the_operators_that_onnxruntime_fuses_it_to_are_the_same_layer) {
  OnnxBuilder whole;
  use_microsoft_domain(whole);
  whole.input("x", {1, 2});
  whole.codes("w", {2, 1}, {1, 2});
  whole.floats("ws", {1}, {0.5f});
  whole.floats("b", {1}, {4});
  whole.node("DynamicQuantizeMatMul", {"x", "w", "ws", "", "b"}, {"y"}).domain("com.microsoft");
  whole.output("y");
  EXPECT_EQ(ops(converted(whole)), (std::vector<Op>{Op::kDynamicQuantize, Op::kDense}));
  EXPECT_EQ(reals(run_converted<float>(whole, {255, 3})), std::vector<float>{134.5f});
  OnnxBuilder half;
  use_microsoft_domain(half);
  half.input("x", {1, 2});
  half.codes("w", {2, 1}, {1, 2});
  half.floats("ws", {1}, {0.5f});
  half.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  half.node("MatMulIntegerToFloat", {"q", "w", "s", "ws", "z"}, {"y"}).domain("com.microsoft");
  half.output("y");
  EXPECT_EQ(reals(run_converted<float>(half, {255, 3})), std::vector<float>{130.5f});
}

// Builds an LSTM of two directions and width 1. W and R, both [2, 4, 1], are (codes [2, 1, 4] - 2) / 8.
OnnxBuilder lstm_of(bool codes, bool scale_of_each) {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", {3, 1, 1});
  std::vector<int> stored;
  std::vector<float> reals, sixteenths(16, 0.0f);
  for (int i = 0; i < 8; ++i) stored.push_back(3 * i - 9), reals.push_back(float(3 * i - 11) / 8);
  for (int i = 0; i < 16; ++i) sixteenths[size_t(i)] = float(i - 8) / 16;
  b.floats("b", {2, 8}, sixteenths);
  if (codes) {
    const Dims dims = scale_of_each ? Dims{2, 4} : Dims{2};
    const size_t count = scale_of_each ? 8 : 2;
    b.codes("w", {2, 1, 4}, stored);
    b.floats("s", dims, std::vector<float>(count, 0.125f));
    b.codes("z", dims, std::vector<int>(count, 2));
    OnnxNode node = b.node("DynamicQuantizeLSTM", {"x", "w", "w", "b", "", "", "", "", "s", "z", "s", "z"}, {"", "h"});
    node.domain("com.microsoft").integer("hidden_size", 1).text("direction", "bidirectional");
  } else {
    b.floats("w", {2, 4, 1}, reals);
    b.node("LSTM", {"x", "w", "w", "b"}, {"", "h"}).integer("hidden_size", 1).text("direction", "bidirectional");
  }
  b.output("h");
  return b;
}

TEST(onnx_dynamic, an_lstm_of_codes_is_one_of_what_they_stand_for) {
  const std::vector<float> x = {1, -2, 3}, expected = reals(run_converted<float>(lstm_of(false, false), x));
  EXPECT_EQ(reals(run_converted<float>(lstm_of(true, false), x)), expected);
  EXPECT_EQ(reals(run_converted<float>(lstm_of(true, true), x)), expected);
}

TEST(onnx_dynamic, every_flipped_byte_gives_a_graph_or_an_error) {
  OnnxBuilder dense = dynamic_layer({3, 2}, "MatMulInteger", {2, 2}, {1, 2, 3, 4}, {0.5f, 2});
  dense.output("y");
  flip_every_byte(dense);
  OnnxBuilder conv = dynamic_layer({1, 1, 1, 3}, "ConvInteger", {2, 1, 1, 3}, {1, 2, 3, 10, 20, 30}, {0.5f, 1});
  conv.output("y");
  flip_every_byte(conv);
}

// ---- The arithmetic of NUMERICS.md eq. 13o, computed here in uint8 and with libm

struct Expected {
  std::vector<int> codes;  // uint8 codes minus 128
  float scale;
  int zero;
};

Expected dynamic_quantize_linear(const std::vector<float>& x) {
  const float low = std::min(0.0f, *std::min_element(x.begin(), x.end()));
  const float high = std::max(0.0f, *std::max_element(x.begin(), x.end()));
  Expected y = {{}, high == low ? 1.0f : (high - low) / 255.0f, 0};
  const float zero = std::nearbyintf(std::max(0.0f, std::min(255.0f, 0.0f - low / y.scale)));
  y.zero = int(zero) - 128;
  for (const float v : x)
    y.codes.push_back(int(std::max(-zero, std::min(255.0f - zero, std::nearbyintf(v / y.scale)))) + y.zero);
  return y;
}

TEST(onnx_dynamic, codes_scale_and_zero_point_are_those_of_the_definition) {
  std::mt19937 rng(13);
  const auto uniform = [&] { return float(rng() >> 8) * 0x1p-24f; };
  for (int round = 0; round < 2000; ++round) {
    const float low = round % 3 == 0 ? 0 : -std::exp2(20 * uniform() - 10), high = std::exp2(20 * uniform() - 10);
    std::vector<float> x(1 + rng() % 64);
    for (float& v : x) v = low + (high - low) * uniform();
    if (round % 5 == 0) {  // ties: halves of steps of 1
      for (float& v : x) v = float(int(rng() % 511)) * 0.5f;
      x[0] = 255;
    }
    std::vector<int8_t> q(x.size());
    float scale = 0;
    int32_t zero = 0;
    const DynamicQuantize op = {.rows = 1, .width = int(x.size()), .symmetric = false, .onnx = true};
    op.forward(x.data(), q.data(), &scale, &zero);
    const Expected expected = dynamic_quantize_linear(x);
    ASSERT_EQ(scale, expected.scale) << round;
    ASSERT_EQ(zero, expected.zero) << round;
    ASSERT_EQ(std::vector<int>(q.begin(), q.end()), expected.codes) << round;
  }
}

// The graph outputs q, s, z and the dequantized x. A layer reads the codes q too.
TEST(onnx_dynamic, codes_scale_and_zero_point_are_values_of_their_own_too) {
  OnnxBuilder b = dynamic_layer({2, 3}, "MatMulInteger", {3, 1}, {1, 2, 3}, {1});
  b.node("DequantizeLinear", {"q", "s", "z"}, {"real"});
  for (const char* name : {"q", "s", "z", "real", "y"}) b.output(name);
  const Graph graph = converted(b);
  EXPECT_EQ(first(graph, Op::kDense).op, Op::kDense);
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> x(6);
    for (float& v : x) v = round == 0 ? 0 : float(int(rng() % 2001) - 1000 + round * 20) / 64;
    const Graph ran = run_graph(graph, {bytes_of(x)});
    const Expected expected = dynamic_quantize_linear(x);
    EXPECT_EQ(reals(output(ran, 1)), std::vector<float>{expected.scale}) << round;
    EXPECT_EQ(integers(output(ran, 2)), std::vector<int64_t>{expected.zero + 128}) << round;
    std::vector<int64_t> codes;
    std::vector<float> back;
    for (const int code : expected.codes)
      codes.push_back(code + 128), back.push_back(float(code - expected.zero) * expected.scale);
    EXPECT_EQ(integers(output(ran, 0)), codes) << round;
    EXPECT_EQ(reals(output(ran, 3)), back) << round;
    EXPECT_EQ(output(ran, 0).type, ElementType::kUint8);
  }
}

TEST(onnx_dynamic, a_range_without_a_step_has_scale_1) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& x : {std::vector<float>{0, 0}, std::vector<float>{-kTiny, kTiny}}) {
    int8_t q[2];
    float scale = 0;
    int32_t zero = 0;
    DynamicQuantize{.rows = 1, .width = 2, .symmetric = false, .onnx = true}.forward(x.data(), q, &scale, &zero);
    EXPECT_EQ(scale, 1);
    EXPECT_EQ(zero, -128);
    EXPECT_EQ(q[0], -128);
    EXPECT_EQ(q[1], -128);
  }
}

}  // namespace
}  // namespace nacre::tools
