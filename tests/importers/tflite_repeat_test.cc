// Tests import_tflite on operators that become a few steps: repeats, stored indices, logic, and integers known at
// import.
#include <gtest/gtest.h>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

std::vector<float> reals_of(const std::vector<uint8_t>& file, const std::vector<float>& x) {
  return reals(value(run_graph(imported(file), {bytes_of(x)}), "y"));
}

TEST(import_tflite_repeat, tiles_and_broadcasts) {
  EXPECT_EQ(reals_of(with_list(BuiltinOperator::TILE, {1, 2}, {3, 4}, {2}, {3, 2}), {1, 2}),
            (std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(reals_of(with_list(BuiltinOperator::BROADCAST_TO, {2, 1}, {2, 2, 3}, {3}, {2, 2, 3}), {1, 2}),
            (std::vector<float>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  refusal(with_list(BuiltinOperator::TILE, {1, 2}, {0, 2}, {2}, {0, 1}), kUnsupported);
  refusal(with_list(BuiltinOperator::TILE, {1, 2}, {1, 2}, {2}, {1 << 30, 1 << 30}), kUnsupported);
  refusal(with_list(BuiltinOperator::BROADCAST_TO, {2, 1}, {3, 1}, {2}, {3, 1}), kBadInput);
}

TEST(import_tflite_repeat, reverses_axes) {
  EXPECT_EQ(reals_of(with_list(BuiltinOperator::REVERSE_V2, {2, 3}, {2, 3}, {1}, {1}), {1, 2, 3, 4, 5, 6}),
            (std::vector<float>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(reals_of(with_list(BuiltinOperator::REVERSE_V2, {2, 3}, {2, 3}, {2}, {-1, 0}), {1, 2, 3, 4, 5, 6}),
            (std::vector<float>{6, 5, 4, 3, 2, 1}));
}

TEST(import_tflite_repeat, a_reversal_keeps_codes_whatever_their_scale) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, 3), y = b.activation("y", {1, 2}, 0.25f, -1);
  b.op(BuiltinOperator::REVERSE_V2, {x, b.int32s("axis", {1}, {1})}, {y});
  const std::vector<float> given = {0.5f * (7 - 3), 0.5f * (-9 - 3)};
  const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(given)});
  EXPECT_EQ(reals(value(run, "y")), (std::vector<float>{0.25f * (-9 + 1), 0.25f * (7 + 1)}));
}

// The importer's list of values may be reallocated while it reads the operand, so the test varies the list's length.
TEST(import_tflite_repeat, a_sum_of_one_operand_is_that_operand) {
  for (int more = 0; more < 40; ++more) {
    TfliteBuilder b;
    std::vector<int32_t> inputs = {b.activation("x", {1, 2})};
    for (int i = 0; i < more; ++i) inputs.push_back(b.activation("unused" + std::to_string(i), {1}));
    const int y = b.activation("y", {1, 2});
    b.op(BuiltinOperator::ADD_N, {inputs[0]}, {y});
    EXPECT_EQ(value(imported(b.finish(inputs, {y})), "y").dims, (Dims{1, 2})) << more;
  }
}

std::vector<uint8_t> gathered(const std::vector<int32_t>& y_shape, const std::vector<int32_t>& ids_shape,
                              const std::vector<int32_t>& ids, int axis) {
  TfliteBuilder b;
  const int x = b.activation("x", {2, 3}), i = b.int32s("ids", ids_shape, ids), y = b.activation("y", y_shape);
  b.op(BuiltinOperator::GATHER, {x, i}, {y}, CreateGatherOptions(b.fbb(), axis));
  return b.finish({x}, {y});
}

TEST(import_tflite_repeat, gathers_what_is_computed_by_stored_indices) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(reals_of(gathered({2}, {}, {2}, 1), x), (std::vector<float>{3, 6}));
  EXPECT_EQ(reals_of(gathered({2, 2}, {2}, {2, 0}, 1), x), (std::vector<float>{3, 1, 6, 4}));
  EXPECT_EQ(reals_of(gathered({2, 3}, {3}, {2, 0, 0}, 1), x), (std::vector<float>{3, 1, 1, 6, 4, 4}));
  EXPECT_EQ(reals_of(gathered({1, 2, 3}, {1, 2}, {1, 0}, 0), x), (std::vector<float>{4, 5, 6, 1, 2, 3}));
  refusal(gathered({2}, {}, {3}, 1), kBadInput);
  refusal(gathered({2}, {}, {-1}, 1), kBadInput);
}

TEST(import_tflite_repeat, logic_of_comparisons) {
  const struct {
    BuiltinOperator code;
    std::vector<float> y;
  } cases[] = {{BuiltinOperator::LOGICAL_AND, {0, 1, 0}}, {BuiltinOperator::LOGICAL_OR, {1, 1, 1}}};
  for (const auto& c : cases) {
    TfliteBuilder b;
    const auto flags = [&](const char* name) { return bools(b, name, {1, 3}); };
    const int x = b.activation("x", {1, 3}), one = b.floats("one", {1}, {1}), three = b.floats("three", {1}, {3});
    const int more = flags("more"), less = flags("less"), not_less = flags("not_less"), both = flags("both");
    const int y = b.activation("y", {1, 3});
    b.op(BuiltinOperator::GREATER, {x, one}, {more});
    b.op(BuiltinOperator::GREATER_EQUAL, {x, three}, {less});
    b.op(BuiltinOperator::LOGICAL_NOT, {less}, {not_less});
    b.op(c.code, {more, not_less}, {both});
    b.op(BuiltinOperator::CAST, {both}, {y});
    EXPECT_EQ(reals_of(b.finish({x}, {y}), {1, 2, 3}), c.y);
  }
}

TEST(import_tflite_repeat, one_hot_of_indices_of_run_time) {
  TfliteBuilder b;
  const int ids = whole(b, "ids", {2});
  const int depth = b.int32s("depth", {}, {3}), on = b.floats("on", {}, {5}), off = b.floats("off", {}, {-1}),
            y = b.activation("y", {2, 3});
  b.op(BuiltinOperator::ONE_HOT, {ids, depth, on, off}, {y}, CreateOneHotOptions(b.fbb(), -1));
  const Graph run = run_graph(imported(b.finish({ids}, {y})), {bytes_of(std::vector<int32_t>{2, 7})});
  EXPECT_EQ(reals(value(run, "y")), (std::vector<float>{-1, -1, 5, -1, -1, -1}));
}

TEST(import_tflite_repeat, l2_normalization_divides_by_the_length) {
  EXPECT_EQ(reals_of(unary(BuiltinOperator::L2_NORMALIZATION, {2, 2}, {2, 2}), {3, 4, 0, 0}),
            (std::vector<float>{0.6f, 0.8f, 0, 0}));
}

TEST(import_tflite_repeat, any_number_of_parts_is_joined) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 80});
  b.op(BuiltinOperator::CONCATENATION, std::vector<int32_t>(40, x), {y}, CreateConcatenationOptions(b.fbb(), 1));
  const std::vector<float> made = reals_of(b.finish({x}, {y}), {1, 2});
  for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], float(i % 2 + 1));
  EXPECT_EQ(made.size(), 80u);
}

