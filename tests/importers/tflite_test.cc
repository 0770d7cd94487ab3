// Tests which layers import_tflite makes of files built in memory. tflite_shapes_test.cc has operators that move
// elements, the batch and names; tflite_files_test.cc has real networks and bad input.
#include <gtest/gtest.h>

#include <limits>

#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> ramp(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = float(i) / 8;
  return numbers;
}

struct ConvCase {
  std::vector<int32_t> x, w, y;
  Padding padding = Padding::SAME;
  int stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  Activation activation = Activation::NONE;
};

std::vector<uint8_t> conv(const ConvCase& c) {
  TfliteBuilder b;
  const auto elements = size_t(c.w[0]) * size_t(c.w[1]) * size_t(c.w[2]) * size_t(c.w[3]);
  const int x = b.activation("x", c.x), w = b.floats("w", c.w, ramp(elements)),
            bias = b.floats("b", {c.w[0]}, ramp(size_t(c.w[0])));
  const int y = b.activation("y", c.y);
  b.op(BuiltinOperator::CONV_2D, {x, w, bias}, {y},
       CreateConv2DOptions(b.fbb(), c.padding, c.stride_w, c.stride_h, c.activation, c.dilation_w, c.dilation_h));
  return b.finish({x}, {y});
}

std::vector<int> pads(const Node& node) {
  return {get_integer(node, "pad_top"), get_integer(node, "pad_left"), get_integer(node, "pad_bottom"),
          get_integer(node, "pad_right")};
}

TEST(import_tflite, same_padding_puts_the_odd_one_after) {
  // 10 x 7, kernel 4 x 2, stride 2 x 1, dilation 1 x 3: out 5 x 7, total (5-1)*2+4-10 = 2 and (7-1)+1*3+1-7 = 3.
  const Graph graph =
      imported(conv({.x = {1, 10, 7, 2}, .w = {3, 4, 2, 2}, .y = {1, 5, 7, 3}, .stride_h = 2, .dilation_w = 3}));
  ASSERT_EQ(graph.nodes.size(), 1u);
  const Node& node = graph.nodes[0];
  EXPECT_EQ(node.op, Op::kConv2d);
  EXPECT_EQ(pads(node), (std::vector<int>{1, 1, 1, 2}));
  EXPECT_EQ(get_integer(node, "stride_h"), 2);
  EXPECT_EQ(get_integer(node, "dilation_w"), 3);
  EXPECT_EQ(get_integer(node, "clamp"), 0);
  EXPECT_EQ(graph.inputs[0].layout, "NHWC");
}

TEST(import_tflite, same_padding_of_a_stride_over_the_kernel_is_none) {
  // 7, kernel 1, stride 3: out 3, total (3-1)*3+1-7 = 0; 8: out 3, total max(0, 7-8).
  const Graph graph =
      imported(conv({.x = {1, 7, 8, 1}, .w = {1, 1, 1, 1}, .y = {1, 3, 3, 1}, .stride_h = 3, .stride_w = 3}));
  EXPECT_EQ(pads(graph.nodes[0]), (std::vector<int>{0, 0, 0, 0}));
}

TEST(import_tflite, valid_padding_is_none) {
  const Graph graph =
      imported(conv({.x = {1, 5, 5, 1}, .w = {1, 3, 3, 1}, .y = {1, 3, 3, 1}, .padding = Padding::VALID}));
  EXPECT_EQ(pads(graph.nodes[0]), (std::vector<int>{0, 0, 0, 0}));
}

TEST(import_tflite, groups_are_channels_over_those_of_the_filter) {
  const Graph graph = imported(conv({.x = {1, 4, 4, 6}, .w = {9, 1, 1, 2}, .y = {1, 4, 4, 9}}));
  EXPECT_EQ(get_integer(graph.nodes[0], "groups"), 3);
}

TEST(import_tflite, fused_activations_are_real_bounds_of_the_node) {
  const struct {
    Activation activation;
    float low, high;
  } cases[] = {{Activation::RELU, 0, kInfinity}, {Activation::RELU6, 0, 6}, {Activation::RELU_N1_TO_1, -1, 1}};
  for (const auto& c : cases) {
    const Graph graph =
        imported(conv({.x = {1, 2, 2, 1}, .w = {1, 1, 1, 1}, .y = {1, 2, 2, 1}, .activation = c.activation}));
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(get_integer(graph.nodes[0], "clamp"), 1);
    EXPECT_EQ(get_real(graph.nodes[0], "low"), c.low);
    EXPECT_EQ(get_real(graph.nodes[0], "high"), c.high);
  }
}

