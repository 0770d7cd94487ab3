// Tests which graph import_onnx makes of files built in memory: layouts, quantizers, folding, names. ONNX's own tests
// (tests/onnx/) check the numbers. onnx_files_test.cc has the bad input.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

// ---- Layout

TEST(onnx, convolutions_share_one_layout_between_borders) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8});
  b.filled("w1", {4, 3, 3, 3}, 1);
  b.filled("w2", {5, 4, 1, 1}, 1);
  b.node("Conv", {"x", "w1"}, {"a"});
  b.node("Relu", {"a"}, {"r"});
  b.node("Conv", {"r", "w2"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kTranspose, Op::kConv2d, Op::kClamp, Op::kConv2d, Op::kTranspose}));
  EXPECT_EQ(value(graph, "a").dims, (Dims{1, 6, 6, 4}));
  EXPECT_EQ(output(graph).dims, (Dims{1, 5, 6, 6}));
  EXPECT_EQ(graph.outputs[0].name, "y");
  EXPECT_EQ(graph.inputs[0].layout, "NCHW");
}

TEST(onnx, io_nhwc_needs_no_transpose_at_all) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8});
  b.filled("w", {4, 3, 3, 3}, 1);
  b.node("Conv", {"x", "w"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, {.io_nhwc = true});
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kConv2d});
  EXPECT_EQ(graph.values[size_t(graph.inputs[0].value)].dims, (Dims{1, 8, 8, 3}));
  EXPECT_EQ(graph.inputs[0].layout, "NHWC");
  EXPECT_EQ(output(graph).dims, (Dims{1, 6, 6, 4}));
}

TEST(onnx, transposes_of_nhwc_exporters_disappear) {
  OnnxBuilder b;
  b.input("x", {1, 8, 8, 3});
  b.filled("w", {4, 3, 3, 3}, 1);
  b.node("Transpose", {"x"}, {"t"}).ints("perm", {0, 3, 1, 2});
  b.node("Conv", {"t", "w"}, {"c"});
  b.node("Transpose", {"c"}, {"y"}).ints("perm", {0, 2, 3, 1});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kConv2d});
}

TEST(onnx, broadcast_constants_follow_the_layout) {
  OnnxBuilder b;
  b.input("x", {1, 2, 1, 3});
  b.floats("w", {2, 2, 1, 1}, {1, 0, 0, 1});
  b.floats("c", {2, 1, 1}, {10, 20});
  b.node("Conv", {"x", "w"}, {"a"});
  b.node("Add", {"a", "c"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {1, 2, 3, 4, 5, 6}), (std::vector<float>{11, 12, 13, 24, 25, 26}));
}

TEST(onnx, a_1d_convolution_has_height_1) {
  OnnxBuilder b;
  b.input("x", {1, 2, 4});
  b.counted("w", {1, 2, 2});
  b.node("Conv", {"x", "w"}, {"y"});
  b.output("y");
  // y_i = 0 x0_i + 1 x0_i+1 + 2 x1_i + 3 x1_i+1
  EXPECT_EQ(computed(b, {1, 2, 3, 4, 5, 6, 7, 8}), (std::vector<float>{2 + 10 + 18, 3 + 12 + 21, 4 + 14 + 24}));
  EXPECT_EQ(output(imported(b)).dims, (Dims{1, 1, 3}));
}

// ---- Windows

TEST(onnx, one_group_per_channel_is_depthwise) {
  OnnxBuilder b;
  b.input("x", {1, 2, 1, 1});
  b.floats("w", {4, 1, 1, 1}, {1, 2, 3, 4});
  b.node("Conv", {"x", "w"}, {"y"}).integer("group", 2);
  b.output("y");
  EXPECT_EQ(first(imported(b), Op::kDepthwiseConv2d).op, Op::kDepthwiseConv2d);
  EXPECT_EQ(computed(b, {10, 100}), (std::vector<float>{10, 20, 300, 400}));
}

TEST(onnx, groups_of_several_channels_stay_a_grouped_convolution) {
  OnnxBuilder b;
  b.input("x", {1, 4, 1, 1});
  b.floats("w", {2, 2, 1, 1}, {1, 2, 3, 4});
  b.node("Conv", {"x", "w"}, {"y"}).integer("group", 2);
  b.output("y");
  EXPECT_EQ(get_integer(first(imported(b), Op::kConv2d), "groups"), 2);
  EXPECT_EQ(computed(b, {1, 10, 100, 1000}), (std::vector<float>{21, 4300}));
}

