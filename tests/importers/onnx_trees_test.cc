// Tests import_onnx on decision trees: each mode, aggregate and transform, and files whose nodes are not a tree.
// tests/peers/ml_operators.py compares random forests with onnxruntime.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

OnnxBuilder ml_file(const Dims& x, int type = TensorProto::FLOAT) {
  OnnxBuilder b;
  ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
  import.set_domain("ai.onnx.ml");
  import.set_version(3);
  b.input("x", x, {}, type);
  return b;
}

// If x_0 `mode` 0.5, gives 10 to target 0. Else, if x_1 <= 2, gives 20 to target 1. Else gives 5 to both.
OnnxNode small_tree(OnnxBuilder& b, const std::string& mode, bool missing) {
  OnnxNode node = b.node("TreeEnsembleRegressor", {"x"}, {"y"});
  node.domain("ai.onnx.ml");
  node.ints("nodes_treeids", {7, 7, 7, 7, 7}).ints("nodes_nodeids", {0, 1, 2, 3, 4});
  node.texts("nodes_modes", {mode, "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"}).ints("nodes_featureids", {0, 0, 1, 0, 0});
  node.floats("nodes_values", {0.5f, 0, 2, 0, 0}).ints("nodes_truenodeids", {1, 0, 3, 0, 0});
  node.ints("nodes_falsenodeids", {2, 0, 4, 0, 0});
  node.ints("nodes_missing_value_tracks_true", {missing ? 1 : 0, 0, 0, 0, 0});
  node.ints("target_treeids", {7, 7, 7, 7}).ints("target_nodeids", {1, 3, 4, 4}).ints("target_ids", {0, 1, 0, 1});
  node.floats("target_weights", {10, 20, 5, 5}).integer("n_targets", 2);
  b.output("y");
  return node;
}

TEST(onnx_trees, every_mode_turns_as_it_says) {
  const struct {
    const char* mode;
    bool below, equal, above, none;
  } rows[] = {{"BRANCH_LEQ", true, true, false, false}, {"BRANCH_LT", true, false, false, false},
              {"BRANCH_GTE", false, true, true, false}, {"BRANCH_GT", false, false, true, false},
              {"BRANCH_EQ", false, true, false, false}, {"BRANCH_NEQ", true, false, true, true}};
  for (const auto& row : rows)
    for (const bool missing : {false, true}) {
      OnnxBuilder b = ml_file({4, 2});
      small_tree(b, row.mode, missing);
      const std::vector<float> y = reals(run_converted<float>(b, {0, 0, 0.5f, 0, 1, 0, kMissing, 3}));
      EXPECT_EQ(y[0], row.below ? 10 : 0) << row.mode;
      EXPECT_EQ(y[2], row.equal ? 10 : 0) << row.mode;
      EXPECT_EQ(y[5], row.above ? 0 : 20) << row.mode;
      EXPECT_EQ(y[6], row.none || missing ? 10 : 5) << row.mode;
    }
}

TEST(onnx_trees, base_values_come_after_the_aggregate) {
  const std::pair<const char*, std::vector<float>> rows[] = {
      {"SUM", {25, 17}}, {"AVERAGE", {12.5f, 7}}, {"MIN", {10, 7}}, {"MAX", {15, 7}}};
  for (const auto& [name, expected] : rows) {
    OnnxBuilder b = ml_file({1, 2});
    OnnxNode node = b.node("TreeEnsembleRegressor", {"x"}, {"y"});
    node.domain("ai.onnx.ml").texts("nodes_modes", {"LEAF", "LEAF"}).ints("nodes_treeids", {0, 1});
    node.ints("nodes_nodeids", {0, 0}).ints("nodes_featureids", {0, 0}).floats("nodes_values", {0, 0});
    node.ints("nodes_truenodeids", {0, 0}).ints("nodes_falsenodeids", {0, 0}).integer("n_targets", 2);
    node.ints("target_treeids", {0, 1, 1}).ints("target_nodeids", {0, 0, 0}).ints("target_ids", {0, 0, 1});
    node.floats("target_weights", {10, 15, 20}).text("aggregate_function", name);
    node.floats("base_values", {0, std::string(name) == "AVERAGE" || std::string(name) == "SUM" ? -3.0f : -13.0f});
    b.output("y");
    EXPECT_EQ(reals(run_converted<float>(b, {0, 0})), expected) << name;
  }
}

