// Tests import_tflite on functions of one number and of two tensors: which step each operator becomes, and what it
// computes.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

TEST(import_tflite_functions, of_one_number_are_one_step) {
  const struct {
    BuiltinOperator code;
    uint32_t function;
    float x, y;
  } cases[] = {{BuiltinOperator::EXP, Unary::kExp, 0, 1},          {BuiltinOperator::LOG, Unary::kLog, 1, 0},
               {BuiltinOperator::SQRT, Unary::kSqrt, 9, 3},        {BuiltinOperator::RSQRT, Unary::kRsqrt, 4, 0.5f},
               {BuiltinOperator::ABS, Unary::kAbs, -2, 2},         {BuiltinOperator::NEG, Unary::kNeg, 2, -2},
               {BuiltinOperator::FLOOR, Unary::kFloor, -1.5f, -2}, {BuiltinOperator::CEIL, Unary::kCeil, -1.5f, -1},
               {BuiltinOperator::ROUND, Unary::kRound, 2.5f, 2},   {BuiltinOperator::SIGN, Unary::kSign, -3, -1},
               {BuiltinOperator::SQUARE, Unary::kSquare, -3, 9},   {BuiltinOperator::ELU, Unary::kElu, -100, -1},
               {BuiltinOperator::SIN, Unary::kSin, 0, 0},          {BuiltinOperator::COS, Unary::kCos, 0, 1}};
  for (const auto& c : cases) {
    const Graph graph = imported(unary(c.code, {1, 1}, {1, 1}));
    ASSERT_EQ(ops(graph), std::vector{Op::kUnary});
    EXPECT_EQ(get_integer(graph.nodes[0], "function"), int(c.function));
    EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(std::vector<float>{c.x})}), "y"))[0], c.y) << c.function;
  }
}

TEST(import_tflite_functions, an_angle_is_that_of_atan2) {
  TfliteBuilder b;
  const int a = b.activation("a", {33, 33}), d = b.activation("d", {33, 33}), y = b.activation("y", {33, 33});
  b.op(BuiltinOperator::ATAN2, {a, d}, {y});
  const Graph graph = imported(b.finish({a, d}, {y}));
  std::vector<float> up, right;
  const auto part = [](int i) { return i == 0 ? 0 : std::copysign(std::exp2(float(std::abs(i)) - 9), float(i)); };
  for (int i = 0; i < 33; ++i)
    for (int j = 0; j < 33; ++j) up.push_back(part(i - 16)), right.push_back(part(j - 16) * 1.375f);
  const std::vector<float> found = reals(value(run_graph(graph, {bytes_of(up), bytes_of(right)}), "y"));
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], std::atan2(double(up[i]), double(right[i])), 5e-7) << up[i] << ' ' << right[i];
}

TEST(import_tflite_functions, of_two_tensors_are_broadcast) {
  const struct {
    BuiltinOperator code;
    uint32_t function;
    std::vector<float> y;  // for the operands {6, 7} and {4}
  } cases[] = {{BuiltinOperator::DIV, Binary::kDiv, {1.5f, 1.75f}},
               {BuiltinOperator::POW, Binary::kPow, {1296, 2401}},
               {BuiltinOperator::SQUARED_DIFFERENCE, Binary::kSquaredDifference, {4, 9}},
               {BuiltinOperator::FLOOR_DIV, Binary::kFloorDiv, {1, 1}},
               {BuiltinOperator::MAXIMUM, Binary::kMaximum, {6, 7}},
               {BuiltinOperator::MINIMUM, Binary::kMinimum, {4, 4}}};
  for (const auto& c : cases) {
    TfliteBuilder b;
    const int a = b.activation("a", {1, 2}), d = b.activation("d", {1, 1}), y = b.activation("y", {1, 2});
    b.op(c.code, {a, d}, {y});
    const Graph graph = imported(b.finish({a, d}, {y}));
    ASSERT_EQ(ops(graph), std::vector{Op::kBinary});
    EXPECT_EQ(get_integer(graph.nodes[0], "function"), int(c.function));
    const Graph run = run_graph(graph, {bytes_of(std::vector<float>{6, 7}), bytes_of(std::vector<float>{4})});
    EXPECT_EQ(reals(value(run, "y")), c.y) << c.function;
  }
}

TEST(import_tflite_functions, a_division_has_an_activation_and_a_stored_divisor_divides_too) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), c = b.floats("c", {1}, {3}), y = b.activation("y", {1, 2});
  b.op(BuiltinOperator::DIV, {x, c}, {y}, CreateDivOptions(b.fbb(), Activation::RELU));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kBinary, Op::kClamp}));
  EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(std::vector<float>{0.7f, -1})}), "y")),
            (std::vector<float>{0.7f / 3, 0}));
}

TEST(import_tflite_functions, comparisons_give_bools_and_select_takes_them) {
  const struct {
    BuiltinOperator code;
    std::vector<float> y;  // for {1, 2, 3} and {2}: the element where the relation holds, else 2
  } cases[] = {{BuiltinOperator::EQUAL, {2, 2, 2}},   {BuiltinOperator::NOT_EQUAL, {1, 2, 3}},
               {BuiltinOperator::LESS, {1, 2, 2}},    {BuiltinOperator::LESS_EQUAL, {1, 2, 2}},
               {BuiltinOperator::GREATER, {2, 2, 3}}, {BuiltinOperator::GREATER_EQUAL, {2, 2, 3}}};
  for (const auto& c : cases)
    for (const BuiltinOperator select : {BuiltinOperator::SELECT, BuiltinOperator::SELECT_V2}) {
      TfliteBuilder b;
      const int a = b.activation("a", {1, 3}), d = b.activation("d", {1, 1}), y = b.activation("y", {1, 3});
      const int holds =
          b.tensor({.name = "c", .type = TensorType::BOOL, .shape = {1, 3}, .data = {}, .codes = {}, .signature = {}});
      b.op(c.code, {a, d}, {holds});
      b.op(select, {holds, a, d}, {y});
      const Graph graph = imported(b.finish({a, d}, {y}));
      ASSERT_EQ(ops(graph), (std::vector{Op::kCompare, Op::kSelect}));
      const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 2, 3}), bytes_of(std::vector<float>{2})});
      EXPECT_EQ(reals(value(run, "y")), c.y) << int(c.code);
    }
}

}  // namespace
}  // namespace nacre::tools::tflite
