// Tests which constants of files by torch.onnx.export(dynamo=True) are parameters. The metadata are as torch 2.15
// writes them. tests/peers/literals.py does the same with real exports.
#include <gtest/gtest.h>

#include "engine/ops/binary.h"
#include "tests/importers/onnx_torch_file.h"
#include "tools/differentiate/trained_constants.h"
#include "tools/importers/onnx/torch.h"

namespace nacre::tools {
namespace {

// Returns the names and sizes of the constants that training changes, as "a.weight 9, b 3".
std::string trained_names(const OnnxBuilder& b) {
  std::string text;
  for (const TrainedConstant& constant : trained_constants(to_train(b), {}))
    text += (text.empty() ? "" : ", ") + constant.name + " " + std::to_string(constant.numbers);
  return text;
}

std::vector<float> outputs_of(const Graph& graph, const std::vector<float>& x) {
  const Graph run = run_graph(graph, {bytes_of(x)});
  return reals(run.values[size_t(graph.outputs[0].value)]);
}

constexpr const char* kDense = "p_w: PARAMETER target='w'\np_b: PARAMETER target='b'\n";

// Computes (x w^T + b) + 1, divides it twice by one literal, and subtracts a buffer.
TorchFile literals() {
  TorchFile b(std::string("\n# inputs\n") + kDense +
              "b_mean: BUFFER target='mean' persistent=True\nx: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n");
  b.counted("w", {3, 3});
  b.counted("b", {3});
  b.floats("val_0", {}, {1});
  b.floats("val_1", {}, {4});
  b.floats("mean", {3}, {1, 2, 3});
  b.call("Gemm", {"x", "w", "b"}, "linear", "%x, %p_w, %p_b").integer("transB", 1);
  b.call("Add", {"linear", "val_0"}, "add", "%linear, 1.0");
  b.call("Div", {"add", "val_1"}, "div", "%add, 4.0");
  b.call("Div", {"div", "val_1"}, "div_1", "%div, 4.0");
  b.call("Sub", {"div_1", "mean"}, "y", "%div_1, %b_mean");
  b.output("y");
  return b;
}

TEST(onnx_torch, literals_and_buffers_are_no_parameters) {
  const TorchFile b = literals();
  EXPECT_EQ(trained_names(b), "b 3, w 9");
  const std::vector<float> x = {1, -2, 3};
  EXPECT_EQ(outputs_of(to_train(b), x), computed(b, x));
}

TEST(onnx_torch, the_signature_of_older_versions_says_the_same) {
  TorchFile b = literals();
  ::onnx::GraphProto& graph = *b.model().mutable_graph();
  const std::string text = torch::metadata_of(graph, torch::kGraphMetadata, kSignatureKey);
  ASSERT_NE(text.find("BUFFER"), std::string::npos);
  TorchFile other("");
  *other.model().mutable_graph() = graph;
  ::onnx::GraphProto& older = *other.model().mutable_graph();
  clear_metadata(older);
  put_metadata(
      older, torch::kGraphMetadata, kSignatureKey,
      "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_w'), "
      "target='w', persistent=None), InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_b'), "
      "target='b', persistent=None), InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_mean'), "
      "target='mean', persistent=True), InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=TensorArgument(name='x'), "
      "target=None, persistent=None)], output_specs=[])");
  EXPECT_EQ(trained_names(other), "b 3, w 9");
}

// Two norms have weights of ones and zeros, which the exporter stored once.
TEST(onnx_torch, equal_parameters_of_two_layers_are_two) {
  TorchFile b(
      "p_a: PARAMETER target='n1.weight'\np_b: PARAMETER target='n1.bias'\np_c: PARAMETER target='n2.weight'\n"
      "p_d: PARAMETER target='n2.bias'\n");
  b.filled("n1.weight", {3}, 1);
  b.filled("n1.bias", {3}, 0);
  b.call("LayerNormalization", {"x", "n1.weight", "n1.bias"}, "layer_norm", "%x, [3], %p_a, %p_b, 1e-05, False");
  b.call("Relu", {"layer_norm"}, "relu", "%layer_norm");
  b.call("LayerNormalization", {"relu", "n1.weight", "n1.bias"}, "y", "%relu, [3], %p_c, %p_d, 1e-05, False");
  b.output("y");
  EXPECT_EQ(trained_names(b), "n1.weight 3, n1.bias 3, n2.weight 3, n2.bias 3");
  const std::vector<float> x = {1, -2, 3};
  EXPECT_EQ(outputs_of(to_train(b), x), computed(b, x));
}

TEST(onnx_torch, a_layer_that_is_applied_twice_is_one) {
  TorchFile b(kDense);
  b.counted("w", {3, 3});
  b.counted("b", {3});
  b.call("Gemm", {"x", "w", "b"}, "linear", "%x, %p_w, %p_b").integer("transB", 1);
  b.call("Gemm", {"linear", "w", "b"}, "y", "%linear, %p_w, %p_b").integer("transB", 1);
  b.output("y");
  EXPECT_EQ(trained_names(b), "b 3, w 9");
}

TEST(onnx_torch, a_literal_with_the_number_of_a_parameter_stays) {
  TorchFile b(std::string(kDense) + "p_gain: PARAMETER target='gain'\n");
  b.counted("w", {3, 3});
  b.counted("b", {3});
  b.floats("gain", {}, {2});
  b.call("Gemm", {"x", "w", "b"}, "linear", "%x, %p_w, %p_b").integer("transB", 1);
  b.call("Pow", {"linear", "gain"}, "pow_1", "%linear, 2");
  b.call("Mul", {"pow_1", "gain"}, "y", "%pow_1, %p_gain");
  b.output("y");
  EXPECT_EQ(trained_names(b), "b 3, w 9, gain 1");
  const Graph graph = to_train(b);
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kBinary || get_integer(node, "function") != int(Binary::kPow)) continue;
    EXPECT_TRUE(graph.values[size_t(node.inputs[1])].fixed);
  }
}

