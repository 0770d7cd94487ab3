// Tests which constants import_onnx makes one parameter for training, and which it makes two. For inference an
// Identity of a constant is that constant.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

const ImportOptions kTrain = {.train = true};

std::vector<ValueId> read_by(const Graph& graph, Op op, size_t slot) {
  std::vector<ValueId> ids;
  for (const Node& node : graph.nodes)
    if (node.op == op) ids.push_back(node.inputs[slot]);
  return ids;
}

int constants(const Graph& graph) {
  return int(std::count_if(graph.values.begin(), graph.values.end(), [](const Value& v) { return v.constant(); }));
}

// Applies one layer twice. A layer between the two reads an Identity of the same weights and bias.
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

// Builds y = (x w^T) w.
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

TEST(onnx_parameters, factors_of_a_product_are_steps) {
  OnnxBuilder b;
  b.input("x", {1, 3});
  b.counted("w", {3, 3});
  b.floats("c", {3}, {1, 2, 3});
  b.node("Gemm", {"x", "w"}, {"h"});
  b.node("Gemm", {"h", "w", "c"}, {"y"}).real("alpha", 2).real("beta", 3);
  b.output("y");
  const Graph graph = imported(b, kTrain);
  const std::vector<ValueId> ids = read_by(graph, Op::kDense, 1);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(constants(graph), 4) << "w, c and the factors";
  Graph trained = graph;
  simplify(trained, kSimplifyToTrain);
  EXPECT_EQ(constants(trained), 4);
  const std::vector<float> x = {1, -2, 3};
  const Graph result = run_graph(trained, {bytes_of(x)});
  EXPECT_EQ(reals(result.values[size_t(result.outputs[0].value)]), computed(b, x));
}

void expect_refused(const OnnxBuilder& b, const std::string& words) {
  EXPECT_NO_THROW(imported(b));
  try {
    imported(b, kTrain);
    FAIL() << "was imported";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(onnx_parameters, forms_that_no_step_makes_of_each_other_are_refused) {
  OnnxBuilder gates;  // the recurrence of a cell, and a layer that reads its matrix
  gates.input("x", {2, 1, 2});
  gates.counted("w", {1, 8, 2});
  gates.counted("r", {8, 2});
  gates.integers("axes", {1}, {0});
  gates.integers("one", {1}, {1});
  gates.node("Unsqueeze", {"r", "axes"}, {"s"});
  gates.node("LSTM", {"x", "w", "s"}, {"h"}).integer("hidden_size", 2);
  gates.node("Squeeze", {"h", "one"}, {"i"});
  gates.node("Transpose", {"r"}, {"t"}).ints("perm", {1, 0});
  gates.node("MatMul", {"i", "t"}, {"y"});
  gates.output("y");
  expect_refused(gates, "r is read by another layer too");

  OnnxBuilder joined;  // a recurrence whose matrix is cut from r and joined again
  joined.input("x", {2, 1, 2});
  joined.counted("w", {1, 8, 2});
  joined.counted("r", {8, 2});
  joined.integers("axes", {1}, {0});
  joined.integers("one", {1}, {1});
  joined.integers("zero", {1}, {0});
  joined.integers("four", {1}, {4});
  joined.integers("eight", {1}, {8});
  joined.node("Slice", {"r", "zero", "four", "zero"}, {"r1"});
  joined.node("Slice", {"r", "four", "eight", "zero"}, {"r2"});
  joined.node("Concat", {"r2", "r1"}, {"r3"}).integer("axis", 0);
  joined.node("Unsqueeze", {"r3", "axes"}, {"s"});
  joined.node("LSTM", {"x", "w", "s"}, {"h"}).integer("hidden_size", 2);
  joined.node("Squeeze", {"h", "one"}, {"i"});
  OnnxBuilder alone = joined;
  alone.output("i");
  EXPECT_TRUE(read_by(imported(alone, kTrain), Op::kSlice, 0).empty());
  joined.node("Transpose", {"r"}, {"t"}).ints("perm", {1, 0});
  joined.node("MatMul", {"i", "t"}, {"y"});
  joined.output("y");
  expect_refused(joined, "r3 is computed of r, which is read elsewhere too");
}

TEST(onnx_parameters, parts_that_nothing_else_reads_are_parameters) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.counted("w", {2, 6});
  b.node("Split", {"w"}, {"q", "k", "v"}).integer("axis", 1);
  b.node("MatMul", {"x", "q"}, {"a"});
  b.node("MatMul", {"a", "k"}, {"b"});
  b.node("MatMul", {"b", "v"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, kTrain);
  EXPECT_EQ(constants(graph), 3);
  EXPECT_EQ(graph.nodes.size(), 3u);
}

// Gathers one row of w twice.
TEST(onnx_parameters, parts_of_what_is_read_elsewhere_are_steps) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.counted("w", {2, 2});
  b.integers("rows", {2}, {1, 1});
  b.node("Gather", {"w", "rows"}, {"g"}).integer("axis", 0);
  b.node("MatMul", {"x", "g"}, {"h"});
  b.output("h");
  Graph graph = imported(b, kTrain);
  simplify(graph, kSimplifyToTrain);
  EXPECT_EQ(constants(graph), 1);
  EXPECT_EQ(operand(graph, first(graph, Op::kSlice), 0).name, "w");
  EXPECT_TRUE(operand(graph, first(graph, Op::kSlice), 0).keeps_steps);
  const std::vector<float> x = {3, -2};
  const Graph trained = run_graph(graph, {bytes_of(x)});
  EXPECT_EQ(reals(trained.values[size_t(trained.outputs[0].value)]), computed(b, x));
  simplify(graph);
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kDense}) << "as it is deployed";
}

