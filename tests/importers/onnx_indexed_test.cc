// Tests operators whose indices, lengths, weights, grids or shapes are computed at run time, and arithmetic on indices.
// Expected numbers are worked out by hand, or come from the same operator with stored operands.
#include <gtest/gtest.h>

#include <limits>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Ids = std::vector<int64_t>;
using Numbers = std::vector<float>;

// Returns the output of a graph whose only input is indices.
Value of_ids(const OnnxBuilder& b, const Ids& ids) { return run_converted<int64_t>(b, ids); }

// Returns the output of a graph with two inputs: numbers x, and indices.
Numbers of_both(const OnnxBuilder& b, const Numbers& x, const Ids& ids) {
  const Graph graph = converted(b);
  return reals(output(run_graph(graph, {bytes_of(x), bytes_of(ids)})));
}

TEST(onnx_indexed, rows_are_gathered_along_any_axis) {
  OnnxBuilder b;
  b.counted("table", {2, 3, 2});
  b.input("ids", {2, 2}, {}, TensorProto::INT64);
  b.node("Gather", {"table", "ids"}, {"y"}).integer("axis", 1);
  b.output("y");
  const Value y = of_ids(b, {2, 0, -1, 1});
  EXPECT_EQ(y.dims, (Dims{2, 2, 2, 2}));
  EXPECT_EQ(reals(y), (Numbers{4, 5, 0, 1, 4, 5, 2, 3, 10, 11, 6, 7, 10, 11, 8, 9}));
}

TEST(onnx_indexed, rows_of_what_is_computed_are_gathered) {
  for (const int axis : {0, 1}) {
    OnnxBuilder b;
    b.input("x", {2, 3});
    b.input("ids", {2}, {}, TensorProto::INT64);
    b.node("Gather", {"x", "ids"}, {"y"}).integer("axis", axis);
    b.output("y");
    const Numbers expected = axis == 0 ? Numbers{4, 5, 6, 1, 2, 3} : Numbers{2, 1, 5, 4};
    EXPECT_EQ(of_both(b, {1, 2, 3, 4, 5, 6}, {1, 0}), expected) << axis;
  }
}

TEST(onnx_indexed, tuples_of_one_number_are_rows) {
  OnnxBuilder b;
  b.input("x", {3, 2});
  b.input("ids", {2, 1}, {}, TensorProto::INT64);
  b.node("GatherND", {"x", "ids"}, {"y"});
  b.output("y");
  EXPECT_EQ(of_both(b, {1, 2, 3, 4, 5, 6}, {2, 0}), (Numbers{5, 6, 1, 2}));
}

TEST(onnx_indexed, tuples_count_rows_and_one_outside_is_refused) {
  OnnxBuilder b;
  b.input("x", {2, 3, 1});
  b.input("ids", {2, 2}, {}, TensorProto::INT64);
  b.node("GatherND", {"x", "ids"}, {"y"});
  b.output("y");
  EXPECT_EQ(of_both(b, {1, 2, 3, 4, 5, 6}, {1, 0, -2, -1}), (Numbers{4, 3}));
  for (const Ids& outside : {Ids{0, 3, 0, 0}, Ids{0, 0, 0, -4}, Ids{2, 0, 0, 0}, Ids{-3, 2, 0, 0}})
    EXPECT_THROW(of_both(b, {1, 2, 3, 4, 5, 6}, outside), Error);
}

// Two updates go to one row; one of its two indices is negative.
TEST(onnx_indexed, rows_are_added_where_indices_say) {
  OnnxBuilder b(18);
  b.input("x", {3, 2});
  b.input("ids", {3, 1}, {}, TensorProto::INT64);
  b.floats("u", {3, 2}, {10, 20, 30, 40, 50, 60});
  b.node("ScatterND", {"x", "ids", "u"}, {"y"}).text("reduction", "add");
  b.output("y");
  EXPECT_EQ(of_both(b, {1, 2, 3, 4, 5, 6}, {2, 0, -1}), (Numbers{31, 42, 3, 4, 65, 86}));
}