TEST(onnx_torch, a_bias_of_zeros_that_was_left_out_trains) {
  TorchFile b(kDense);
  b.counted("w", {2, 3});
  b.call("Gemm", {"x", "w"}, "y", "%x, %p_w, %p_b", "linear", "RemoveOptionalBiasFromGemm").integer("transB", 1);
  b.output("y");
  EXPECT_EQ(trained_names(b), "b 2, w 6");
}

// One matrix embeds and decodes. The file also stores its transpose.
TEST(onnx_torch, a_stored_transpose_of_a_parameter_is_that_parameter) {
  TorchFile b("p_t: PARAMETER target='table'\n");
  b.input("ids", {1}, {}, TensorProto::INT64);
  b.counted("table", {4, 3});
  b.floats("val_5", {3, 4}, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  b.folded("val_5", "['table']");
  b.call("Gather", {"table", "ids"}, "embedding", "%p_t, %ids");
  b.call("Add", {"embedding", "x"}, "add", "%embedding, %x");
  b.call("MatMul", {"add", "val_5"}, "y", "%add, %p_t", "linear");
  b.output("y");
  EXPECT_EQ(trained_names(b), "table 12");
}

TEST(onnx_torch, folded_forms_of_one_parameter_keep_their_name) {
  TorchFile b("p_p: PARAMETER target='p.weight'\np_q: PARAMETER target='q.weight'\n");
  b.filled("val_1", {1, 3}, 0.25f);
  b.folded("val_1", "['p.weight', 'val_0']");
  b.call("PRelu", {"x", "val_1"}, "prelu", "%x, %p_p");
  b.call("Tanh", {"prelu"}, "tanh", "%prelu");
  b.call("PRelu", {"tanh", "val_1"}, "y", "%tanh, %p_q");
  b.output("y");
  EXPECT_EQ(trained_names(b), "val_1 3, q.weight 3");
}

TEST(onnx_torch, what_the_file_does_not_tell_is_refused_by_name) {
  TorchFile expanded("p_c: PARAMETER target='cls'\n");
  expanded.filled("expand", {1, 3}, 1);
  expanded.folded("expand", "['cls', 'val_1']");
  expanded.call("Add", {"x", "expand"}, "y", "%x, %expand");
  expanded.output("y");
  EXPECT_NE(refusal_to_train(expanded).find("expand was computed of cls at the export"), std::string::npos)
      << refusal_to_train(expanded);
  EXPECT_NE(refusal_to_train(expanded).find("optimize=False"), std::string::npos);

  TorchFile lost(std::string(kDense) + "p_a: PARAMETER target='n1.weight'\np_c: PARAMETER target='n2.weight'\n");
  lost.filled("n1.weight", {3}, 1);
  lost.counted("w", {3, 3});
  lost.counted("b", {3});
  lost.call("Mul", {"x", "n1.weight"}, "mul", "%x, %p_a");
  lost.call("Gemm", {"mul", "w", "b"}, "linear", "%mul, %p_w, %p_b").integer("transB", 1);
  lost.call("Add", {"linear", "mul"}, "y", "%linear, %mul_1");
  lost.output("y");
  EXPECT_NE(refusal_to_train(lost).find("in the place of mul_1"), std::string::npos) << refusal_to_train(lost);
}

// Multiplies x by the constant `folded`, whose metadata says that the exporter computed it from the names in `from`.
// The call of the product has these `arguments`.
TorchFile product_of_folded(const std::string& folded, const std::string& from, const std::string& arguments) {
  TorchFile b("p_w: PARAMETER target='w'\nb_m: BUFFER target='m' persistent=True\n");
  b.counted(folded, {3, 3});
  b.folded(folded, from);
  b.call("MatMul", {"x", folded}, "y", arguments);
  b.output("y");
  return b;
}

TEST(onnx_torch, folded_moves_of_one_parameter_train_as_it) {
  EXPECT_EQ(trained_names(product_of_folded("t", "['w']", "%x, %t")), "t 9");
  EXPECT_EQ(trained_names(product_of_folded("view", "['clone', 'permute_1', 'val_1', 'w']", "%x, %view")), "view 9");
  EXPECT_EQ(trained_names(product_of_folded("val_0", "['w']", "%x, %p_w")), "val_0 9");
  EXPECT_EQ(trained_names(product_of_folded("val_8", "['val_3', 'w', 'x']", "%x, %p_w")), "val_8 9");
}

// A list of w alone would mean a moved parameter. Another name in the list shows that the constant was computed.
TEST(onnx_torch, folded_functions_of_a_parameter_are_refused) {
  const TorchFile files[] = {
      product_of_folded("t", "['m', 'mul', 'w']", "%x, %t"), product_of_folded("t", "['add', 'w']", "%x, %t"),
      product_of_folded("t", "['m', 'w']", "%x, %t"), product_of_folded("view", "['index', 'val_0', 'w']", "%x, %view"),
      product_of_folded("val_0", "['m', 'mul', 'w']", "%x, %mul")};
  for (const TorchFile& file : files) {
    const std::string refusal = refusal_to_train(file);
    EXPECT_NE(refusal.find("was computed of w at the export: it is no parameter"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("optimize=False"), std::string::npos) << refusal;
  }
}

// The call add(x, w, alpha=2) has a step that computes 2 w.
TEST(onnx_torch, numbers_that_a_step_of_the_call_computed_are_refused) {
  TorchFile b("p_w: PARAMETER target='w'\n");
  b.counted("val_2", {3});
  b.folded("val_2", "['val_0', 'val_1', 'w']");
  b.call("Add", {"x", "val_2"}, "y", "%x, %p_w");
  b.output("y");
  EXPECT_NE(refusal_to_train(b).find("val_2 was computed of w"), std::string::npos) << refusal_to_train(b);
}

// Builds x + b + `argument`. Both constants are equal, so the exporter stored only b.
TorchFile equal_to_a_parameter(const std::string& argument) {
  TorchFile b("p_b: PARAMETER target='b'\n");
  b.filled("b", {3}, 0);
  b.call("Add", {"x", "b"}, "add", "%x, %p_b");
  b.call("Add", {"add", "b"}, "y", "%add, %" + argument);
  b.output("y");
  return b;
}

TEST(onnx_torch, literals_that_equal_a_parameter_stay) {
  const std::vector<float> x = {1, -2, 3};
  for (const char* literal : {"zeros", "zeros_1", "full_like_2", "scalar_tensor_default", "_tensor_constant0"}) {
    const TorchFile b = equal_to_a_parameter(literal);
    EXPECT_EQ(trained_names(b), "b 3") << literal;
    const Graph graph = to_train(b);
    EXPECT_EQ(outputs_of(graph, x), computed(b, x)) << literal;
    bool fixed = false;
    for (const Node& node : graph.nodes)
      for (const int input : node.inputs) fixed |= graph.values[size_t(input)].fixed;
    EXPECT_TRUE(fixed) << literal;
  }
}

TEST(onnx_torch, a_computed_constant_that_equals_a_parameter_is_refused) {
  EXPECT_NE(refusal_to_train(equal_to_a_parameter("exp")).find("reads b in the place of exp"), std::string::npos)
      << refusal_to_train(equal_to_a_parameter("exp"));
  EXPECT_EQ(refusal_to_train(equal_to_a_parameter("clone")), "");
}

TEST(onnx_torch, a_parameter_that_a_node_without_a_call_reads_is_read) {
  TorchFile b("p_b: PARAMETER target='b'\n");
  b.counted("b", {3});
  b.node("Add", {"x", "b"}, {"y"});
  b.output("y");
  EXPECT_EQ(trained_names(b), "b 3");
  const std::string name = "test";
  ::onnx::ModelProto model = b.model();
  EXPECT_TRUE(torch::separate_torch_constants(model, name).notes.empty());
}

// Without metadata, the names that the exporter gives still tell literals from parameters.
TEST(onnx_torch, without_metadata_numbers_with_names_of_the_exporter_are_literals) {
  OnnxBuilder b;
  b.model().set_producer_name("pytorch");
  b.input("x", {1, 3});
  b.floats("val_3", {}, {4});
  b.floats("scale", {1}, {2});
  b.counted("w", {3, 3});
  b.node("Div", {"x", "val_3"}, {"h"});
  b.node("Mul", {"h", "scale"}, {"i"});
  b.node("MatMul", {"i", "w"}, {"y"});
  b.output("y");
  EXPECT_EQ(trained_names(b), "scale 1, w 9");
}

// In files of the older exporter, gains and tokens train. Normalisation constants of the data and tables do not.
TEST(onnx_torch, of_the_older_exporter_factors_train_and_normalisers_stay) {
  OnnxBuilder b;
  b.model().set_producer_name("pytorch");
  b.input("x", {2, 3});
  b.floats("mean", {3}, {1, 2, 3});
  b.floats("deviation", {3}, {2, 4, 8});
  b.floats("gain", {3}, {1, 2, 4});
  b.counted("table", {2, 3});
  b.counted("w", {3, 3});
  b.node("Sub", {"x", "mean"}, {"h"});
  b.node("Div", {"h", "deviation"}, {"i"});
  b.node("Mul", {"i", "table"}, {"j"});
  b.node("MatMul", {"j", "w"}, {"k"});
  b.node("Tanh", {"k"}, {"t"});
  b.node("Mul", {"t", "gain"}, {"y"});
  b.output("y");
  EXPECT_EQ(trained_names(b), "w 9, gain 3");
}

TEST(onnx_torch, a_divisor_that_is_a_parameter_trains_as_it_stands) {
  TorchFile b(std::string(kDense) + "p_v: PARAMETER target='v'\n");
  b.counted("w", {3, 3});
  b.counted("b", {3});
  b.floats("v", {3}, {2, 3, 4});
  b.call("Gemm", {"x", "w", "b"}, "linear", "%x, %p_w, %p_b").integer("transB", 1);
  b.call("Div", {"linear", "v"}, "y", "%linear, %p_v");
  b.output("y");
  EXPECT_EQ(trained_names(b), "b 3, w 9, v 3");
}

TEST(onnx_torch, slopes_train_whoever_wrote_the_file) {
  OnnxBuilder b;
  b.input("x", {1, 3});
  b.floats("slope", {1}, {0.25f});
  b.node("PRelu", {"x", "slope"}, {"y"});
  b.output("y");
  EXPECT_EQ(trained_names(b), "slope 1");
}

TEST(onnx_torch, both_biases_of_an_lstm_train) {
  OnnxBuilder b;
  b.model().set_producer_name("pytorch");
  b.input("x", {4, 1, 2});
  b.counted("w", {1, 12, 2});
  b.counted("r", {1, 12, 3});
  b.counted("b", {1, 24});
  b.node("LSTM", {"x", "w", "r", "b"}, {"y"}).integer("hidden_size", 3);
  b.output("y");
  const Graph graph = to_train(b);
  int64_t biases = 0;
  for (const TrainedConstant& constant : trained_constants(graph, {}))
    if (constant.name.starts_with("b")) biases += constant.numbers;
  EXPECT_EQ(biases, 24);
}

TEST(onnx_torch, every_flipped_bit_is_imported_or_refused) { flip_every_byte(literals(), kTorchTraining); }

}  // namespace
}  // namespace nacre::tools