TEST(import_tflite, fused_tanh_is_a_node_of_the_same_layer) {
  const Graph graph =
      imported(conv({.x = {1, 2, 2, 1}, .w = {1, 1, 1, 1}, .y = {1, 2, 2, 1}, .activation = Activation::TANH}));
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[1].op, Op::kTanh);
  EXPECT_EQ(graph.nodes[0].layer, graph.nodes[1].layer);
  EXPECT_EQ(output(graph, graph.nodes[1]).name, "y");
}

TEST(import_tflite, depthwise_filters_lose_their_first_axis_and_keep_codes) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4, 4, 2}, 0.5f, -3);
  std::vector<int8_t> data(36);
  for (size_t i = 0; i < data.size(); ++i) data[i] = int8_t(int(i) - 18);
  const int w = b.codes("w", {1, 3, 3, 4}, data, {{0.1f, 0.2f, 0.3f, 0.4f}, {0, 0, 0, 0}, 3});
  const int bias = b.int32s("b", {4}, {1, -2, 3, -4}, {{0.05f, 0.1f, 0.15f, 0.2f}, {0, 0, 0, 0}, 0});
  const int y = b.activation("y", {1, 2, 2, 4}, 0.25f, 7);
  b.op(BuiltinOperator::DEPTHWISE_CONV_2D, {x, w, bias}, {y},
       CreateDepthwiseConv2DOptions(b.fbb(), Padding::VALID, 1, 1, 2, Activation::RELU6));
  const Graph graph = imported(b.finish({x}, {y}));
  const Node& node = graph.nodes[0];
  EXPECT_EQ(node.op, Op::kDepthwiseConv2d);
  const Value& filter = input(graph, node, 1);
  EXPECT_EQ(filter.dims, (Dims{3, 3, 4}));
  EXPECT_EQ(filter.type, ElementType::kFloat32);
  EXPECT_EQ(filter.stored, ElementType::kInt8);
  EXPECT_EQ(filter.quantizer->axis, 2);
  EXPECT_EQ(integers(filter), (Dims(data.begin(), data.end())));
  EXPECT_EQ(input(graph, node, 2).stored, ElementType::kInt32);
  EXPECT_EQ(output(graph, node).quantizer->scale, std::vector<float>{0.25f});
  EXPECT_EQ(output(graph, node).quantizer->zero, std::vector<int64_t>{7});
  EXPECT_EQ(get_real(node, "high"), 6);  // real bounds, whatever the codes are
  EXPECT_EQ(graph.layers[0].policy.quantization, Quantization::kInt8Static);
}

TEST(import_tflite, a_bias_without_scale_gets_that_of_the_accumulator) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, 0), w = b.codes("w", {2, 2}, {1, 2, 3, 4}, {{0.25f}, {0}, 0});
  const int bias = b.int32s("b", {2}, {8, -8}), y = b.activation("y", {1, 2}, 1, 0);
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, bias}, {y}, CreateFullyConnectedOptions(b.fbb()));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(reals(value(graph, "b")), (std::vector<float>{1, -1}));
}

TEST(import_tflite, float_activations_over_int8_filters_are_a_hybrid_layer) {
  const struct {
    std::vector<float> scale;
    std::vector<int32_t> x, w;
    int activation_zero;
  } cases[] = {
      {{0.5f}, {1, 2, 2, 2}, {2, 1, 1, 2}, 0},         // one scale: symmetric
      {{0.5f, 0.5f}, {1, 2, 2, 2}, {2, 1, 1, 2}, 0},   // equal scales are one
      {{0.5f, 0.25f}, {1, 2, 2, 2}, {2, 1, 1, 2}, 1},  // per channel: with a zero point
      {{0.5f}, {1, 2, 2, 4}, {2, 1, 1, 2}, 1},         // with groups: with a zero point
  };
  for (const auto& c : cases) {
    TfliteBuilder b;
    const int x = b.activation("x", c.x);
    const int w = b.codes("w", c.w, {1, 2, 3, 4}, {c.scale, std::vector<int64_t>(c.scale.size()), 0});
    const int y = b.activation("y", {1, 2, 2, 2});
    b.op(BuiltinOperator::CONV_2D, {x, w, b.floats("b", {2}, {1, 2})}, {y},
         CreateConv2DOptions(b.fbb(), Padding::SAME, 1, 1));
    const Graph graph = imported(b.finish({x}, {y}));
    const Policy& policy = graph.layers[0].policy;
    EXPECT_EQ(policy.quantization, Quantization::kInt8Dynamic);
    EXPECT_EQ(policy.activation_zero, c.activation_zero);
    EXPECT_EQ(input(graph, graph.nodes[0], 1).stored, ElementType::kInt8);
    EXPECT_FALSE(output(graph, graph.nodes[0]).quantizer);
  }
}