// A float64 threshold is rounded so that each float32 stays on its side: 0.1 is below 0.1f, and 0.1f is not below
// itself.
TEST(onnx_trees, thresholds_of_float64_turn_as_they_did) {
  for (const double threshold : {0.1, 0.3, -0.1, 1e-300, -1e-300, 1e300, -1e300, 16777217.0}) {
    OnnxBuilder b = ml_file({3, 1});
    OnnxNode node = b.node("TreeEnsembleRegressor", {"x"}, {"y"});
    ::onnx::TensorProto values, weights;
    values.set_data_type(TensorProto::DOUBLE);
    weights.set_data_type(TensorProto::DOUBLE);
    for (const double value : {threshold, threshold, 0.0, 0.0}) values.add_double_data(value);
    for (const double weight : {1.0, 2.0, 4.0}) weights.add_double_data(weight);
    values.add_dims(4);
    weights.add_dims(3);
    node.domain("ai.onnx.ml").texts("nodes_modes", {"BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF"});
    node.ints("nodes_treeids", {0, 0, 0, 0}).ints("nodes_nodeids", {0, 1, 2, 3}).ints("nodes_featureids", {0, 0, 0, 0});
    node.tensor("nodes_values_as_tensor", values).tensor("target_weights_as_tensor", weights);
    node.ints("nodes_truenodeids", {1, 2, 0, 0}).ints("nodes_falsenodeids", {3, 3, 0, 0}).integer("n_targets", 1);
    node.ints("target_treeids", {0, 0, 0}).ints("target_nodeids", {2, 3, 3}).ints("target_ids", {0, 0, 0});
    b.output("y");
    const float near = std::fabs(threshold) > 1e38
                           ? (threshold > 0 ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest())
                           : float(threshold);
    const std::vector<float> x = {std::nextafter(near, -INFINITY), near, std::nextafter(near, INFINITY)};
    const std::vector<float> y = reals(run_converted<float>(b, x));
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], double(x[i]) < threshold ? 1 : 6) << threshold << ' ' << i;
  }
}

::onnx::TensorProto tensor_of(const std::vector<float>& numbers, int type = TensorProto::FLOAT) {
  ::onnx::TensorProto tensor;
  tensor.set_data_type(type);
  tensor.add_dims(int64_t(numbers.size()));
  for (const float number : numbers)
    if (type == TensorProto::UINT8) tensor.add_int32_data(int(number));
    else tensor.add_float_data(number);
  return tensor;
}

TEST(onnx_trees, a_set_is_a_chain_of_nodes) {
  OnnxBuilder b = ml_file({5, 1});
  OnnxNode node = b.node("TreeEnsemble", {"x"}, {"y"});
  node.domain("ai.onnx.ml").ints("nodes_featureids", {0, 0, 0}).ints("tree_roots", {0}).integer("n_targets", 1);
  node.tensor("nodes_modes", tensor_of({6, 6, 6}, TensorProto::UINT8)).tensor("nodes_splits", tensor_of({0, 0, 0}));
  node.tensor("membership_values", tensor_of({1, 3, 5, kMissing, kMissing, 4, kMissing}));  // the second is empty
  node.ints("nodes_truenodeids", {0, 1, 1}).ints("nodes_trueleafs", {1, 1, 1}).ints("nodes_falsenodeids", {1, 2, 2});
  node.ints("nodes_falseleafs", {0, 0, 1})
      .ints("leaf_targetids", {0, 0, 0})
      .ints("nodes_missing_value_tracks_true", {0, 0, 1});
  node.tensor("leaf_weights", tensor_of({1, 2, 3}));
  b.output("y");
  EXPECT_EQ(reals(run_converted<float>(b, {3, 5, 4, 2, kMissing})), (std::vector<float>{1, 1, 2, 3, 2}));
}