// y = a x + x / a
TEST(onnx_parameters, a_divisor_that_another_step_reads_is_one_parameter) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.floats("a", {2}, {3, 7});
  b.node("Mul", {"x", "a"}, {"p"});
  b.node("Div", {"x", "a"}, {"q"});
  b.node("Add", {"p", "q"}, {"y"});
  b.output("y");
  const Graph graph = imported(b, kTrain);
  EXPECT_EQ(constants(graph), 1);
  const std::vector<float> x = {3, -2};
  const Graph ran = run_graph(graph, {bytes_of(x)});
  EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]), computed(b, x));
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kMul, Op::kMul, Op::kAdd})) << "as it is run";
}

// Repeats a class token c for each row of the batch, transposes it, and concatenates it with x [2, batch, 3].
TEST(onnx_parameters, what_a_batch_repeats_is_one_parameter_at_each_size_of_the_batch) {
  for (const char* op : {"Expand", "Tile"})
    for (const int64_t batch : {1, 4}) {
      OnnxBuilder b;
      b.input("x", {2, batch, 3});
      b.counted("c", {1, 1, 3});
      b.integers("times", {3}, {batch, 1, std::string(op) == "Tile" ? 1 : 3});
      b.node(op, {"c", "times"}, {"r"});
      b.node("Transpose", {"r"}, {"t"}).ints("perm", {1, 0, 2});
      b.node("Concat", {"t", "x"}, {"y"}).integer("axis", 0);
      b.output("y");
      Graph graph = imported(b, kTrain);
      simplify(graph, kSimplifyToTrain);
      const auto c = std::ranges::find(graph.values, "c", &Value::name);
      ASSERT_NE(c, graph.values.end()) << op << batch;
      EXPECT_EQ(c->dims, (std::vector<int64_t>{1, 1, 3})) << op << batch;
      EXPECT_TRUE(c->variable || c->keeps_steps) << op << batch;
      const std::vector<float> x(size_t(6 * batch), 2);
      const Graph ran = run_graph(graph, {bytes_of(x)});
      EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]), computed(b, x)) << op << batch;
    }
}

// y = x + table[positions]. The positions are repeated for each row of the batch.
TEST(onnx_parameters, positions_that_a_batch_repeats_read_one_table) {
  for (const int64_t batch : {1, 4}) {
    OnnxBuilder b;
    b.input("x", {batch, 2, 3});
    b.counted("table", {5, 3});
    b.integers("range", {1, 2}, {1, 3});
    b.integers("dims", {2}, {batch, 2});
    b.node("Expand", {"range", "dims"}, {"positions"});
    b.node("Gather", {"table", "positions"}, {"e"});
    b.node("Add", {"x", "e"}, {"y"});
    b.output("y");
    Graph graph = imported(b, kTrain);
    simplify(graph, kSimplifyToTrain);
    const auto table = std::ranges::find(graph.values, "table", &Value::name);
    ASSERT_NE(table, graph.values.end()) << batch;
    EXPECT_EQ(table->dims, (std::vector<int64_t>{5, 3})) << batch;
    const std::vector<float> x(size_t(6 * batch), 2);
    const Graph ran = run_graph(graph, {bytes_of(x)});
    EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]), computed(b, x)) << batch;
  }
}