std::vector<uint8_t> dense(const std::vector<int32_t>& x_shape, const std::vector<int32_t>& y_shape, bool keep,
                           bool hybrid, bool asymmetric) {
  TfliteBuilder b;
  const int x = b.activation("x", x_shape), y = b.activation("y", y_shape);
  const int w = hybrid ? b.codes("w", {2, 3}, {1, 2, 3, 4, 5, 6}, {{0.5f}, {0}, 0}) : b.floats("w", {2, 3}, ramp(6));
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, -1}, {y},
       CreateFullyConnectedOptions(b.fbb(), Activation::RELU, WeightsFormat::DEFAULT, keep, asymmetric));
  return b.finish({x}, {y});
}

TEST(import_tflite, fully_connected_is_reshaped_only_where_shapes_need_it) {
  EXPECT_EQ(ops(imported(dense({1, 3}, {1, 2}, false, false, false))), (std::vector{Op::kDense}));
  EXPECT_EQ(ops(imported(dense({1, 2, 3}, {1, 2, 2}, true, false, false))), (std::vector{Op::kDense}));
  EXPECT_EQ(ops(imported(dense({1, 1, 1, 3}, {1, 2}, false, false, false))), (std::vector{Op::kReshape, Op::kDense}));
  EXPECT_EQ(ops(imported(dense({1, 2, 3}, {2, 2}, false, false, false))), (std::vector{Op::kReshape, Op::kDense}));
}

TEST(import_tflite, hybrid_fully_connected_works_on_rows) {
  const Graph graph = imported(dense({1, 2, 3}, {1, 2, 2}, true, true, true));
  EXPECT_EQ(ops(graph), (std::vector{Op::kReshape, Op::kDense, Op::kReshape}));
  EXPECT_EQ(input(graph, graph.nodes[1], 0).dims, (Dims{2, 3}));
  EXPECT_EQ(get_integer(graph.nodes[1], "clamp"), 1);
  EXPECT_EQ(graph.layers[0].policy.activation_zero, 1);
  EXPECT_EQ(imported(dense({1, 3}, {1, 2}, false, true, false)).layers[0].policy.activation_zero, 0);
}

TEST(import_tflite, pools_keep_kernel_stride_and_padding) {
  for (const BuiltinOperator code : {BuiltinOperator::AVERAGE_POOL_2D, BuiltinOperator::MAX_POOL_2D}) {
    const Graph graph = imported(unary(code, {1, 5, 6, 2}, {1, 3, 2, 2}, [](auto& f) {
      return CreatePool2DOptions(f, Padding::SAME, 3, 2, 4, 3, Activation::RELU);
    }));
    const Node& node = graph.nodes[0];
    EXPECT_EQ(node.op, code == BuiltinOperator::MAX_POOL_2D ? Op::kMaxPool : Op::kAveragePool);
    EXPECT_EQ(get_integer(node, "kernel_h"), 3);
    EXPECT_EQ(get_integer(node, "kernel_w"), 4);
    EXPECT_EQ(pads(node), (std::vector<int>{1, 0, 1, 1}));  // (3-1)*2+3-5 = 2; (2-1)*3+4-6 = 1
    EXPECT_EQ(get_integer(node, "clamp"), 1);
  }
}

TEST(import_tflite, activations_are_one_node) {
  const struct {
    BuiltinOperator code;
    Op op;
  } cases[] = {{BuiltinOperator::LOGISTIC, Op::kSigmoid},     {BuiltinOperator::TANH, Op::kTanh},
               {BuiltinOperator::HARD_SWISH, Op::kHardSwish}, {BuiltinOperator::RELU, Op::kClamp},
               {BuiltinOperator::RELU6, Op::kClamp},          {BuiltinOperator::RELU_N1_TO_1, Op::kClamp},
               {BuiltinOperator::RELU_0_TO_1, Op::kClamp}};
  for (const auto& c : cases) EXPECT_EQ(ops(imported(unary(c.code, {1, 4}, {1, 4}))), (std::vector{c.op}));
  const Graph leaky = imported(
      unary(BuiltinOperator::LEAKY_RELU, {1, 4}, {1, 4}, [](auto& f) { return CreateLeakyReluOptions(f, 0.25f); }));
  EXPECT_EQ(get_real(leaky.nodes[0], "alpha"), 0.25f);
  const Graph softmax = imported(
      unary(BuiltinOperator::SOFTMAX, {1, 3, 4}, {1, 3, 4}, [](auto& f) { return CreateSoftmaxOptions(f, 2); }));
  EXPECT_EQ(get_integer(softmax.nodes[0], "axis"), 2);
  EXPECT_EQ(get_real(softmax.nodes[0], "beta"), 2);
}