TEST(onnx_indexed, numbers_are_added_where_pairs_say) {
  OnnxBuilder b(18);
  b.input("x", {2, 3});
  b.input("ids", {2, 2}, {}, TensorProto::INT64);
  b.floats("u", {2}, {10, 20});
  b.node("ScatterND", {"x", "ids", "u"}, {"y"}).text("reduction", "add");
  b.output("y");
  EXPECT_EQ(of_both(b, {1, 2, 3, 4, 5, 6}, {1, 0, 0, 2}), (Numbers{1, 2, 23, 14, 5, 6}));
}

TEST(onnx_indexed, elements_are_added_along_any_axis) {
  for (const int axis : {0, 1}) {
    OnnxBuilder b(18);
    b.input("x", {2, 2});
    b.input("ids", {2, 2}, {}, TensorProto::INT64);
    b.floats("u", {2, 2}, {10, 20, 30, 40});
    b.node("ScatterElements", {"x", "ids", "u"}, {"y"}).text("reduction", "add").integer("axis", axis);
    b.output("y");
    const Numbers expected = axis == 0 ? Numbers{31, 22, 13, 44} : Numbers{1, 32, 33, 44};
    EXPECT_EQ(of_both(b, {1, 2, 3, 4}, {1, axis, 0, 1}), expected) << axis;
  }
}

// Updates rows 2 and 0 of x [3, 2], or elements of them. A number that no index names stays, even if it is infinite.
TEST(onnx_indexed, updates_go_to_places_of_run_time) {
  const float infinite = std::numeric_limits<float>::infinity();
  const Numbers x = {1, 60, infinite, 4, 5, 6};
  const struct {
    const char* reduction;
    Numbers y;  // 30 and -infinity go to row 2, 50 and 7 to row 0
  } rows[] = {{"none", {50, 7, infinite, 4, 30, -infinite}},
              {"max", {50, 60, infinite, 4, 30, 6}},
              {"min", {1, 7, infinite, 4, 5, -infinite}},
              {"mul", {50, 420, infinite, 4, 150, -infinite}}};
  for (const auto& row : rows)
    for (const bool of_rows : {true, false}) {
      OnnxBuilder b(18);
      b.input("x", {3, 2});
      b.input("ids", of_rows ? Dims{2, 1} : Dims{2, 2}, {}, TensorProto::INT64);
      b.floats("u", {2, 2}, {30, -infinite, 50, 7});
      b.node(of_rows ? "ScatterND" : "ScatterElements", {"x", "ids", "u"}, {"y"}).text("reduction", row.reduction);
      b.output("y");
      EXPECT_EQ(of_both(b, x, of_rows ? Ids{-1, 0} : Ids{2, -1, 0, 0}), row.y) << row.reduction << of_rows;
    }
}

TEST(onnx_indexed, whole_numbers_go_to_places_of_run_time) {
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    OnnxBuilder b(18);
    b.integers("x", {4}, {1, -2, 3, 4});
    b.input("ids", {2}, {}, TensorProto::INT64);
    b.integers("u", {2}, {-5, 6});
    b.node("ScatterElements", {"x", "ids", "u"}, {"y"}).text("reduction", reduction);
    b.output("y");
    const std::string name = reduction;
    const Ids expected = name == "none"  ? Ids{1, 6, 3, -5}
                         : name == "add" ? Ids{1, 4, 3, -1}
                         : name == "mul" ? Ids{1, -12, 3, -20}
                         : name == "max" ? Ids{1, 6, 3, 4}
                                         : Ids{1, -2, 3, -5};
    EXPECT_EQ(integers(of_ids(b, {3, 1})), expected) << reduction;
  }
}

TEST(onnx_indexed, whole_numbers_are_gathered_element_by_element) {
  OnnxBuilder b;
  b.integers("x", {2, 3}, {7, 8, 9, -1, -2, -3});
  b.input("ids", {2, 2}, {}, TensorProto::INT64);
  b.node("GatherElements", {"x", "ids"}, {"y"}).integer("axis", 1);
  b.output("y");
  EXPECT_EQ(integers(of_ids(b, {2, 0, -2, 0})), (Ids{9, 7, -2, -1}));
}

// ---- Arithmetic on indices: modulo 2^64, to the bit

TEST(onnx_indexed, indices_are_counted_on) {
  OnnxBuilder b;
  b.counted("table", {6, 1});
  b.input("ids", {1, 2}, {}, TensorProto::INT64);
  b.integers("starts", {2}, {0, 3});
  b.node("Add", {"ids", "starts"}, {"rows"});
  b.node("Gather", {"table", "rows"}, {"y"});
  b.output("y");
  EXPECT_EQ(reals(of_ids(b, {2, 1})), (Numbers{2, 4}));
}

