// Tests import_onnx on functions of one number, of two tensors and over axes: the nodes, the layouts, and numbers
// that ONNX's own tests do not cover. tests/onnx/ checks the other numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Floats = std::vector<float>;

TEST(onnx_functions, a_function_of_a_constant_is_a_constant_and_else_one_step) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.floats("c", {2}, {1, 4});
  b.node("Sqrt", {"c"}, {"s"});
  b.node("Exp", {"x"}, {"e"});
  b.node("Mul", {"e", "s"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kUnary, Op::kMul}));
  EXPECT_EQ(computed(b, {0, 0}), (Floats{1, 2}));
}

TEST(onnx_functions, elu_and_selu_take_their_attributes_or_the_defaults_of_the_standard) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Elu", {"x"}, {"a"}).real("alpha", 0.5f);
  b.node("Elu", {"a"}, {"b"});
  b.node("Selu", {"b"}, {"c"}).real("alpha", 3).real("gamma", 2);
  b.node("Selu", {"c"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(get_real(graph.nodes[0], "alpha"), 0.5f);
  EXPECT_EQ(get_real(graph.nodes[1], "alpha"), 1);
  EXPECT_EQ(get_real(graph.nodes[2], "alpha"), 3);
  EXPECT_EQ(get_real(graph.nodes[2], "gamma"), 2);
  EXPECT_EQ(get_real(graph.nodes[3], "alpha"), 1.67326319217681884765625f);
  EXPECT_EQ(get_real(graph.nodes[3], "gamma"), 1.05070102214813232421875f);
}

TEST(onnx_functions, functions_stay_in_the_layout_that_their_input_is_in) {
  OnnxBuilder b;
  b.input("x", {1, 2, 2, 2});
  b.filled("w", {3, 2, 1, 1}, 1);
  b.node("Conv", {"x", "w"}, {"a"});
  b.node("Abs", {"a"}, {"f"});
  b.node("Max", {"a", "f"}, {"m"});
  b.node("Conv", {"m", "v"}, {"c"});
  b.filled("v", {3, 3, 1, 1}, 1);
  b.node("ReduceSum", {"c", "axes"}, {"y"}).integer("keepdims", 0);
  b.integers("axes", {2}, {2, 3});
  b.output("y");
  EXPECT_EQ(ops(imported(b)),
            (std::vector<Op>{Op::kTranspose, Op::kConv2d, Op::kUnary, Op::kBinary, Op::kConv2d, Op::kReduce}));
}

TEST(onnx_functions, a_division_by_a_tensor_or_by_what_has_no_reciprocal_divides) {
  const auto quotient = [](const Floats& divisor) {
    OnnxBuilder b;
    b.input("x", {3});
    b.floats("c", {int64_t(divisor.size())}, divisor);
    b.node("Div", {"x", "c"}, {"y"});
    b.output("y");
    return b;
  };
  OnnxBuilder tensors;
  tensors.input("x", {3});
  tensors.node("Exp", {"x"}, {"e"});
  tensors.node("Div", {"x", "e"}, {"y"});
  tensors.output("y");
  const Floats x = {1, -7, 0.3f};
  const Floats y = computed(tensors, x);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] / std::exp(x[i]));
  EXPECT_EQ(ops(imported(quotient({2}))), std::vector<Op>{Op::kMul});
  EXPECT_EQ(computed(quotient({2}), x), (Floats{0.5f, -3.5f, 0.15f}));
  for (const float divisor : {0.0f, 0x1p-149f, 0x1p127f * 1.5f}) {
    EXPECT_EQ(ops(imported(quotient({1, divisor, 3}))), std::vector<Op>{Op::kBinary});
    EXPECT_EQ(computed(quotient({1, divisor, 3}), x), (Floats{1, -7 / divisor, 0.3f / 3}));
  }
}

TEST(onnx_functions, maxima_of_tensors_and_numbers_are_a_chain_and_a_clamp) {
  OnnxBuilder b;
  b.input("x", {2, 2});
  b.floats("row", {2}, {1, -1});
  b.floats("number", {}, {0.5f});
  b.floats("one", {1}, {-3});
  b.node("Neg", {"x"}, {"n"});
  b.node("Max", {"x", "number", "n", "row", "one"}, {"m"});
  b.node("Min", {"m", "x"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kUnary, Op::kBinary, Op::kBinary, Op::kClamp, Op::kBinary}));
  EXPECT_EQ(get_integer(graph.nodes[1], "function"), int(Binary::kMaximum));
  EXPECT_EQ(get_integer(graph.nodes[4], "function"), int(Binary::kMinimum));
  EXPECT_EQ(get_real(graph.nodes[3], "low"), 0.5f);
  EXPECT_EQ(computed(b, {3, -0.25f, 0.1f, -4}), (Floats{3, -0.25f, 0.1f, -4}));
}

TEST(onnx_functions, an_exponent_of_integers_is_one_of_real_numbers) {
  OnnxBuilder b;
  b.input("x", {3});
  b.integers("n", {}, {3});
  b.node("Pow", {"x", "n"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {2, -1, 0.5f}), (Floats{8, -1, 0.125f}));
  OnnxBuilder whole;
  whole.input("x", {3}, {}, TensorProto::INT32);
  whole.integers("n", {}, {3});
  whole.node("Pow", {"x", "n"}, {"y"});
  whole.output("y");
  EXPECT_EQ(integers(run_converted<int32_t>(whole, {2, -1, 5})), (std::vector<int64_t>{8, -1, 125}));
}