TEST(onnx, pads_as_large_as_the_kernel_are_a_step) {
  OnnxBuilder b;
  b.input("x", {1, 1, 1, 2});
  b.floats("w", {1, 1, 1, 1}, {3});
  b.node("Conv", {"x", "w"}, {"y"}).ints("pads", {0, 1, 0, 2});
  b.output("y");
  EXPECT_EQ(first(imported(b), Op::kPad).op, Op::kPad);
  EXPECT_EQ(computed(b, {1, 2}), (std::vector<float>{0, 3, 6, 0, 0}));
}

TEST(onnx, same_upper_and_same_lower_put_the_odd_pad_on_their_side) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
    OnnxBuilder b;
    b.input("x", {1, 1, 1, 2});
    b.floats("w", {1, 1, 1, 2}, {1, 10});
    b.node("Conv", {"x", "w"}, {"y"}).text("auto_pad", mode);
    b.output("y");
    const bool upper = std::string(mode) == "SAME_UPPER";
    EXPECT_EQ(computed(b, {1, 2}), upper ? (std::vector<float>{21, 2}) : (std::vector<float>{10, 21})) << mode;
  }
}

TEST(onnx, ceil_mode_counts_no_element_twice_and_none_outside) {
  OnnxBuilder b(19);
  b.input("x", {1, 1, 1, 5});
  b.node("AveragePool", {"x"}, {"y"}).ints("kernel_shape", {1, 2}).ints("strides", {1, 2}).integer("ceil_mode", 1);
  b.output("y");
  EXPECT_EQ(computed(b, {1, 2, 3, 4, 5}), (std::vector<float>{1.5f, 3.5f, 5}));
}

TEST(onnx, pads_that_count_are_zeros_but_the_overhang_of_ceil_mode_is_not) {
  OnnxBuilder b(19);
  b.input("x", {1, 1, 1, 4});
  b.node("AveragePool", {"x"}, {"y"})
      .ints("kernel_shape", {1, 2})
      .ints("strides", {1, 2})
      .ints("pads", {0, 1, 0, 0})
      .integer("ceil_mode", 1)
      .integer("count_include_pad", 1);
  b.output("y");
  // windows [pad 1] [2 3] [4 and nothing]
  EXPECT_EQ(computed(b, {1, 2, 3, 4}), (std::vector<float>{0.5f, 2.5f, 4}));
}

// ---- Matrices

TEST(onnx, ceil_mode_takes_a_window_larger_than_its_input) {
  const auto pool = [](const char* op, int64_t stride) {
    OnnxBuilder b(19);
    b.input("x", {1, 1, 1, 2});
    b.node(op, {"x"}, {"y"}).ints("kernel_shape", {1, 3}).ints("strides", {1, stride}).integer("ceil_mode", 1);
    b.output("y");
    return b;
  };
  EXPECT_EQ(computed(pool("MaxPool", 2), {1, 5}), (std::vector<float>{5}));
  EXPECT_EQ(computed(pool("AveragePool", 2), {1, 5}), (std::vector<float>{3}));  // the overhang does not count
  EXPECT_NE(refusal(pool("MaxPool", 1)).find("its window is larger than the padded input"), std::string::npos);
}

TEST(onnx, a_maximum_over_all_spatial_axes_is_a_pool) {
  for (const bool keep : {true, false}) {
    OnnxBuilder b;
    b.input("x", {1, 2, 2, 3});
    b.node("ReduceMax", {"x"}, {"y"}).ints("axes", {2, -1}).integer("keepdims", keep ? 1 : 0);
    b.output("y");
    const Graph graph = imported(b);
    EXPECT_EQ(output(graph).dims, keep ? (Dims{1, 2, 1, 1}) : (Dims{1, 2}));
    EXPECT_EQ(first(graph, Op::kMaxPool).op, Op::kMaxPool);
    EXPECT_EQ(computed(b, {0, 5, 1, 4, 2, 3, -7, -1, -2, -3, -4, -5}), (std::vector<float>{5, -1}));
  }
  OnnxBuilder b;
  b.input("x", {1, 2, 2, 3});
  b.node("ReduceMax", {"x"}, {"y"}).ints("axes", {1});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kReduce});  // over other axes it is not a pool
  EXPECT_EQ(computed(b, {0, 5, 1, 4, 2, 3, -7, -1, -2, -3, -4, 9}), (std::vector<float>{0, 5, 1, 4, 2, 9}));
}