// One tree for two classes. `ids`: the classes of the weights of its two leaves.
OnnxNode two_class_tree(OnnxBuilder& b, const std::vector<int64_t>& ids) {
  OnnxNode node = b.node("TreeEnsembleClassifier", {"x"}, {"label", "scores"});
  node.domain("ai.onnx.ml").texts("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"}).ints("nodes_treeids", {0, 0, 0});
  node.ints("nodes_nodeids", {0, 1, 2}).ints("nodes_featureids", {0, 0, 0}).floats("nodes_values", {0, 0, 0});
  node.ints("nodes_truenodeids", {1, 0, 0}).ints("nodes_falsenodeids", {2, 0, 0});
  node.texts("classlabels_strings", {"no", "yes"}).ints("class_ids", ids);
  if (ids.empty()) return node;
  node.ints("class_treeids", {0, 0}).ints("class_nodeids", {1, 2}).floats("class_weights", {0.25f, 0.75f});
  return node;
}

// A tree without weights is malformed: onnxruntime 1.31 gives the label 0, which is no class, and the standard's
// reference implementation fails.
TEST(onnx_trees, two_classes_have_weights_of_the_first_or_of_both) {
  const auto refused = [](const std::vector<int64_t>& ids) {
    OnnxBuilder b = ml_file({2, 1});
    two_class_tree(b, ids);
    b.output("scores");
    return refusal(b);
  };
  EXPECT_EQ(refused({0, 0}), "");
  EXPECT_EQ(refused({0, 1}), "");
  EXPECT_NE(refused({1, 1}).find("has weights of its second class alone"), std::string::npos);
  EXPECT_NE(refused({}).find("label_node (TreeEnsembleClassifier): a leaf has no weight"), std::string::npos)
      << refused({});
}

TEST(onnx_trees, names_of_classes_are_listed) {
  OnnxBuilder b = ml_file({2, 1});
  two_class_tree(b, {0, 0});
  b.node("ZipMap", {"scores"}, {"maps"}).domain("ai.onnx.ml").texts("classlabels_strings", {"no", "yes"});
  b.output("label");
  b.output("maps");
  const Graph graph = converted(b);
  const std::pair<std::string, std::string> listed = {"labels", "no\nyes\n"};
  EXPECT_EQ(graph.metadata, (std::vector{listed}));
  const Graph run = run_graph(graph, {bytes_of<float>({-1, 1})});
  EXPECT_EQ(integers(run.values[size_t(graph.outputs[0].value)]), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(reals(run.values[size_t(graph.outputs[1].value)]), (std::vector<float>{0.75f, 0.25f, 0.25f, 0.75f}));
}

TEST(onnx_trees, loops_and_what_is_not_there_are_refused) {
  const auto with = [](const char* key, const std::vector<int64_t>& values) {
    OnnxBuilder b = ml_file({1, 2});
    small_tree(b, "BRANCH_LEQ", false);
    for (::onnx::AttributeProto& a : *b.model().mutable_graph()->mutable_node(0)->mutable_attribute()) {
      if (a.name() != key) continue;
      a.clear_ints();
      for (const int64_t value : values) a.add_ints(value);
    }
    return refusal(b);
  };
  EXPECT_EQ(with("nodes_falsenodeids", {2, 0, 4, 0, 0}), "");
  const std::string loop = with("nodes_falsenodeids", {2, 0, 0, 0, 0});
  EXPECT_NE(loop.find("y_node (TreeEnsembleRegressor): a node of a tree leads back to itself"), std::string::npos)
      << loop;
  EXPECT_NE(with("nodes_truenodeids", {9, 0, 3, 0, 0}).find("node 9 of a tree is not there"), std::string::npos);
  EXPECT_NE(with("nodes_featureids", {0, 0, 2, 0, 0}).find("reads feature 2 of 2"), std::string::npos);
  EXPECT_NE(with("nodes_featureids", {0, 0}).find("nodes_featureids has another length"), std::string::npos);
  EXPECT_NE(with("nodes_nodeids", {0, 1, 2, 3, 3}).find("node 3 is twice in one tree"), std::string::npos);
  EXPECT_NE(with("target_ids", {0, 2, 0, 1}).find("a leaf has a target that is not there"), std::string::npos);
  EXPECT_NE(with("target_nodeids", {1, 3, 3, 3}).find("a leaf has no weight"), std::string::npos);
}

TEST(onnx_trees, flipped_bits_are_trees_or_are_refused) {
  OnnxBuilder b = ml_file({1, 2});
  small_tree(b, "BRANCH_LT", true);
  flip_every_byte(b);
}

}  // namespace
}  // namespace nacre::tools
