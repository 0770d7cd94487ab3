// import_onnx of what is to be trained: which constants are one parameter, and which are two. Of what is only run: as before.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

constexpr ImportOptions kTrain = {.train = true};

std::vector<ValueId> read_by(const Graph& graph, Op op, size_t slot) {
  std::vector<ValueId> ids;
  for (const Node& node : graph.nodes)
    if (node.op == op) ids.push_back(node.inputs[slot]);
  return ids;
}

int constants(const Graph& graph) {
  return int(std::count_if(graph.values.begin(), graph.values.end(), [](const Value& v) { return v.constant(); }));
}

// A layer applied twice, and between them one that reads an Identity of its weights and of its bias.
OnnxBuilder merged_layers() {
  OnnxBuilder b;
  b.input("x", {1, 3});
  b.counted("w", {3, 3});
  b.floats("b", {3}, {0, 0, 0});
  b.node("Identity", {"w"}, {"v"});
  b.node("Identity", {"b"}, {"c"});
  b.node("Gemm", {"x", "w", "b"}, {"h"}).integer("transB", 1);
  b.node("Gemm", {"h", "v", "c"}, {"i"}).integer("transB", 1);
  b.node("Gemm", {"i", "w", "b"}, {"y"}).integer("transB", 1);
  b.output("y");
  return b;
}

TEST(onnx_parameters, an_identity_is_one_of_its_own_and_what_two_read_is_one) {
  const Graph graph = imported(merged_layers(), kTrain);
  for (const size_t slot : {1, 2}) {
    const std::vector<ValueId> ids = read_by(graph, Op::kDense, slot);
    ASSERT_EQ(ids.size(), 3u);
    EXPECT_EQ(ids[0], ids[2]);
    EXPECT_NE(ids[0], ids[1]);
    EXPECT_EQ(graph.values[size_t(ids[1])].name, slot == 1 ? "v" : "c");
    EXPECT_EQ(*graph.values[size_t(ids[0])].data, *graph.values[size_t(ids[1])].data);
  }
  EXPECT_EQ(constants(graph), 4);
}

TEST(onnx_parameters, what_is_only_run_is_stored_as_before) {
  const Graph graph = imported(merged_layers());
  EXPECT_EQ(read_by(graph, Op::kDense, 2), std::vector<ValueId>(3, graph.nodes[0].inputs[2]));
  for (const ValueId id : read_by(graph, Op::kDense, 1)) EXPECT_TRUE(graph.values[size_t(id)].constant());
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(onnx_parameters, a_transpose_of_a_transpose_is_what_it_was) {
  OnnxBuilder b;
  b.input("ids", {1}, {}, TensorProto::INT64);
  b.counted("table", {5, 4});
  b.node("Transpose", {"table"}, {"t"}).ints("perm", {1, 0});
  b.node("Gather", {"table", "ids"}, {"h"});
  b.node("MatMul", {"h", "t"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, kTrain);
  EXPECT_EQ(first(graph, Op::kDense).inputs[1], first(graph, Op::kEmbedding).inputs[0]);
  EXPECT_EQ(value(graph, "table").dims, (Dims{5, 4}));
  EXPECT_EQ(constants(graph), 1);
}

// y = tanh(x w^T) w
OnnxBuilder autoencoder() {
  OnnxBuilder b;
  b.input("x", {1, 3});
  b.counted("w", {2, 3});
  b.node("Transpose", {"w"}, {"t"}).ints("perm", {1, 0});
  b.node("MatMul", {"x", "t"}, {"h"});
  b.node("MatMul", {"h", "w"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_parameters, another_order_is_a_step_that_stays) {
  Graph graph = imported(autoencoder(), kTrain);
  simplify(graph, kSimplifyToTrain);
  const Node& transpose = first(graph, Op::kTranspose);
  EXPECT_EQ(read_by(graph, Op::kDense, 1), (std::vector<ValueId>{transpose.inputs[0], transpose.outputs[0]}));
  EXPECT_EQ(operand(graph, transpose, 0).name, "w");
  EXPECT_EQ(ops(converted(autoencoder())), (std::vector<Op>{Op::kDense, Op::kDense}));
  const std::vector<float> x = {1, -2, 3};
  const Graph trained = run_graph(graph, {bytes_of(x)});
  EXPECT_EQ(reals(trained.values[size_t(trained.outputs[0].value)]), computed(autoencoder(), x));
}

TEST(onnx_parameters, a_bias_of_two_shapes_is_one) {
  OnnxBuilder b;
  b.input("x", {1, 2, 3});
  b.counted("w", {3, 3});
  b.counted("v", {3, 3});
  b.floats("b", {3}, {1, 2, 3});
  b.integers("shape", {2}, {1, 3});
  b.node("Reshape", {"b", "shape"}, {"c"});
  b.node("MatMul", {"x", "w"}, {"h"});
  b.node("Add", {"h", "c"}, {"i"});
  b.node("MatMul", {"i", "v"}, {"j"});
  b.node("Add", {"j", "b"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, kTrain);
  const std::vector<ValueId> biases = read_by(graph, Op::kDense, 2);
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0], biases[1]);
  EXPECT_EQ(graph.values[size_t(biases[0])].name, "b");
}

TEST(onnx_parameters, what_is_computed_twice_of_one_is_one) {
  OnnxBuilder b;
  b.input("x", {2, 1, 2});
  b.counted("w", {8, 2});
  b.counted("r", {8, 2});
  b.integers("axes", {1}, {0});
  for (const std::string k : {"1", "2"}) {
    b.node("Unsqueeze", {"w", "axes"}, {"w" + k});
    b.node("Concat", {"r"}, {"s" + k}).integer("axis", 0);
    b.node("Unsqueeze", {"s" + k, "axes"}, {"r" + k});
  }
  b.node("LSTM", {"x", "w1", "r1"}, {"h"}).integer("hidden_size", 2);
  b.node("Squeeze", {"h", "axes1"}, {"i"});
  b.integers("axes1", {1}, {1});
  b.node("LSTM", {"i", "w2", "r2"}, {"y"}).integer("hidden_size", 2);
  b.output("y");
  const Graph graph = imported(b, kTrain);
  for (const auto& [op, slot] : {std::pair(Op::kDense, size_t{1}), std::pair(Op::kLstm, size_t{1})}) {
    const std::vector<ValueId> ids = read_by(graph, op, slot);
    ASSERT_EQ(ids.size(), 2u);
    EXPECT_EQ(ids[0], ids[1]);
  }
}

TEST(onnx_parameters, forms_that_no_step_makes_of_each_other_are_refused) {
  OnnxBuilder b;
  b.input("x", {1, 3});
  b.counted("w", {3, 3});
  b.node("Gemm", {"x", "w"}, {"h"});
  b.node("Gemm", {"h", "w"}, {"y"}).real("alpha", 2);
  b.output("y");
  EXPECT_NO_THROW(imported(b));
  try {
    imported(b, kTrain);
    FAIL() << "was imported";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("w is read by another layer too"), std::string::npos) << error.what();
  }
}

TEST(onnx_parameters, every_flipped_bit_is_imported_or_refused) {
  flip_every_byte(merged_layers(), kTrain);
  flip_every_byte(autoencoder(), kTrain);
}

}  // namespace
}  // namespace nacre::tools