TEST(onnx_indexed, whole_numbers_are_computed_with_as_such) {
  const auto computed_by = [](const char* op, const Ids& x, int64_t c) {
    OnnxBuilder b;
    b.input("x", {int64_t(x.size())}, {}, TensorProto::INT64);
    b.integers("c", {}, {c});
    b.node(op, {"x", "c"}, {"y"});
    b.output("y");
    const Value y = of_ids(b, x);
    EXPECT_EQ(y.type, ElementType::kInt64);
    return integers(y);
  };
  constexpr int64_t kFar = (int64_t{1} << 53) + 1;  // float64 cannot represent it
  EXPECT_EQ(computed_by("Add", {kFar, INT64_MAX}, 1), (Ids{kFar + 1, INT64_MIN}));
  EXPECT_EQ(computed_by("Sub", {kFar, INT64_MIN}, 1), (Ids{kFar - 1, INT64_MAX}));
  EXPECT_EQ(computed_by("Mul", {kFar, -3}, 3), (Ids{3 * kFar, -9}));
}

TEST(onnx_indexed, whole_numbers_are_compared_and_chosen) {
  constexpr int64_t kFar = (int64_t{1} << 53) + 1;
  OnnxBuilder b;
  b.input("x", {4}, {}, TensorProto::INT64);
  b.integers("far", {}, {kFar});
  b.integers("zero", {}, {0});
  b.node("Less", {"x", "far"}, {"near"});
  b.node("Where", {"near", "x", "zero"}, {"y"});
  b.output("y");
  EXPECT_EQ(integers(of_ids(b, {kFar - 1, kFar, kFar + 1, -5})), (Ids{kFar - 1, 0, 0, -5}));
}

// Returns y = op(x, operands..) for int64 x [2, 3].
Ids of_whole(const char* op, const Ids& x, const std::vector<Ids>& operands,
             const std::vector<std::pair<const char*, int64_t>>& attributes = {}) {
  OnnxBuilder b(18);
  b.input("x", {2, 3}, {}, TensorProto::INT64);
  std::vector<std::string> inputs = {"x"};
  for (const Ids& operand : operands) {
    inputs.push_back("c" + std::to_string(inputs.size()));
    b.integers(inputs.back(), operand.size() == 1 ? Dims{} : Dims{int64_t(operand.size())}, operand);
  }
  OnnxNode node = b.node(op, inputs, {"y"});
  for (const auto& [key, value] : attributes) node.integer(key, value);
  b.output("y");
  return integers(of_ids(b, x));
}

TEST(onnx_indexed, functions_of_whole_numbers_are_formulas) {
  const Ids x = {3, -1, 4, -1, 5, -9};
  EXPECT_EQ(of_whole("Neg", x, {}), (Ids{-3, 1, -4, 1, -5, 9}));
  EXPECT_EQ(of_whole("Abs", x, {}), (Ids{3, 1, 4, 1, 5, 9}));
  EXPECT_EQ(of_whole("Max", x, {{0}, {-2, 4, 1}}), (Ids{3, 4, 4, 0, 5, 1}));
  EXPECT_EQ(of_whole("Min", x, {{0}}), (Ids{0, -1, 0, -1, 0, -9}));
  EXPECT_EQ(of_whole("Clip", x, {{-1}, {3}}), (Ids{3, -1, 3, -1, 3, -1}));
}

TEST(onnx_indexed, axes_of_whole_numbers_are_reduced) {
  const Ids x = {3, -1, 4, -1, 5, -9};
  EXPECT_EQ(of_whole("ReduceSum", x, {}, {{"keepdims", 0}}), (Ids{1}));
  EXPECT_EQ(of_whole("ReduceMax", x, {}), (Ids{5}));
  EXPECT_EQ(of_whole("ReduceMin", x, {}), (Ids{-9}));
  EXPECT_EQ(of_whole("ArgMax", x, {}, {{"axis", 1}}), (Ids{2, 1}));
  EXPECT_EQ(of_whole("ArgMin", {2, 1, 1, 7, 7, 7}, {}, {{"axis", 1}, {"select_last_index", 1}}), (Ids{2, 2}));
}

