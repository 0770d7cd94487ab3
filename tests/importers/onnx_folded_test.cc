// Tests that the importer computes operators on constants and on fixed shapes, in the file's types.
// tests/peers/folded_networks.py compares random graphs of them with onnxruntime.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Whole = std::vector<int64_t>;
using Reals = std::vector<float>;

// Builds a file whose nodes read constants only. result() returns the folded constant `name`, cast to float32, that
// is added to x.
struct Folded {
  OnnxBuilder b{18};

  Folded() { b.input("x", {1}); }

  Value result(const std::string& name) {
    b.node("Cast", {name}, {"real"}).integer("to", TensorProto::FLOAT);
    b.node("Add", {"x", "real"}, {"y"});
    b.output("y");
    const Graph graph = imported(b);
    EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kAdd}));
    return operand(graph, graph.nodes[0], 1);
  }
  Reals numbers(const std::string& name) { return reals(result(name)); }
};

Reals folded_pair(const std::string& op, const Whole& a, const Whole& b) {
  Folded f;
  f.b.integers("a", {int64_t(a.size())}, a);
  f.b.integers("b", {int64_t(b.size())}, b);
  f.b.node(op, {"a", "b"}, {"c"});
  return f.numbers("c");
}

TEST(onnx_folded, integers_are_computed_as_integers) {
  EXPECT_EQ(folded_pair("Mod", {7, -7, 7, -7}, {3, 3, -3, -3}), (Reals{1, 2, -2, -1}));
  EXPECT_EQ(folded_pair("Div", {7, -7}, {2, 2}), (Reals{3, -3}));
  EXPECT_EQ(folded_pair("Pow", {3, -2}, {4, 3}), (Reals{81, -8}));
  EXPECT_EQ(folded_pair("Sub", {(int64_t{1} << 53) + 1}, {int64_t{1} << 53}), (Reals{1}));
  EXPECT_EQ(folded_pair("Max", {1, 5}, {3, 2}), (Reals{3, 5}));
  EXPECT_EQ(folded_pair("Xor", {1, 0}, {1, 1}), (Reals{0, 1}));
}

