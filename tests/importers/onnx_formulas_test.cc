// Tests import_onnx on operators that it writes as other operators: names, graphs in attributes, and bad input.
// tests/peers/operators.py compares their numbers with onnxruntime's, and tests/onnx/ with ONNX's own.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/importers/onnx_graphs.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

std::string why_not(const OnnxBuilder& b, ExitCode code) {
  try {
    imported(b);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the file was accepted";
  return "";
}

bool names(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(onnx_formulas, the_last_step_has_the_name_of_the_output) {
  OnnxBuilder b;
  b.input("x", {2, 4, 3});
  b.filled("scale", {4}, 1);
  b.filled("bias", {4}, 0);
  b.node("InstanceNormalization", {"x", "scale", "bias"}, {"y"});
  b.node("Relu", {"y"}, {"z"});
  b.output("z");
  const Graph graph = imported(b);
  EXPECT_EQ(graph.values[size_t(graph.nodes.back().inputs[0])].name, "y");
}

TEST(onnx_formulas, indices_outside_their_input_are_bad_input) {
  for (const char* op : {"GatherElements", "GatherND"}) {
    OnnxBuilder b;
    b.input("x", {3, 4});
    b.integers("indices", {1, 2}, {4, 0});
    b.node(op, {"x", "indices"}, {"y"});
    b.output("y");
    EXPECT_TRUE(names(why_not(b, kBadInput), "an index is outside its input")) << op;
  }
}

// A determinant becomes its minors written out. The result is exact for small integers.
TEST(onnx_formulas, determinants_are_sums_of_minors) {
  const auto determinants = [](const std::vector<int64_t>& dims, const std::vector<float>& x) {
    OnnxBuilder b;
    b.input("x", dims);
    b.node("Det", {"x"}, {"y"});
    b.output("y");
    return computed(b, x);
  };
  EXPECT_EQ(determinants({1, 1}, {3}), (std::vector<float>{3}));
  EXPECT_EQ(determinants({2, 3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4, 0, 1, 0, 1, 0, 0, 0, 0, 1}),
            (std::vector<float>{18, -1}));
  EXPECT_EQ(determinants({4, 4}, {1, 2, 3, 4, 0, 5, 6, 7, 0, 0, 8, 9, 1, 0, 0, 10}), (std::vector<float>{379}));
  OnnxBuilder b;
  b.input("x", {2, 3});
  b.node("Det", {"x"}, {"y"});
  b.output("y");
  EXPECT_TRUE(names(why_not(b, kBadInput), "its input is not square"));
}

TEST(onnx_formulas, equations_that_do_not_fit_are_bad_input) {
  for (const char* equation : {"ij,jk->il", "ij->ij", "ijk,jk->ik", "ij,kj,->i", "i?,jk->k"}) {
    OnnxBuilder b;
    b.input("x", {2, 3});
    b.filled("w", {3, 4}, 1);
    b.node("Einsum", {"x", "w"}, {"y"}).text("equation", equation);
    b.output("y");
    EXPECT_TRUE(names(why_not(b, kBadInput), "y_node (Einsum)")) << equation;
  }
}

// Imports a graph in an attribute (score_mod) that has a float16 constant, in a file of float16 numbers.
TEST(onnx_formulas, graphs_have_numbers_of_the_types_of_their_file) {
  OnnxBuilder b(24);
  ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
  import.set_domain("ai.onnx.preview");
  import.set_version(1);
  for (const char* name : {"q", "k", "v"}) b.input(name, {1, 1, 2, 2}, {}, TensorProto::FLOAT16);
  b.node("FlexAttention", {"q", "k", "v"}, {"y"}).domain("ai.onnx.preview");
  ::onnx::AttributeProto& change = *b.model().mutable_graph()->mutable_node(0)->add_attribute();
  change.set_name("score_mod");
  ::onnx::GraphProto& graph = *change.mutable_g();
  OnnxBuilder inside;
  inside.codes("half", {}, {0x4000}, TensorProto::FLOAT16);  // 2
  inside.node("Mul", {"score", "half"}, {"changed"});
  graph = inside.graph();
  graph.add_input()->set_name("score");
  graph.add_output()->set_name("changed");
  b.output("y");
  EXPECT_EQ(refusal(b), "");
}

// Results are within 2^-19 of those of <cmath>, and infinite or NaN exactly when those are.
TEST(onnx_formulas, inverse_functions_are_those_of_cmath) {
  const float far = 1e30f, infinite = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const struct {
    const char* op;
    double (*function)(double);
    std::vector<float> x;
  } rows[] = {
      {"Atan", std::atan, {0, 1e-6f, 0.3f, -0.42f, 0.9f, 1, -1.5f, 3, 1e6f, -far, infinite, -infinite, nan}},
      {"Asin", std::asin, {0, 1e-6f, 0.3f, -0.42f, 0.9f, 0.9999f, 1, -1, -0.7f, 1.5f, nan}},
      {"Acos", std::acos, {0, 1e-6f, 0.3f, -0.42f, 0.9f, 0.9999f, 1, -1, -0.9999f, 1.5f, nan}},
      {"Asinh", std::asinh, {0, 1e-6f, 0.3f, -0.42f, 1, -1.5f, 30, -1e6f, far, infinite, -infinite, nan}},
      {"Acosh", std::acosh, {1, 1.0001f, 1.3f, 2, 30, 1e6f, far, infinite, 0.5f, nan}},
      {"Atanh", std::atanh, {0, 1e-6f, 0.3f, -0.42f, 0.9f, 0.9999f, -0.9999f, 1, -1, 1.5f, nan}},
  };
  for (const auto& row : rows) {
    OnnxBuilder b;
    b.input("x", {int64_t(row.x.size())});
    b.node(row.op, {"x"}, {"y"});
    b.output("y");
    const std::vector<float> y = computed(b, row.x);
    for (size_t i = 0; i < y.size(); ++i) {
      const double want = row.function(double(row.x[i]));
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(y[i])) << row.op << " " << row.x[i];
      else if (std::isinf(want)) EXPECT_EQ(double(y[i]), want) << row.op << " " << row.x[i];
      else EXPECT_NEAR(double(y[i]), want, std::abs(want) * 0x1p-19) << row.op << " " << row.x[i];
    }
  }
}

TEST(onnx_formulas, parts_without_elements_add_nothing) {
  OnnxBuilder b;
  b.input("x", {2, 3});
  b.integers("sizes", {2}, {3, 0});
  b.node("Split", {"x", "sizes"}, {"all", "none"}).integer("axis", 1);
  b.node("Relu", {"all"}, {"positive"});
  b.node("Concat", {"positive", "none"}, {"y"}).integer("axis", 1);
  b.output("y");
  EXPECT_EQ(computed(b, {1, -2, 3, -4, 5, -6}), (std::vector<float>{1, 0, 3, 0, 5, 0}));
  b.output("none");
  EXPECT_TRUE(names(refusal(b), "none is empty: it has no elements"));
}

TEST(onnx_formulas, sums_before_the_only_element_are_zeros) {
  for (const char* op : {"CumSum", "CumProd"}) {
    OnnxBuilder b(26);
    b.input("x", {2, 1});
    b.integers("axis", {}, {1});
    b.node(op, {"x", "axis"}, {"y"}).integer("exclusive", 1);
    b.output("y");
    const float nothing = std::string(op) == "CumSum" ? 0 : 1;
    EXPECT_EQ(computed(b, {5, 6}), (std::vector<float>{nothing, nothing})) << op;
  }
}

// A Clip is min(max(x, low), high): the maximum is first. Here x_0 is a bound.
TEST(onnx_formulas, bounds_of_a_clip_may_be_computed) {
  const auto clipped = [](bool has_high) {
    OnnxBuilder b;
    b.input("x", {4});
    b.integers("first", {}, {0});
    b.filled("high", {}, -3);
    b.node("Gather", {"x", "first"}, {"bound"});
    b.node("Clip", {"x", has_high ? "bound" : "", has_high ? "high" : "bound"}, {"y"});
    b.output("y");
    return computed(b, {-1, -4, 2, -2});
  };
  EXPECT_EQ(clipped(true), (std::vector<float>{-3, -3, -3, -3}));
  EXPECT_EQ(clipped(false), (std::vector<float>{-1, -4, -1, -2}));
}

}  // namespace
}  // namespace nacre::tools
