// Tests import_tflite on remainders, bits, running sums, bools over axes, integer arithmetic, and products with
// computed weights.
#include <gtest/gtest.h>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

using Numbers = std::vector<float>;
using Wholes = std::vector<int32_t>;

// Returns y of an operator with two int32 operands.
Wholes of_two(BuiltinOperator code, const Wholes& a, const Wholes& b) {
  TfliteBuilder builder;
  const std::vector<int32_t> shape = {int32_t(a.size())};
  const int u = whole(builder, "a", shape), v = whole(builder, "b", shape), y = whole(builder, "y", shape);
  builder.op(code, {u, v}, {y});
  const Graph run = run_graph(imported(builder.finish({u, v}, {y})), {bytes_of(a), bytes_of(b)});
  Wholes made(a.size());
  std::memcpy(made.data(), value(run, "y").data->data(), made.size() * sizeof(int32_t));
  return made;
}

TEST(import_tflite_whole, arithmetic_of_integers) {
  const Wholes a = {7, -7, 7, -7, 6}, b = {3, 3, -3, -3, 2};
  EXPECT_EQ(of_two(BuiltinOperator::FLOOR_MOD, a, b), (Wholes{1, 2, -2, -1, 0}));
  EXPECT_EQ(of_two(BuiltinOperator::FLOOR_DIV, a, b), (Wholes{2, -3, -3, 2, 3}));
  EXPECT_EQ(of_two(BuiltinOperator::DIV, a, b), (Wholes{2, -2, -2, 2, 3}));
  EXPECT_EQ(of_two(BuiltinOperator::MAXIMUM, a, b), (Wholes{7, 3, 7, -3, 6}));
  EXPECT_EQ(of_two(BuiltinOperator::MINIMUM, a, b), (Wholes{3, -7, -3, -7, 2}));
  EXPECT_EQ(of_two(BuiltinOperator::BITWISE_XOR, a, b), (Wholes{4, -6, -6, 4, 4}));
}

TEST(import_tflite_whole, remainders_of_real_numbers_have_the_sign_of_the_divisor) {
  TfliteBuilder b;
  const int x = b.activation("x", {4}), d = b.floats("d", {4}, {2, 2, -2, -2}), y = b.activation("y", {4});
  b.op(BuiltinOperator::FLOOR_MOD, {x, d}, {y});
  const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(Numbers{2.5f, -2.5f, 2.5f, -2.5f})});
  EXPECT_EQ(reals(value(run, "y")), (Numbers{0.5f, 1.5f, -1.5f, -0.5f}));
}

Numbers running_sum(bool exclusive, bool reverse, int axis) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 3}), a = b.int32s("axis", {}, {axis}), y = b.activation("y", {2, 3});
  b.op(BuiltinOperator::CUMSUM, {x, a}, {y}, CreateCumsumOptions(b.fbb(), exclusive, reverse));
  const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(Numbers{1, 2, 3, 4, 5, 6})});
  return reals(value(run, "y"));
}

TEST(import_tflite_whole, running_sums) {
  EXPECT_EQ(running_sum(false, false, 1), (Numbers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(running_sum(true, false, -1), (Numbers{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(running_sum(false, true, 1), (Numbers{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(running_sum(true, true, 0), (Numbers{4, 5, 6, 0, 0, 0}));
}

Numbers over_bools(BuiltinOperator code) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 2}), one = b.floats("one", {1}, {1}), more = bools(b, "more", {2, 2}),
            axes = b.int32s("axes", {1}, {1}), reduced = bools(b, "reduced", {2}), y = b.activation("y", {2});
  b.op(BuiltinOperator::GREATER, {x, one}, {more});
  b.op(code, {more, axes}, {reduced}, CreateReducerOptions(b.fbb(), false));
  b.op(BuiltinOperator::CAST, {reduced}, {y});
  return reals(value(run_graph(imported(b.finish({x}, {y})), {bytes_of(Numbers{0, 2, 2, 2})}), "y"));
}

TEST(import_tflite_whole, any_and_all_of_bools) {
  EXPECT_EQ(over_bools(BuiltinOperator::REDUCE_ANY), (Numbers{1, 1}));
  EXPECT_EQ(over_bools(BuiltinOperator::REDUCE_ALL), (Numbers{0, 1}));
}

TEST(import_tflite_whole, dense_layers_with_weights_of_run_time_are_products) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2, 2}), w = b.activation("w", {3, 2}), bias = b.floats("b", {3}, {1, 0, -100}),
            y = b.activation("y", {1, 2, 3});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, bias}, {y},
       CreateFullyConnectedOptions(b.fbb(), Activation::RELU, WeightsFormat::DEFAULT, true));
  const Graph run =
      run_graph(imported(b.finish({x, w}, {y})), {bytes_of(Numbers{1, 2, 3, 4}), bytes_of(Numbers{1, 0, 0, 1, 1, 1})});
  EXPECT_EQ(reals(value(run, "y")), (Numbers{2, 2, 0, 4, 4, 0}));
  EXPECT_EQ(value(run, "y").dims, (Dims{1, 2, 3}));
}

}  // namespace
}  // namespace nacre::tools::tflite