// Returns the result of a FILL whose shape [size] an operator computes from two stored lists.
std::vector<float> filled(BuiltinOperator code, const std::vector<int32_t>& a, const std::vector<int32_t>& d,
                          int size) {
  TfliteBuilder b;
  const int x = b.activation("x", {1}), of_a = b.int32s("a", {int32_t(a.size())}, a),
            of_d = b.int32s("d", {int32_t(d.size())}, d), shape = whole(b, "shape", {1});
  const int three = b.floats("three", {}, {3}), ones = b.activation("threes", {size}), y = b.activation("y", {size});
  b.op(code, {of_a, of_d}, {shape}, CreateReducerOptions(b.fbb(), true));
  b.op(BuiltinOperator::FILL, {shape, three}, {ones});
  b.op(BuiltinOperator::MUL, {x, ones}, {y}, CreateMulOptions(b.fbb()));
  return reals_of(b.finish({x}, {y}), {2});
}

TEST(import_tflite_repeat, integers_of_stored_ones_are_known) {
  const struct {
    BuiltinOperator code;
    std::vector<int32_t> a, b;
    int size;
  } cases[] = {{BuiltinOperator::ADD, {2}, {3}, 5},
               {BuiltinOperator::SUB, {7}, {3}, 4},
               {BuiltinOperator::MUL, {2}, {3}, 6},
               {BuiltinOperator::FLOOR_DIV, {7}, {2}, 3},
               {BuiltinOperator::FLOOR_MOD, {-7}, {5}, 3},
               {BuiltinOperator::MINIMUM, {4}, {2}, 2},
               {BuiltinOperator::MAXIMUM, {4}, {2}, 4},
               {BuiltinOperator::REDUCE_PROD, {2, 3, 2}, {0}, 12},
               {BuiltinOperator::SUM, {2, 3, 2}, {-1}, 7},
               {BuiltinOperator::REDUCE_MAX, {2, 3, 2}, {0}, 3},
               {BuiltinOperator::REDUCE_MIN, {2, 3, 2}, {0}, 2}};
  for (const auto& c : cases)
    EXPECT_EQ(filled(c.code, c.a, c.b, c.size), std::vector<float>(size_t(c.size), 6)) << int(c.code);
}

TEST(import_tflite_repeat, a_division_by_a_stored_zero_is_bad) {
  TfliteBuilder b;
  const int x = b.activation("x", {1}), a = b.int32s("a", {1}, {1}), zero = b.int32s("zero", {1}, {0}),
            q = whole(b, "q", {1}), y = b.activation("y", {1});
  b.op(BuiltinOperator::FLOOR_DIV, {a, zero}, {q});
  b.op(BuiltinOperator::RESHAPE, {x, q}, {y});
  EXPECT_NE(refusal(b.finish({x}, {y}), kBadInput).find("divides by zero"), std::string::npos);
}

TEST(import_tflite_repeat, integers_are_added_and_compared_at_run_time) {
  TfliteBuilder b;
  const int x = whole(b, "x", {1, 3});
  const int five = b.int32s("five", {1}, {5}), zero = b.int32s("zero", {1}, {0});
  const int sum = whole(b, "sum", {1, 3});
  const int more = bools(b, "more", {1, 3});
  const int y = b.activation("y", {1, 3});
  b.op(BuiltinOperator::ADD, {x, five}, {sum}, CreateAddOptions(b.fbb()));
  b.op(BuiltinOperator::GREATER, {sum, zero}, {more});
  b.op(BuiltinOperator::CAST, {more}, {y});
  const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(std::vector<int32_t>{-6, -5, -4})});
  EXPECT_EQ(reals(value(run, "y")), (std::vector<float>{0, 0, 1}));
}

}  // namespace
}  // namespace nacre::tools::tflite