TEST(onnx_indexed, whole_numbers_are_summed_along_an_axis) {
  const Ids x = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(of_whole("CumSum", x, {{1}}), (Ids{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(of_whole("CumSum", x, {{1}}, {{"exclusive", 1}}), (Ids{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(of_whole("CumSum", x, {{1}}, {{"reverse", 1}}), (Ids{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(of_whole("CumSum", x, {{0}}, {{"reverse", 1}, {"exclusive", 1}}), (Ids{4, 5, 6, 0, 0, 0}));
}

TEST(onnx_indexed, bools_are_compared_and_chosen) {
  OnnxBuilder b;
  b.input("x", {3}, {}, TensorProto::INT64);
  b.codes("c", {3}, {1, 0, 1}, TensorProto::BOOL);
  b.integers("one", {}, {1});
  b.node("Equal", {"x", "one"}, {"is_one"});
  b.node("Equal", {"is_one", "c"}, {"same"});
  b.node("Where", {"same", "c", "is_one"}, {"y"});
  b.output("y");
  EXPECT_EQ(integers(of_ids(b, {1, 1, 0})), (Ids{1, 1, 0}));
}

// ---- Sequences of several lengths, each compared with a run of it alone

// Returns y and the last h of an LSTM or GRU with 2 features, over x [time, 1, 1] or, if there are lengths, [time, 2,
// 1].
std::vector<Numbers> recurred(const char* op, const char* direction, const Numbers& x, const Ids& lengths,
                              bool at_run_time) {
  const int64_t batch = lengths.empty() ? 1 : 2, time = int64_t(x.size()) / batch;
  const int64_t directions = std::string(direction) == "bidirectional" ? 2 : 1, gates = op[0] == 'L' ? 4 : 3;
  const auto weights = [](int64_t count) {
    Numbers w;
    for (int64_t i = 0; i < count; ++i) w.push_back(float(i * 7 % 11 - 5) / 4);
    return w;
  };
  OnnxBuilder b;
  b.input("x", {time, batch, 1});
  b.floats("w", {directions, 2 * gates, 1}, weights(directions * 2 * gates));
  b.floats("r", {directions, 2 * gates, 2}, weights(directions * 4 * gates));
  if (at_run_time) b.input("lengths", {batch}, {}, TensorProto::INT64);
  else if (!lengths.empty()) b.integers("lengths", {batch}, lengths);
  b.node("Cast", {lengths.empty() ? "w" : "lengths"}, {"l"}).integer("to", TensorProto::INT32);
  std::vector<std::string> outputs = {"y", "h"};
  if (op[0] == 'L') outputs.push_back("c");  // which nothing reads
  b.node(op, {"x", "w", "r", "", lengths.empty() ? "" : "l"}, outputs)
      .integer("hidden_size", 2)
      .text("direction", direction);
  b.output("y");
  b.output("h");
  const Graph graph = converted(b);
  std::vector<std::vector<uint8_t>> inputs = {bytes_of(x)};
  if (at_run_time) inputs.push_back(bytes_of(lengths));
  const Graph run = run_graph(graph, inputs);
  return {reals(output(run, 0)), reals(output(run, 1))};
}

TEST(onnx_indexed, sequences_end_at_their_lengths) {
  const Numbers x = {1, -1, 0.5f, 2, -2, 1};  // [3, 2, 1]
  for (const char* op : {"LSTM", "GRU"})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const bool at_run_time : {false, true}) {
        const size_t directions = std::string(direction) == "bidirectional" ? 2 : 1;
        const auto both = recurred(op, direction, x, {2, 3}, at_run_time);
        const auto first = recurred(op, direction, {1, 0.5f}, {}, false);
        const auto second = recurred(op, direction, {-1, 2, 1}, {}, false);
        for (size_t t = 0; t < 3; ++t)
          for (size_t d = 0; d < directions; ++d)
            for (size_t i = 0; i < 2; ++i) {
              const size_t alone = (t * directions + d) * 2 + i, at = ((t * directions + d) * 2) * 2 + i;
              EXPECT_FLOAT_EQ(both[0][at], t < 2 ? first[0][alone] : 0) << op << direction;
              EXPECT_FLOAT_EQ(both[0][at + 2], second[0][alone]) << op << direction;
            }
        for (size_t d = 0; d < directions; ++d)
          for (size_t i = 0; i < 2; ++i) {
            EXPECT_FLOAT_EQ(both[1][d * 4 + i], first[1][d * 2 + i]) << op << direction;
            EXPECT_FLOAT_EQ(both[1][d * 4 + 2 + i], second[1][d * 2 + i]) << op << direction;
          }
      }
}

// ---- Weights of run time

TEST(onnx_indexed, convolutions_take_weights_of_run_time) {
  Numbers image, weights;
  for (int i = 0; i < 4 * 6 * 5; ++i) image.push_back(float(i * 5 % 7 - 3));
  for (int i = 0; i < 6 * 2 * 3 * 2; ++i) weights.push_back(float(i * 3 % 5 - 2));
  OnnxBuilder stored, given;
  stored.input("x", {1, 4, 6, 5});
  stored.floats("w", {6, 2, 3, 2}, weights);
  given.floats("x", {1, 4, 6, 5}, image);
  given.input("w", {6, 2, 3, 2});
  for (OnnxBuilder* b : {&stored, &given}) {
    b->counted("b", {6});
    OnnxNode conv = b->node("Conv", {"x", "w", "b"}, {"y"}).integer("group", 2).ints("strides", {2, 1});
    conv.ints("pads", {2, 0, 1, 1}).ints("dilations", {1, 2});
    b->output("y");
  }
  const Numbers y = computed(given, weights);
  EXPECT_EQ(y.size(), 6u * 4 * 4);
  EXPECT_EQ(y, computed(stored, image));  // whole numbers: to the bit
}

// ---- GridSample with a grid of run time, compared with a stored grid

TEST(onnx_indexed, a_grid_of_run_time_samples_as_a_stored_one) {
  const Numbers image = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const Numbers grid = {-0.9f, 0.3f, 0.55f, -0.2f, 1.3f, -1.2f, 0.1f, 0.8f};  // one place is outside
  for (const char* mode : {"linear", "nearest"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const int corners : {0, 1}) {
        OnnxBuilder stored(20), given(20);
        stored.input("x", {1, 1, 3, 4});
        stored.floats("grid", {1, 2, 2, 2}, grid);
        given.floats("x", {1, 1, 3, 4}, image);
        given.input("grid", {1, 2, 2, 2});
        for (OnnxBuilder* b : {&stored, &given}) {
          OnnxNode node = b->node("GridSample", {"x", "grid"}, {"y"});
          node.text("mode", mode).text("padding_mode", padding).integer("align_corners", corners);
          b->output("y");
        }
        const Numbers expected = computed(stored, image), y = computed(given, grid);
        ASSERT_EQ(y.size(), expected.size());
        // A coordinate of up to 4 is rounded twice, and it weights four pixels of up to 9.
        for (size_t i = 0; i < y.size(); ++i)
          EXPECT_NEAR(y[i], expected[i], 2e-5) << mode << " " << padding << " " << corners << " " << i;
      }
}

TEST(onnx_indexed, a_cubic_grid_of_run_time_is_refused) {
  OnnxBuilder b(20);
  b.input("x", {1, 1, 3, 4});
  b.input("grid", {1, 2, 2, 2});
  b.node("GridSample", {"x", "grid"}, {"y"}).text("mode", "cubic");
  b.output("y");
  EXPECT_NE(refusal(b).find("linear and nearest are supported"), std::string::npos);
}

// ---- Expand with a shape of run time

TEST(onnx_indexed, indices_and_bools_are_expanded) {
  OnnxBuilder b;
  b.input("x", {2, 1}, {}, TensorProto::INT64);
  b.integers("shape", {3}, {2, 2, 3});
  b.node("Expand", {"x", "shape"}, {"y"});
  b.output("y");
  EXPECT_EQ(integers(of_ids(b, {7, 8})), (Ids{7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8}));
}

TEST(onnx_indexed, what_is_repeated_often_takes_few_steps) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.integers("repeats", {2}, {100, 1});
  b.node("Tile", {"x", "repeats"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(graph.nodes.size(), 6u);  // 3, 6, 12, 25, 50, 100
  const Numbers y = computed(b, {1, 2});
  ASSERT_EQ(y.size(), 200u);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], float(i % 2 + 1));
}

}  // namespace
}  // namespace nacre::tools
