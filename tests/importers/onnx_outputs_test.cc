// Tests import_onnx on operators with several outputs. An output that nothing reads must not change which nodes the
// operator becomes, wherever the operator is.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

// Builds a recurrence as PyTorch exports an LSTM: all outputs have names.
OnnxBuilder named_outputs(const char* op, const std::vector<std::string>& wanted) {
  OnnxBuilder b;
  const int gates = op == std::string("LSTM") ? 4 : 3;
  b.input("x", {4, 1, 3});
  b.filled("w", {1, 2 * gates, 3}, 0.1f);
  b.filled("r", {1, 2 * gates, 2}, 0.1f);
  std::vector<std::string> outputs = {"y", "h"};
  if (gates == 4) outputs.push_back("c");
  b.node(op, {"x", "w", "r"}, outputs).integer("hidden_size", 2);
  for (const std::string& output : wanted) b.output(output);
  return b;
}

size_t outputs_of(const Graph& graph, Op op) { return first(graph, op).outputs.size(); }

TEST(onnx_outputs, a_recurrence_keeps_nothing_that_nothing_reads) {
  for (const std::vector<std::string>& wanted : {std::vector<std::string>{"y"}, {"h"}, {"h", "y"}}) {
    EXPECT_EQ(outputs_of(imported(named_outputs("LSTM", wanted)), Op::kLstm), 1u);
    EXPECT_EQ(outputs_of(imported(named_outputs("GRU", wanted)), Op::kGru), 1u);
  }
  for (const std::vector<std::string>& wanted : {std::vector<std::string>{"c"}, {"y", "c"}})
    EXPECT_EQ(outputs_of(converted(named_outputs("LSTM", wanted)), Op::kLstm), 3u) << "the last cells are of use";
}

// A node reads the last cells, but no output depends on that node.
TEST(onnx_outputs, a_reader_that_nothing_reads_is_none) {
  OnnxBuilder b = named_outputs("LSTM", {"y"});
  b.integers("axes", {1}, {0});
  b.node("Squeeze", {"c", "axes"}, {"s"});
  b.node("Relu", {"s"}, {"none"});
  EXPECT_EQ(ops(converted(b)), ops(converted(named_outputs("LSTM", {"y"}))));
}

// If a pool's Indices output is read, it needs extra steps or is refused.
TEST(onnx_outputs, of_a_pool_places_that_nothing_reads_are_none) {
  OnnxBuilder b;
  b.input("x", {1, 2, 4, 4});
  b.node("MaxPool", {"x"}, {"y", "places"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  b.output("y");
  OnnxBuilder without;
  without.input("x", {1, 2, 4, 4});
  without.node("MaxPool", {"x"}, {"y"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  without.output("y");
  EXPECT_EQ(ops(imported(b)), ops(imported(without)));
}

// The function has the cells as an output, which the caller does not read.
TEST(onnx_outputs, of_a_function_what_its_call_does_not_read_is_none) {
  for (const bool wanted : {false, true}) {
    OnnxBuilder b;
    b.input("x", {4, 1, 3});
    b.filled("w", {1, 8, 3}, 0.1f);
    b.filled("r", {1, 8, 2}, 0.1f);
    ::onnx::FunctionProto& function = *b.model().add_functions();
    function.set_name("Cell"), function.set_domain("own");
    for (const char* name : {"a", "v", "u"}) function.add_input(name);
    for (const char* name : {"all", "last", "cells"}) function.add_output(name);
    ::onnx::OperatorSetIdProto& opset = *function.add_opset_import();
    opset.set_version(17);
    ::onnx::NodeProto& lstm = *function.add_node();
    lstm.set_op_type("LSTM");
    for (const char* name : {"a", "v", "u"}) lstm.add_input(name);
    for (const char* name : {"all", "last", "cells"}) lstm.add_output(name);
    OnnxNode(&lstm).integer("hidden_size", 2);
    ::onnx::OperatorSetIdProto& own = *b.model().add_opset_import();
    own.set_domain("own"), own.set_version(1);
    b.node("Cell", {"x", "w", "r"}, {"y", "h", "c"}).domain("own");
    b.output("y");
    if (wanted) b.output("c");
    EXPECT_EQ(outputs_of(imported(b), Op::kLstm), wanted ? 3u : 1u);
  }
}

// The branch that is taken has the cells as an output.
TEST(onnx_outputs, of_a_branch_what_nothing_reads_is_none) {
  for (const bool wanted : {false, true}) {
    OnnxBuilder b;
    b.input("x", {4, 1, 3});
    b.filled("w", {1, 8, 3}, 0.1f);
    b.filled("r", {1, 8, 2}, 0.1f);
    b.codes("yes", {}, {1}, TensorProto::BOOL);
    ::onnx::NodeProto& choice = *b.model().mutable_graph()->add_node();
    choice.set_op_type("If");
    choice.add_input("yes");
    choice.add_output("y"), choice.add_output("c");
    for (const char* key : {"then_branch", "else_branch"}) {
      ::onnx::AttributeProto& branch = *choice.add_attribute();
      branch.set_name(key), branch.set_type(::onnx::AttributeProto::GRAPH);
      ::onnx::NodeProto& lstm = *branch.mutable_g()->add_node();
      lstm.set_op_type("LSTM");
      for (const char* name : {"x", "w", "r"}) lstm.add_input(name);
      for (const char* name : {"all", "", "cells"}) lstm.add_output(name);
      OnnxNode(&lstm).integer("hidden_size", 2);
      branch.mutable_g()->add_output()->set_name("all");
      branch.mutable_g()->add_output()->set_name("cells");
    }
    b.output("y");
    if (wanted) b.output("c");
    EXPECT_EQ(outputs_of(imported(b), Op::kLstm), wanted ? 3u : 1u);
  }
}

// simplify() removes outputs that nothing reads from any graph: a Keras layer may return such states, too.
TEST(onnx_outputs, simplify_takes_from_a_recurrence_what_nothing_reads) {
  Graph graph = imported(named_outputs("LSTM", {"y", "c"}));
  graph.outputs.pop_back();
  simplify(graph);
  check(graph);
  EXPECT_EQ(outputs_of(graph, Op::kLstm), 1u);
}

}  // namespace
}  // namespace nacre::tools