TEST(onnx, gemm_puts_alpha_into_the_weights_and_beta_into_the_bias) {
  OnnxBuilder b;
  b.input("x", {2, 1});
  b.floats("w", {2, 1}, {1, 2});
  b.floats("c", {1}, {10});
  b.node("Gemm", {"x", "w", "c"}, {"y"}).real("alpha", 2).real("beta", 0.5f).integer("transA", 1).integer("transB", 0);
  b.output("y");
  EXPECT_EQ(computed(b, {3, 4}), std::vector<float>{2 * (3 + 8) + 5});
}

TEST(onnx, a_matmul_and_its_stored_bias_are_one_step) {
  OnnxBuilder b;
  b.input("x", {2, 3, 2});
  b.counted("w", {2, 2});
  b.floats("c", {2}, {100, 200});
  b.node("MatMul", {"x", "w"}, {"m"});
  b.node("Add", {"c", "m"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  ASSERT_EQ(ops(graph), std::vector<Op>{Op::kDense});
  EXPECT_NE(graph.nodes[0].inputs[2], kNone);
  EXPECT_EQ(output(graph).name, "y");
}

TEST(onnx, a_matmul_that_is_read_twice_keeps_its_add) {
  OnnxBuilder b;
  b.input("x", {2, 2});
  b.counted("w", {2, 2});
  b.floats("c", {2}, {100, 200});
  b.node("MatMul", {"x", "w"}, {"m"});
  b.node("Add", {"m", "c"}, {"y"});
  b.output("y");
  b.output("m");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kDense, Op::kAdd}));
}

// ---- Functions of elements

TEST(onnx, prelu_with_one_slope_is_leaky_relu) {
  OnnxBuilder b;
  b.input("x", {1, 2, 2});
  b.floats("s", {2, 1}, {0.5f, 0.5f});
  b.node("PRelu", {"x", "s"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kLeakyRelu});
  EXPECT_EQ(computed(b, {-2, 2, -4, 4}), (std::vector<float>{-1, 2, -2, 4}));
}

TEST(onnx, prelu_with_several_slopes_is_composed) {
  OnnxBuilder b;
  b.input("x", {1, 2, 2});
  b.floats("s", {2, 1}, {0.5f, 0.25f});
  b.node("PRelu", {"x", "s"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {-2, 2, -4, 4}), (std::vector<float>{-1, 2, -1, 4}));
}

TEST(onnx, division_by_a_constant_is_a_product_and_logged_unless_exact) {
  for (const float divisor : {4.0f, 3.0f}) {
    OnnxBuilder b;
    b.input("x", {2});
    b.floats("c", {}, {divisor});
    b.node("Div", {"x", "c"}, {"y"});
    b.output("y");
    const Graph graph = imported(b);
    EXPECT_EQ(ops(graph), std::vector<Op>{Op::kMul});
    EXPECT_EQ(graph.log.size(), divisor == 4 ? 0u : 1u);
  }
}

TEST(onnx, min_and_max_with_constants_are_clamps) {
  OnnxBuilder b;
  b.input("x", {4});
  b.floats("low", {}, {-1});
  b.floats("high", {}, {2});
  b.node("Max", {"x", "low"}, {"m"});
  b.node("Min", {"high", "m"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kClamp, Op::kClamp}));
  EXPECT_EQ(computed(b, {-5, 0, 1, 5}), (std::vector<float>{-1, 0, 1, 2}));
}

TEST(onnx, softmax_before_opset_13_flattens) {
  OnnxBuilder b(11);
  b.input("x", {1, 2, 2});
  b.node("Softmax", {"x"}, {"y"}).integer("axis", 1);
  b.output("y");
  EXPECT_EQ(computed(b, {0, 0, 0, 0}), std::vector<float>(4, 0.25f));
  OnnxBuilder newer(13);
  newer.input("x", {1, 2, 2});
  newer.node("Softmax", {"x"}, {"y"}).integer("axis", 1);
  newer.output("y");
  EXPECT_EQ(computed(newer, {0, 0, 0, 0}), std::vector<float>(4, 0.5f));
}

// ---- Shapes

TEST(onnx, the_flatten_of_pytorch_exports_folds_to_a_reshape) {
  OnnxBuilder b;
  b.input("x", {1, 3, 4}, {"N"});
  b.integers("zero", {}, {0});
  b.integers("axis", {1}, {0});
  b.integers("rest", {1}, {-1});
  b.node("Shape", {"x"}, {"s"});
  b.node("Gather", {"s", "zero"}, {"n"}).integer("axis", 0);
  b.node("Unsqueeze", {"n", "axis"}, {"n1"});
  b.node("Concat", {"n1", "rest"}, {"shape"}).integer("axis", 0);
  b.node("Reshape", {"x", "shape"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, {.batch = 5});
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kReshape});
  EXPECT_EQ(output(graph).dims, (Dims{5, 12}));
  EXPECT_TRUE(output(graph).batched);
}

