// Tests that import_onnx lists everything it does not support, also after a refused node, but nothing that only
// follows from an earlier refusal.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"
#include "tests/refused_with.h"
#include "tools/base/unsupported.h"

namespace nacre::tools {
namespace {

std::vector<std::string> unsupported_things(const OnnxBuilder& b, const ImportOptions& options = {}) {
  try {
    imported(b, options);
  } catch (const Unsupported& error) {
    EXPECT_EQ(error.code, kUnsupported);
    return error.things;
  }
  return {};
}

void expect_things(const OnnxBuilder& b, const std::vector<std::string>& beginnings) {
  const std::vector<std::string> things = unsupported_things(b);
  ASSERT_EQ(things.size(), beginnings.size()) << testing::PrintToString(things);
  for (size_t i = 0; i < things.size(); ++i) EXPECT_TRUE(things[i].starts_with(beginnings[i])) << things[i];
}

void declare(OnnxBuilder& b, const std::string& name, const Dims& dims) {
  ::onnx::ValueInfoProto& value = *b.model().mutable_graph()->add_value_info();
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  for (const int64_t dim : dims)
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(dim);
}

// Adds a node that is refused because its operand x is not the output of a DynamicQuantizeLinear. So the refusal
// shows that x is known.
void multiply_as_integers(OnnxBuilder& b, const std::string& x, const std::string& y) {
  b.node("MatMulInteger", {x, x}, {y});
}

TEST(onnx_unknown, an_operator_that_is_not_known_is_like_its_input) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.node("Mystery", {"x"}, {"a"});
  multiply_as_integers(b, "a", "y");
  b.output("y");
  expect_things(b, {"a_node (Mystery): this operator is not supported", "y_node (MatMulInteger): its first operand"});
}

TEST(onnx_unknown, what_another_refused_node_gives_is_what_the_file_declares) {
  for (const bool declared : {true, false}) {
    OnnxBuilder b;
    b.input("x", {2, 2});
    b.node("MatMulInteger", {"x", "x"}, {"m"});
    if (declared) declare(b, "m", {2, 2});
    multiply_as_integers(b, "m", "y");
    b.output("y");
    if (declared) expect_things(b, {"m_node (MatMulInteger)", "y_node (MatMulInteger)"});
    else expect_things(b, {"m_node (MatMulInteger)"});
  }
}

TEST(onnx_unknown, what_follows_from_a_refusal_is_no_fact_of_its_own) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.node("Mystery", {"x"}, {"a"});
  b.integers("shape", {2}, {1, 5});
  b.node("Reshape", {"a", "shape"}, {"y"});  // may well be right
  b.output("y");
  expect_things(b, {"a_node (Mystery)"});
}

TEST(onnx_unknown, versions_inputs_and_functions_do_not_hide_the_nodes) {
  OnnxBuilder b(99);
  b.model().set_ir_version(99);
  b.input("x", {1, 0, 0}, {"", "height", "width"});
  b.input("n", {4}, {}, TensorProto::STRING);
  for (int i = 0; i < 2; ++i) {
    ::onnx::FunctionProto& function = *b.model().add_functions();
    function.set_domain("own");
    function.set_name("f");
  }
  b.node("Mystery", {"n"}, {"a"});
  multiply_as_integers(b, "x", "y");
  b.output("y");
  b.output("a");
  expect_things(b, {"has IR version 99", "uses opset 99", "has two functions of the name f",
                    "input x: axis 1 has no fixed size ('height')", "input x: axis 2 has no fixed size ('width')",
                    "input n: has type", "a_node (Mystery)", "y_node (MatMulInteger)"});
}

TEST(onnx_unknown, a_body_that_is_run_again_is_refused_once) {
  OnnxBuilder body, b;
  body.node("Mystery", {"v"}, {"w"});
  body.node("Identity", {"go"}, {"still"});
  b.input("x", {2});
  b.integers("turns", {}, {3});
  b.node("Loop", {"turns", "", "x"}, {"y"});
  ::onnx::AttributeProto& attribute = *b.model().mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("body");
  *attribute.mutable_g() = body.graph();
  for (const char* name : {"i", "go", "v"}) attribute.mutable_g()->add_input()->set_name(name);
  for (const char* name : {"still", "w"}) attribute.mutable_g()->add_output()->set_name(name);
  b.output("y");
  expect_things(b, {"w_node (Mystery)"});
}

TEST(onnx_unknown, every_flipped_byte_behind_a_refusal_is_one_error) {
  OnnxBuilder b;
  b.input("x", {1, 2, 5, 5});
  b.node("Mystery", {"x"}, {"a"});
  b.counted("w", {3, 2, 2, 2});
  b.node("Conv", {"a", "w"}, {"c"});
  b.node("MaxPool", {"c"}, {"p"}).ints("kernel_shape", {2, 2});
  b.node("Flatten", {"p"}, {"y"});
  declare(b, "a", {1, 2, 5, 5});
  b.output("y");
  flip_every_byte(b);
}

// ---- The log

bool logs(const Graph& graph, const std::string& line) {
  return std::ranges::find(graph.log, "import: " + line) != graph.log.end();
}

TEST(onnx_log, tells_what_no_step_tells) {
  OnnxBuilder b;
  b.input("x", {2, 3});
  b.node("HardSigmoid", {"late"}, {"h"});
  b.node("Relu", {"x"}, {"late"});
  b.node("Identity", {"h"}, {"i"});
  b.node("Tanh", {"x"}, {"dead"});
  b.node("Shape", {"i"}, {"s"});
  b.node("Reshape", {"i", "s"}, {"r"});
  b.filled("unread", {4}, 1);
  b.filled("c", {1}, 3);
  b.node("Div", {"r", "c"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  for (const char* line :
       {"test.onnx: 2 nodes stood before what they read: sorted", "h_node (HardSigmoid): is 3 steps",
        "i_node (Identity): is left out: it gives what it reads",
        "dead_node (Tanh): is left out: no output depends on it",
        "s_node (Shape): is computed at import: what it reads is constant", "unread: is left out: nothing reads it",
        "y_node (Div): division by a constant is multiplication by its reciprocal"})
    EXPECT_TRUE(logs(graph, line)) << line << testing::PrintToString(graph.log);
}

TEST(onnx_log, a_division_that_is_kept_is_one) {
  OnnxBuilder b;
  b.input("x", {2});
  b.filled("c", {1}, 3);
  b.node("Div", {"x", "c"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kMul}));
  EXPECT_EQ(ops(imported(b, {.keep_division = true})), (std::vector<Op>{Op::kBinary}));
}

}  // namespace
}  // namespace nacre::tools