TEST(onnx_parameters, codes_that_are_dequantized_twice_are_one) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.codes("c", {2, 2}, {1, 2, 3, 4}, TensorProto::INT8);
  b.floats("scale", {}, {0.5f});
  for (const std::string k : {"1", "2"}) b.node("DequantizeLinear", {"c", "scale"}, {"w" + k});
  b.node("MatMul", {"x", "w1"}, {"h"});
  b.node("MatMul", {"h", "w2"}, {"y"});
  b.output("y");
  const std::vector<ValueId> ids = read_by(imported(b, kTrain), Op::kDense, 1);
  EXPECT_EQ(ids[0], ids[1]);
}

bool notes(const Graph& graph, const std::string& words) {
  return std::any_of(graph.log.begin(), graph.log.end(), [&](const std::string& line) {
    return line.starts_with("training: ") && line.find(words) != line.npos;
  });
}

TEST(onnx_parameters, what_the_file_does_not_tell_is_said) {
  for (const auto& [name, one] : {std::pair("/Identity_output_0", true), std::pair("onnx::MatMul_16", false)}) {
    OnnxBuilder b;
    b.input("x", {1, 3});
    b.counted("w", {3, 3});
    b.node("Identity", {"w"}, {name});
    b.node("MatMul", {"x", "w"}, {"h"});
    b.node("MatMul", {"h", name}, {"y"});
    b.output("y");
    const Graph graph = imported(b, kTrain);
    const std::vector<ValueId> ids = read_by(graph, Op::kDense, 1);
    EXPECT_EQ(ids[0] == ids[1], one);
    EXPECT_EQ(notes(graph, "is trained apart from it"), !one);
    EXPECT_FALSE(notes(imported(b), ""));
  }
}

// One product reads 60 gathered rows of w, and a Gemm reads a computed matrix, w w. The graph to train must give the
// numbers of inference.
TEST(onnx_parameters, computed_matrices_have_the_numbers_of_inference) {
  OnnxBuilder b;
  b.input("x", {1, 60});
  b.counted("w", {20, 20});
  b.floats("c", {20}, std::vector<float>(20, 1));
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 60; ++i) rows.push_back(i * i * i * 7 % 20);
  b.integers("rows", {60}, rows);
  b.node("Gather", {"w", "rows"}, {"g"}).integer("axis", 0);
  b.node("MatMul", {"x", "g"}, {"h"});
  b.node("MatMul", {"w", "w"}, {"square"});
  b.node("Gemm", {"h", "square", "c"}, {"y"}).integer("transB", 1).real("alpha", 0.5f).real("beta", 2);
  b.output("y");
  Graph graph = imported(b, kTrain);
  simplify(graph, kSimplifyToTrain);
  EXPECT_EQ(value(graph, "w").dims, (Dims{20, 20}));
  EXPECT_FALSE(read_by(graph, Op::kEmbedding, 0).empty());
  std::vector<float> x(60, 0);
  x[3] = 1;
  const Graph trained = run_graph(graph, {bytes_of(x)});
  EXPECT_EQ(reals(trained.values[size_t(trained.outputs[0].value)]), computed(b, x));
}

TEST(onnx_parameters, every_flipped_bit_is_imported_or_refused) {
  flip_every_byte(merged_layers(), kTrain);
  flip_every_byte(autoencoder(), kTrain);
}

// PyTorch's newer exporter stores the zeros of a recurrence's initial state.
TEST(onnx_parameters, zeros_that_a_recurrence_begins_with_are_none) {
  const auto trained = [](bool stored, float first) {
    OnnxBuilder b;
    b.input("x", {3, 1, 2});
    b.counted("w", {1, 2, 2});
    b.counted("r", {1, 2, 2});
    b.floats("h0", {1, 1, 2}, {first, 0});
    std::vector<std::string> inputs = {"x", "w", "r"};
    if (stored) inputs.insert(inputs.end(), {"", "", "h0"});
    b.node("RNN", inputs, {"y"}).integer("hidden_size", 2);
    b.output("y");
    Graph graph = imported(b, kTrain);
    simplify(graph, kSimplifyToTrain);
    return std::count_if(graph.values.begin(), graph.values.end(), [](const Value& v) {
      return v.constant() && !v.fixed && is_float_type(v.stored) && v.elements() > 1;
    });
  };
  EXPECT_EQ(trained(false, 0), 2);
  EXPECT_EQ(trained(true, 0), 2);
  EXPECT_GT(trained(true, 1), 2) << "a state that is one";
}

}  // namespace
}  // namespace nacre::tools