TEST(onnx, slices_go_backwards_over_negative_steps) {
  OnnxBuilder b;
  b.input("x", {5});
  b.integers("starts", {1}, {-1});
  b.integers("ends", {1}, {-100});
  b.integers("axes", {1}, {0});
  b.integers("steps", {1}, {-2});
  b.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {0, 1, 2, 3, 4}), (std::vector<float>{4, 2, 0}));
}

TEST(onnx, negative_pads_take_elements_away) {
  OnnxBuilder b;
  b.input("x", {4});
  b.integers("pads", {2}, {-1, 2});
  b.floats("v", {}, {9});
  b.node("Pad", {"x", "pads", "v"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {0, 1, 2, 3}), (std::vector<float>{1, 2, 3, 9, 9}));
}

TEST(onnx, gather_at_run_time_is_slices) {
  OnnxBuilder b;
  b.input("x", {5});
  b.integers("i", {4}, {0, 2, 4, -5});
  b.node("Gather", {"x", "i"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kSlice, Op::kSlice, Op::kConcat}));
  EXPECT_EQ(computed(b, {0, 1, 2, 3, 4}), (std::vector<float>{0, 2, 4, 0}));
}

// ---- Inputs and outputs

TEST(onnx, a_symbolic_batch_is_1_or_what_is_asked_for) {
  OnnxBuilder b;
  b.input("x", {0, 3}, {"N"});
  b.node("Relu", {"x"}, {"y"});
  b.output("y");
  EXPECT_EQ(output(imported(b)).dims, (Dims{1, 3}));
  const Graph four = imported(b, {.batch = 4});
  EXPECT_EQ(output(four).dims, (Dims{4, 3}));
  EXPECT_EQ(four.batch, 4);
  EXPECT_TRUE(output(four).batched);
}

TEST(onnx, weights_among_the_inputs_are_no_inputs) {
  OnnxBuilder b;
  b.model().set_ir_version(3);
  b.input("x", {1, 2});
  b.input("w", {2, 2});
  b.counted("w", {2, 2});
  b.node("MatMul", {"x", "w"}, {"y"});
  b.output("y");
  EXPECT_EQ(imported(b).inputs.size(), 1u);
}

TEST(onnx, every_output_has_a_value_of_its_own) {
  OnnxBuilder b;
  b.input("x", {2});
  b.floats("c", {2}, {5, 6});
  b.node("Identity", {"x"}, {"a"});
  b.node("Relu", {"x"}, {"r"});
  b.node("Identity", {"r"}, {"s"});
  for (const char* name : {"a", "r", "s", "c"}) b.output(name);
  const Graph graph = imported(b);
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{-1, 1})});
  const std::vector<std::vector<float>> expected = {{-1, 1}, {0, 1}, {0, 1}, {5, 6}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(reals(run.values[size_t(graph.outputs[i].value)]), expected[i]) << i;
    for (size_t k = 0; k < i; ++k) EXPECT_NE(graph.outputs[i].value, graph.outputs[k].value);
  }
}

TEST(onnx, nodes_that_no_output_needs_are_not_looked_at) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Relu", {"x"}, {"y"});
  b.node("NoSuchOperator", {"x"}, {"z"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kClamp});
}

TEST(onnx, functions_of_the_model_are_inlined_with_their_attributes) {
  OnnxBuilder b;
  b.model().add_opset_import()->set_domain("mine");
  b.input("x", {2, 3});
  b.node("Twice", {"x"}, {"y"}).domain("mine").integer("which", 1);
  b.output("y");
  ::onnx::FunctionProto& f = *b.model().add_functions();
  f.set_name("Twice");
  f.set_domain("mine");
  f.add_opset_import()->set_version(17);
  f.add_input("a");
  f.add_output("c");
  f.add_attribute("which");
  OnnxBuilder body;
  body.node("Relu", {"a"}, {"b"});
  body.node("Softmax", {"b"}, {"c"}).refer("axis", "which");
  for (const auto& node : body.model().graph().node()) *f.add_node() = node;
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kClamp, Op::kSoftmax}));
  EXPECT_EQ(get_integer(graph.nodes[1], "axis"), 1);
}

}  // namespace
}  // namespace nacre::tools