TEST(import_tflite, relu_0_to_1_has_its_own_opcode_beyond_the_old_byte) {
  const Graph graph = imported(unary(BuiltinOperator::RELU_0_TO_1, {1, 4}, {1, 4}));
  EXPECT_EQ(get_real(graph.nodes[0], "high"), 1);
}

TEST(import_tflite, the_larger_of_two_opcodes_counts) {
  TfliteBuilder b;
  b.old_codes = true;
  const int x = b.activation("x", {1, 4}), y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::TANH, {x}, {y});
  EXPECT_EQ(ops(imported(b.finish({x}, {y}))), (std::vector{Op::kTanh}));
}

TEST(import_tflite, arithmetic_broadcasts_and_clamps) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2, 3}), c = b.floats("c", {3}, {1, 2, 3}), s = b.activation("s", {1, 2, 3}),
            y = b.activation("y", {1, 2, 3});
  b.op(BuiltinOperator::MUL, {x, c}, {s}, CreateMulOptions(b.fbb(), Activation::RELU6));
  b.op(BuiltinOperator::SUB, {x, s}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kMul, Op::kSub}));
  EXPECT_EQ(get_real(graph.nodes[0], "high"), 6);
  EXPECT_EQ(get_integer(graph.nodes[1], "clamp"), 0);
}

TEST(import_tflite, mean_takes_axes_from_either_end) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4, 5, 6}), axes = b.int32s("axes", {2}, {-3, 2}),
            y = b.activation("y", {1, 1, 1, 6});
  b.op(BuiltinOperator::MEAN, {x, axes}, {y}, CreateReducerOptions(b.fbb(), true));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(get_integer(graph.nodes[0], "axes"), 6);
  EXPECT_EQ(get_integer(graph.nodes[0], "keep_dims"), 1);
}

TEST(import_tflite, quantize_and_dequantize_leave_real_values) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), q = b.activation("q", {1, 4}, 0.5f, 1),
            r = b.activation("r", {1, 4}, 0.25f, 2);
  const int y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::QUANTIZE, {x}, {q});
  b.op(BuiltinOperator::QUANTIZE, {q}, {r});
  b.op(BuiltinOperator::DEQUANTIZE, {r}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kCopy, Op::kCopy, Op::kCopy}));
  EXPECT_EQ(value(graph, "q").type, ElementType::kFloat32);
  EXPECT_EQ(value(graph, "r").quantizer->scale[0], 0.25f);
  EXPECT_FALSE(value(graph, "y").quantizer);
}

TEST(import_tflite, float16_weights_are_folded) {
  TfliteBuilder b;
  // 1, -2, 65504 (the largest), 2^-24 (the smallest): exact in float32
  const int half = b.tensor({.name = "h",
                             .type = TensorType::FLOAT16,
                             .shape = {2, 2},
                             .data = {0x00, 0x3C, 0x00, 0xC0, 0xFF, 0x7B, 0x01, 0x00},
                             .codes = {},
                             .signature = {}});
  const int w = b.activation("w", {2, 2}), x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
  b.op(BuiltinOperator::DEQUANTIZE, {half}, {w});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w}, {y}, CreateFullyConnectedOptions(b.fbb()));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kDense}));
  EXPECT_EQ(reals(value(graph, "w")), (std::vector<float>{1, -2, 65504, 0x1p-24f}));
}

TEST(import_tflite, cast_keeps_real_integers) {
  TfliteBuilder b;
  const int x =
      b.tensor({.name = "x", .type = TensorType::INT32, .shape = {1, 4}, .data = {}, .codes = {}, .signature = {}});
  const int y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::CAST, {x}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(value(graph, "x").type, ElementType::kInt32);
  EXPECT_EQ(graph.nodes[0].op, Op::kCast);
}

}  // namespace
}  // namespace nacre::tools::tflite