TEST(onnx_functions, reductions_take_axes_as_attribute_and_as_input) {
  for (const int opset : {11, 13, 18}) {
    OnnxBuilder b(opset);
    b.input("x", {2, 3});
    std::vector<std::string> inputs = {"x"};
    if (opset >= 13) {
      b.integers("axes", {1}, {-1});
      inputs.emplace_back("axes");
    }
    OnnxNode node = b.node("ReduceSum", inputs, {"y"}).integer("keepdims", 0);
    if (opset < 13) node.ints("axes", {-1});
    b.output("y");
    EXPECT_EQ(computed(b, {1, 2, 3, 4, 5, 6}), (Floats{6, 15})) << opset;
  }
  OnnxBuilder none(18);
  none.input("x", {2});
  none.node("ReduceL2", {"x"}, {"y"}).integer("noop_with_empty_axes", 1);
  none.output("y");
  EXPECT_NE(refusal(none).find("noop_with_empty_axes is set and no axes are given"), std::string::npos);
}

TEST(onnx_functions, a_logarithm_of_a_sum_of_exponentials_does_not_overflow) {
  for (const int keep : {0, 1}) {
    OnnxBuilder b;
    b.input("x", {2, 2});
    b.node("ReduceLogSumExp", {"x"}, {"y"}).ints("axes", {1}).integer("keepdims", keep);
    b.output("y");
    EXPECT_EQ(computed(b, {1000, 1000, -2000, 0}), (Floats{1000 + std::log(2.0f), 0})) << keep;
    EXPECT_EQ(output(imported(b)).dims, keep != 0 ? (Dims{2, 1}) : Dims{2});
  }
}

TEST(onnx_functions, the_place_of_an_extreme_is_an_int64) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.node("ArgMax", {"x"}, {"y"}).integer("axis", 1).integer("keepdims", 0).integer("select_last_index", 1);
  b.output("y");
  const Graph graph = converted(b);
  EXPECT_EQ(output(graph).type, ElementType::kInt64);
  EXPECT_EQ(integers(run_converted<float>(b, {3, 7, 7, 1})), std::vector<int64_t>{2});
}

TEST(onnx_functions, where_chooses_by_a_comparison) {
  OnnxBuilder b;
  b.input("x", {2, 2});
  b.floats("zero", {}, {0});
  b.node("Greater", {"x", "zero"}, {"c"});
  b.node("Neg", {"x"}, {"n"});
  b.node("Where", {"c", "x", "n"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kCompare, Op::kUnary, Op::kSelect}));
  EXPECT_EQ(value(imported(b), "c").type, ElementType::kBool);
  EXPECT_EQ(computed(b, {-1, 2, 0, -4}), (Floats{1, 2, 0, 4}));
  OnnxBuilder stored;
  stored.input("x", {2, 2});
  stored.codes("mask", {2}, {1, 0}, TensorProto::BOOL);
  stored.floats("low", {}, {-9});
  stored.node("Where", {"mask", "x", "low"}, {"y"});
  stored.output("y");
  OnnxBuilder infinite = stored;
  infinite.floats("infinity", {}, {-INFINITY});
  infinite.node("Where", {"mask", "y", "infinity"}, {"z"});
  infinite.model().mutable_graph()->clear_output();
  infinite.output("z");
  EXPECT_EQ(reals(run_converted<float>(infinite, {1, 2, 3, 4})), (Floats{1, -INFINITY, 3, -INFINITY}));
  EXPECT_EQ(reals(run_converted<float>(stored, {1, 2, 3, 4})), (Floats{1, -9, 3, -9}));
}

TEST(onnx_functions, bools_are_combined) {
  OnnxBuilder b;
  b.input("x", {4});
  b.floats("zero", {}, {0});
  b.floats("two", {}, {2});
  b.node("Greater", {"x", "zero"}, {"above"});
  b.node("Less", {"x", "two"}, {"below"});
  b.node("And", {"above", "below"}, {"both"});
  b.node("Not", {"both"}, {"outside"});
  b.node("Or", {"outside", "above"}, {"any"});
  b.node("Where", {"both", "two", "zero"}, {"y"});
  b.node("Where", {"any", "y", "two"}, {"z"});
  b.node("Where", {"outside", "x", "z"}, {"out"});
  b.output("out");
  EXPECT_EQ(computed(b, {-1, 0, 1, 3}), (Floats{-1, 0, 2, 3}));
}

TEST(onnx_functions, every_flipped_bit_is_imported_or_refused) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.node("Elu", {"x"}, {"a"}).real("alpha", 0.5f);
  b.node("Pow", {"a", "x"}, {"p"});
  b.node("ReduceMin", {"p"}, {"r"}).ints("axes", {1});
  b.node("LogSoftmax", {"r"}, {"l"});
  b.node("ArgMin", {"l"}, {"y"}).integer("axis", 1);
  b.output("y");
  flip_every_byte(b);
}

}  // namespace
}  // namespace nacre::tools
