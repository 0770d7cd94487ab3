// Tests import_tflite on operators over axes: sums, extremes, products, positions of extremes, log-softmax.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

TEST(import_tflite_reductions, give_numbers_and_places_of_extremes) {
  const std::vector<float> x = {1, 5, 2, 4, 0.5f, 3};
  const struct {
    BuiltinOperator code;
    std::vector<float> y;
  } cases[] = {{BuiltinOperator::SUM, {8, 7.5f}},
               {BuiltinOperator::REDUCE_MIN, {1, 0.5f}},
               {BuiltinOperator::REDUCE_PROD, {10, 6}}};
  for (const auto& c : cases) {
    const Graph graph = imported(with_list(c.code, {2, 3}, {2}, {1}, {-1}));
    ASSERT_EQ(ops(graph), std::vector{Op::kReduce});
    EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(x)}), "y")), c.y);
  }
  for (const BuiltinOperator code : {BuiltinOperator::ARG_MAX, BuiltinOperator::ARG_MIN})
    for (const TensorType type : {TensorType::INT32, TensorType::INT64}) {
      TfliteBuilder b;
      const int in = b.activation("x", {2, 3}), axis = b.int32s("axis", {}, {1}),
                y = b.tensor({.name = "y", .type = type, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
      b.op(code, {in, axis}, {y});
      const Graph graph = imported(b.finish({in}, {y}));
      ASSERT_EQ(ops(graph), std::vector{Op::kArgMax});
      EXPECT_EQ(integers(value(run_graph(graph, {bytes_of(x)}), "y")),
                code == BuiltinOperator::ARG_MAX ? (std::vector<int64_t>{1, 0}) : (std::vector<int64_t>{0, 1}));
    }
  TfliteBuilder wrong;
  const int in = wrong.activation("x", {2, 3}), axis = wrong.int32s("axis", {}, {1}), y = wrong.activation("y", {2});
  wrong.op(BuiltinOperator::ARG_MAX, {in, axis}, {y});
  EXPECT_NE(refusal(wrong.finish({in}, {y}), kBadInput).find("its output has no integers"), std::string::npos);
}

TEST(import_tflite_reductions, log_softmax_is_over_the_last_axis) {
  const Graph graph = imported(unary(BuiltinOperator::LOG_SOFTMAX, {2, 2}, {2, 2}));
  ASSERT_EQ(ops(graph), std::vector{Op::kLogSoftmax});
  EXPECT_EQ(get_integer(graph.nodes[0], "axis"), 1);
  const std::vector<float> y = reals(value(run_graph(graph, {bytes_of(std::vector<float>{0, 0, -1000, 0})}), "y"));
  EXPECT_EQ(y, (std::vector<float>{-std::log(2.0f), -std::log(2.0f), -1000, 0}));
}

}  // namespace
}  // namespace nacre::tools::tflite