TEST(onnx_folded, equal_slices_are_one) {
  const auto unique = [](bool sorted, bool along, const char* which) {
    Folded f;
    f.b.integers("a", {3, 2}, {5, 2, 1, 9, 5, 2});
    OnnxNode node = f.b.node("Unique", {"a"}, {"values", "places", "inverse", "counts"});
    node.integer("sorted", sorted);
    if (along) node.integer("axis", 0);
    return f.numbers(which);
  };
  EXPECT_EQ(unique(true, false, "values"), (Reals{1, 2, 5, 9}));
  EXPECT_EQ(unique(true, false, "places"), (Reals{2, 1, 0, 3}));
  EXPECT_EQ(unique(true, false, "inverse"), (Reals{2, 1, 0, 3, 2, 1}));
  EXPECT_EQ(unique(true, false, "counts"), (Reals{1, 2, 2, 1}));
  EXPECT_EQ(unique(false, false, "values"), (Reals{5, 2, 1, 9}));
  EXPECT_EQ(unique(false, false, "inverse"), (Reals{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(unique(true, true, "values"), (Reals{1, 9, 5, 2}));
  EXPECT_EQ(unique(true, true, "inverse"), (Reals{1, 0, 1}));
  EXPECT_EQ(unique(false, true, "values"), (Reals{5, 2, 1, 9}));
  EXPECT_EQ(unique(false, true, "counts"), (Reals{2, 1}));
}

TEST(onnx_folded, narrow_integers_wrap) {
  Folded f;
  f.b.codes("a", {2}, {200, 100}, TensorProto::UINT8);
  f.b.node("Add", {"a", "a"}, {"c"});
  EXPECT_EQ(f.numbers("c"), (Reals{144, 200}));
}

TEST(onnx_folded, doubles_are_computed_as_doubles) {
  Folded f;
  f.b.integers("a", {}, {1});
  f.b.node("Cast", {"a"}, {"one"}).integer("to", TensorProto::DOUBLE);
  f.b.integers("big", {}, {int64_t{1} << 40});
  f.b.node("Cast", {"big"}, {"far"}).integer("to", TensorProto::DOUBLE);
  f.b.node("Add", {"far", "one"}, {"sum"});
  f.b.node("Sub", {"sum", "far"}, {"c"});
  EXPECT_EQ(f.numbers("c"), (Reals{1}));
}

TEST(onnx_folded, a_division_of_integers_by_zero_is_refused) {
  OnnxBuilder b;
  b.input("x", {1});
  b.integers("a", {1}, {1});
  b.integers("zero", {1}, {0});
  b.node("Mod", {"a", "zero"}, {"m"});
  b.node("Cast", {"m"}, {"r"}).integer("to", TensorProto::FLOAT);
  b.node("Add", {"x", "r"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b), "m_node (Mod): divides by zero");
}

TEST(onnx_folded, a_causal_mask_is_made_of_a_shape) {
  OnnxBuilder b;
  b.input("x", {3, 3});
  b.node("Shape", {"x"}, {"shape"});
  b.node("ConstantOfShape", {"shape"}, {"zeros"});
  b.floats("one", {}, {1});
  b.floats("infinite", {}, {-INFINITY});
  b.node("Add", {"zeros", "one"}, {"ones"});
  b.node("Trilu", {"ones"}, {"lower"}).integer("upper", 0);
  b.node("Equal", {"lower", "one"}, {"seen"});
  b.floats("zero", {}, {0});
  b.node("Where", {"seen", "zero", "infinite"}, {"mask"});
  b.node("Add", {"x", "mask"}, {"z"});
  b.node("Softmax", {"z"}, {"y"});
  b.output("y");
  EXPECT_EQ(reals(run_converted<float>(b, Reals(9, 2))), (Reals{1, 0, 0, 0.5f, 0.5f, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3}));
}

TEST(onnx_folded, elements_are_gathered_and_scattered) {
  Folded elements;
  elements.b.counted("a", {2, 3});
  elements.b.integers("i", {2, 1}, {-1, 0});
  elements.b.node("GatherElements", {"a", "i"}, {"c"}).integer("axis", 1);
  EXPECT_EQ(elements.numbers("c"), (Reals{2, 3}));

  Folded slices;
  slices.b.counted("a", {2, 2, 2});
  slices.b.integers("i", {2, 1}, {1, 0});
  slices.b.node("GatherND", {"a", "i"}, {"c"}).integer("batch_dims", 1);
  EXPECT_EQ(slices.numbers("c"), (Reals{2, 3, 4, 5}));

  Folded scattered;
  scattered.b.counted("a", {4});
  scattered.b.integers("i", {3, 1}, {1, -1, 1});
  scattered.b.floats("u", {3}, {10, 20, 30});
  scattered.b.node("ScatterND", {"a", "i", "u"}, {"c"}).text("reduction", "add");
  EXPECT_EQ(scattered.numbers("c"), (Reals{0, 41, 2, 23}));
}

TEST(onnx_folded, an_index_outside_is_refused) {
  OnnxBuilder b(18);
  b.input("x", {1});
  b.counted("a", {4});
  b.integers("i", {1, 1}, {4});
  b.node("GatherND", {"a", "i"}, {"c"});
  b.node("Add", {"x", "c"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b), "c_node (GatherND): index 4 is outside an axis of 4");
}

TEST(onnx_folded, what_is_not_zero_is_found_and_counted) {
  Folded f;
  f.b.floats("a", {2, 2}, {0, 1, 2, 0});
  f.b.node("NonZero", {"a"}, {"c"});
  const Value c = f.result("c");
  EXPECT_EQ(c.dims, (Dims{2, 2}));
  EXPECT_EQ(reals(c), (Reals{0, 1, 1, 0}));
}

TEST(onnx_folded, axes_are_reduced_and_summed_along) {
  Folded product;
  product.b.integers("a", {2, 2}, {2, 3, 4, 5});
  product.b.integers("axes", {1}, {0});
  product.b.node("ReduceProd", {"a", "axes"}, {"c"}).integer("keepdims", 0);
  EXPECT_EQ(product.numbers("c"), (Reals{8, 15}));

  Folded sums;
  sums.b.integers("a", {3}, {1, 2, 3});
  sums.b.integers("axis", {}, {0});
  sums.b.node("CumSum", {"a", "axis"}, {"c"}).integer("exclusive", 1).integer("reverse", 1);
  EXPECT_EQ(sums.numbers("c"), (Reals{5, 3, 0}));

  Folded best;
  best.b.floats("a", {2, 3}, {1, 7, 7, 3, 2, 1});
  best.b.node("ArgMax", {"a"}, {"c"}).integer("axis", 1).integer("keepdims", 0);
  EXPECT_EQ(best.numbers("c"), (Reals{1, 0}));

  Folded largest;
  largest.b.floats("a", {3}, {1, 7, 3});
  largest.b.integers("k", {1}, {2});
  largest.b.node("TopK", {"a", "k"}, {"values", "c"});
  EXPECT_EQ(largest.numbers("c"), (Reals{1, 2}));
}

TEST(onnx_folded, matrices_of_integers_are_multiplied) {
  Folded f;
  f.b.integers("a", {2, 2}, {1, 2, 3, 4});
  f.b.integers("v", {2}, {5, 6});
  f.b.node("MatMul", {"a", "v"}, {"c"});
  EXPECT_EQ(f.numbers("c"), (Reals{17, 39}));
}

TEST(onnx_folded, constants_are_padded_and_encoded) {
  Folded padded;
  padded.b.integers("a", {3}, {1, 2, 3});
  padded.b.integers("pads", {2}, {2, -1});
  padded.b.node("Pad", {"a", "pads"}, {"c"}).text("mode", "reflect");
  EXPECT_EQ(padded.numbers("c"), (Reals{3, 2, 1, 2}));

  Folded hot;
  hot.b.integers("a", {2}, {1, -1});
  hot.b.integers("depth", {}, {3});
  hot.b.floats("values", {2}, {0, 5});
  hot.b.node("OneHot", {"a", "depth", "values"}, {"c"});
  EXPECT_EQ(hot.numbers("c"), (Reals{0, 5, 0, 0, 0, 5}));
}

// A few bytes ask for gigabytes.
TEST(onnx_folded, what_would_take_gigabytes_is_refused) {
  const auto grown = [](const std::string& op, const Whole& operand) {
    OnnxBuilder b(18);
    b.input("x", {1});
    b.floats("one", {1}, {1});
    b.integers("n", {int64_t(operand.size())}, operand);
    if (op == "Expand") b.node(op, {"one", "n"}, {"c"});
    else b.node(op, {"n"}, {"c"});
    b.node("ReduceMax", {"c"}, {"m"}).integer("keepdims", 0);
    b.node("Add", {"x", "m"}, {"y"});
    b.output("y");
    return refusal(b);
  };
  EXPECT_NE(grown("Expand", {1000000, 1000000}).find("c_node (Expand): has more than 2^31 - 1 elements"),
            std::string::npos);
  EXPECT_NE(grown("Expand", {40000, 40000}).find("the limit is 268,"), std::string::npos);
  EXPECT_NE(grown("ConstantOfShape", {30000, 40000}).find("the limit is 268,"), std::string::npos);
}

TEST(onnx_folded, an_operator_on_constants_only_says_what_it_reads_at_run_time) {
  OnnxBuilder b(18);
  b.input("x", {2, 2});
  b.node("NonZero", {"x"}, {"i"});
  b.node("Cast", {"i"}, {"y"}).integer("to", TensorProto::FLOAT);
  b.output("y");
  EXPECT_NE(refusal(b).find("i_node (NonZero): is supported on stored values only (x is computed at run time)"),
            std::string::npos);
}

TEST(onnx_folded, a_concatenation_has_any_number_of_parts) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  std::vector<std::string> parts(50, "x");
  b.node("Concat", parts, {"y"}).integer("axis", 1);
  b.output("y");
  Reals twice;
  for (int i = 0; i < 50; ++i) twice.insert(twice.end(), {3, 4});
  EXPECT_EQ(ops(imported(b)), std::vector<Op>(4, Op::kConcat));
  EXPECT_EQ(reals(run_converted<float>(b, {3, 4})), twice);
}

// ---- Types

void doubles(OnnxBuilder& b, const std::string& name, const std::vector<double>& numbers) {
  TensorProto& tensor = *b.model().mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::DOUBLE);
  tensor.add_dims(int64_t(numbers.size()));
  for (const double number : numbers) tensor.add_double_data(number);
}

// float32 cannot represent 2^24 + 1, and rounds 1e-50 to 0.
TEST(onnx_folded, doubles_keep_their_digits_on_the_way_to_other_types) {
  Folded whole;
  doubles(whole.b, "a", {0x1p24 + 1, 0.9999999999});
  whole.b.integers("wide", {2}, {1, 2});
  whole.b.integers("first", {}, {0});
  whole.b.integers("big", {}, {1 << 24});
  whole.b.integers("one", {1}, {1});
  whole.b.integers("zero", {1}, {0});
  whole.b.node("Reshape", {"a", "wide"}, {"row"});
  whole.b.node("Transpose", {"row"}, {"column"});
  whole.b.node("Concat", {"column", "column"}, {"both"}).integer("axis", 1);
  whole.b.node("Slice", {"both", "zero", "one", "one"}, {"part"});
  whole.b.node("Gather", {"part", "first"}, {"g"});
  whole.b.node("Expand", {"g", "one"}, {"e"});
  whole.b.node("Cast", {"e"}, {"i"}).integer("to", TensorProto::INT64);
  whole.b.node("Sub", {"i", "big"}, {"c"});
  EXPECT_EQ(whole.numbers("c"), (Reals{1}));

  Folded cut;
  doubles(cut.b, "a", {0.9999999999});
  cut.b.node("Cast", {"a"}, {"c"}).integer("to", TensorProto::INT32);
  EXPECT_EQ(cut.numbers("c"), (Reals{0}));

  Folded yes;
  doubles(yes.b, "a", {1e-50, 0});
  yes.b.node("Cast", {"a"}, {"c"}).integer("to", TensorProto::BOOL);
  EXPECT_EQ(yes.numbers("c"), (Reals{1, 0}));
}

// The operand is float64; the attributes lambd and bias are float32.
TEST(onnx_folded, formulas_are_computed_on_doubles) {
  Folded f;
  doubles(f.b, "a", {2, 0, -3});
  f.b.node("Shrink", {"a"}, {"c"}).real("lambd", 1).real("bias", 0.5f);
  EXPECT_EQ(f.numbers("c"), (Reals{1.5f, 0, -2.5f}));
}

TEST(onnx_folded, reductions_begin_and_end_in_their_type) {
  const auto of_nothing = [](const char* op, int type) {
    Folded f;
    f.b.codes("a", {0}, {}, type);
    f.b.node(op, {"a"}, {"c"}).integer("keepdims", 0);
    return f.numbers("c");
  };
  EXPECT_EQ(of_nothing("ReduceMax", TensorProto::INT8), (Reals{-128}));
  EXPECT_EQ(of_nothing("ReduceMin", TensorProto::INT8), (Reals{127}));
  EXPECT_EQ(of_nothing("ReduceMax", TensorProto::UINT8), (Reals{0}));
  EXPECT_EQ(of_nothing("ReduceMin", TensorProto::UINT8), (Reals{255}));

  Folded same;
  same.b.integers("a", {2}, {3, -4});
  same.b.node("ReduceL2", {"a"}, {"l"}).integer("noop_with_empty_axes", 1);
  same.b.node("Add", {"l", "a"}, {"c"});
  EXPECT_EQ(same.numbers("c"), (Reals{6, -8}));

  Folded none;
  none.b.floats("a", {2}, {1, NAN});
  none.b.node("ReduceLogSumExp", {"a"}, {"l"}).integer("keepdims", 0);
  none.b.node("IsNaN", {"l"}, {"c"});
  EXPECT_EQ(none.numbers("c"), (Reals{1}));
}

}  // namespace
}  // namespace nacre::tools
