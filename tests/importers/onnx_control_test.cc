// Tests the order of nodes, graphs inside nodes, sizes that the user gives to open axes, and sequences of tensors.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"
#include "tests/sanitized.h"

namespace nacre::tools {
namespace {

using Singles = std::vector<float>;

::onnx::NodeProto& inner_node(::onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
                              const std::string& output) {
  ::onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

::onnx::GraphProto& inner_graph(::onnx::NodeProto& node, const std::string& key) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::GRAPH);
  return *attribute.mutable_g();
}

::onnx::NodeProto& last_node(OnnxBuilder& b) {
  auto& nodes = *b.model().mutable_graph()->mutable_node();
  return nodes[nodes.size() - 1];
}

// Computes relu(2 x + 1) for x [2], with the nodes listed from the last to the first.
TEST(onnx_control, nodes_out_of_order_are_sorted) {
  OnnxBuilder b;
  b.input("x", {2});
  b.floats("one", {}, {1});
  b.floats("two", {}, {2});
  b.node("Relu", {"b"}, {"y"});
  b.node("Add", {"a", "one"}, {"b"});
  b.node("Mul", {"x", "two"}, {"a"});
  b.output("y");
  EXPECT_EQ(computed(b, {1, 2}), (Singles{3, 5}));
}

TEST(onnx_control, nodes_in_order_keep_the_order_of_the_file) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Tanh", {"x"}, {"a"});
  b.node("Sigmoid", {"x"}, {"b"});
  b.node("Relu", {"x"}, {"c"});
  b.node("Sum", {"c", "b", "a"}, {"y"});
  b.output("y");
  EXPECT_EQ(ops(imported(b)), (std::vector<Op>{Op::kTanh, Op::kSigmoid, Op::kClamp, Op::kAdd, Op::kAdd}));
}

TEST(onnx_control, a_cycle_is_refused) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Add", {"x", "c"}, {"a"});
  b.node("Relu", {"a"}, {"c"});
  b.node("Relu", {"c"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b), "a_node (Add): depends on its own output: the nodes form a cycle\n    export it again");
}

// Builds y = relu(z). z is 3 x if x has `rank` axes, else the output of an unsupported operator. Both branches read
// values of the graph around them.
OnnxBuilder branching(int64_t rank) {
  OnnxBuilder b;
  b.input("x", {2});
  b.floats("three", {}, {3});
  b.integers("rank", {}, {rank});
  b.node("Shape", {"x"}, {"shape"});
  b.node("Size", {"shape"}, {"found"});
  b.node("Equal", {"found", "rank"}, {"same"});
  b.node("If", {"same"}, {"z"});
  ::onnx::NodeProto& node = last_node(b);
  ::onnx::GraphProto& taken = inner_graph(node, "then_branch");
  inner_node(taken, "Mul", {"x", "three"}, "r");
  taken.add_output()->set_name("r");
  ::onnx::GraphProto& other = inner_graph(node, "else_branch");
  inner_node(other, "NoSuchOperator", {"x"}, "r");
  other.add_output()->set_name("r");
  b.node("Relu", {"z"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_control, an_if_on_a_constant_is_its_branch) {
  EXPECT_EQ(computed(branching(1), {1, 2}), (Singles{3, 6}));
  OnnxBuilder of_onnx = branching(1);
  for (::onnx::NodeProto& node : *of_onnx.model().mutable_graph()->mutable_node())
    if (node.op_type() == "If") node.set_domain("ai.onnx");
  EXPECT_EQ(computed(of_onnx, {1, 2}), (Singles{3, 6}));
  EXPECT_NE(refusal(branching(2)).find("r (NoSuchOperator): this operator is not supported"), std::string::npos);
}

TEST(onnx_control, an_if_on_what_is_computed_at_run_time_is_refused) {
  OnnxBuilder b = branching(1);
  for (::onnx::NodeProto& node : *b.model().mutable_graph()->mutable_node())
    if (node.op_type() == "If") node.set_input(0, "x");
  EXPECT_NE(refusal(b).find("z_node (If): its condition: computed at run time (x)"), std::string::npos);
}

// Builds a loop that computes v = 2 v + i, `turns` times, for i = 0, 1, ..; the output stacks all v.
OnnxBuilder looping(int64_t turns) {
  OnnxBuilder b;
  b.input("x", {2});
  b.floats("two", {}, {2});
  b.integers("turns", {}, {turns});
  b.node("Loop", {"turns", "", "x"}, {"v", "s"});
  ::onnx::GraphProto& body = inner_graph(last_node(b), "body");
  for (const char* name : {"i", "going", "old"}) body.add_input()->set_name(name);
  inner_node(body, "Identity", {"going"}, "still");
  ::onnx::AttributeProto& to = *inner_node(body, "Cast", {"i"}, "real").add_attribute();
  to.set_name("to");
  to.set_type(::onnx::AttributeProto::INT);
  to.set_i(TensorProto::FLOAT);
  inner_node(body, "Mul", {"old", "two"}, "twice");
  inner_node(body, "Add", {"twice", "real"}, "new");
  for (const char* name : {"still", "new", "new"}) body.add_output()->set_name(name);
  b.node("Relu", {"s"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_control, a_loop_is_its_body_once_per_turn) {
  EXPECT_EQ(computed(looping(3), {1, 2}), (Singles{2, 4, 5, 9, 12, 20}));
  EXPECT_NE(refusal(looping(1000000000)).find("v_node (Loop): has more than 256 turns"), std::string::npos);
}

// Computes the running sums of the rows of x.
TEST(onnx_control, a_scan_is_its_body_once_per_row) {
  OnnxBuilder b;
  b.input("x", {3, 2});
  b.floats("zero", {2}, {0, 0});
  b.node("Scan", {"zero", "x"}, {"last", "sums"}).integer("num_scan_inputs", 1);
  ::onnx::GraphProto& body = inner_graph(last_node(b), "body");
  for (const char* name : {"old", "row"}) body.add_input()->set_name(name);
  inner_node(body, "Add", {"old", "row"}, "new");
  for (const char* name : {"new", "new"}) body.add_output()->set_name(name);
  b.node("Relu", {"sums"}, {"y"});
  b.output("y");
  EXPECT_EQ(computed(b, {1, 2, 3, 4, 5, 6}), (Singles{1, 2, 4, 6, 9, 12}));
}

// Builds a loop that multiplies x by w once per turn. w is an initializer of the body, or a Constant.
OnnxBuilder multiplying(bool constant) {
  OnnxBuilder b;
  b.input("x", {2});
  b.integers("turns", {}, {3});
  b.node("Loop", {"turns", "", "x"}, {"y"});
  ::onnx::GraphProto& body = inner_graph(last_node(b), "body");
  for (const char* name : {"i", "going", "old"}) body.add_input()->set_name(name);
  OnnxBuilder weights;
  weights.floats("w", {2}, {2, 3});
  const TensorProto& w = weights.graph().initializer(0);
  if (constant) {
    ::onnx::AttributeProto& value = *inner_node(body, "Constant", {}, "w").add_attribute();
    value.set_name("value");
    value.set_type(::onnx::AttributeProto::TENSOR);
    *value.mutable_t() = w;
  } else {
    *body.add_initializer() = w;
  }
  inner_node(body, "Identity", {"going"}, "still");
  inner_node(body, "Mul", {"old", "w"}, "new");
  for (const char* name : {"still", "new"}) body.add_output()->set_name(name);
  b.output("y");
  return b;
}

TEST(onnx_control, weights_in_the_body_of_a_loop_are_read_once) {
  for (const bool constant : {false, true}) {
    EXPECT_EQ(computed(multiplying(constant), {1, 1}), (Singles{8, 27}));
    for (const bool train : {false, true}) {
      const Graph graph = imported(multiplying(constant), {.train = train});
      ASSERT_EQ(ops(graph), std::vector<Op>(3, Op::kMul)) << constant << train;
      for (const Node& node : graph.nodes) EXPECT_EQ(node.inputs[1], graph.nodes[0].inputs[1]) << constant << train;
    }
  }
}

TEST(onnx_control, what_stands_in_the_body_of_a_loop_counts_in_every_turn) {
  OnnxBuilder b = multiplying(false);
  b.model().mutable_graph()->mutable_initializer(0)->set_int64_data(0, 256);
  ::onnx::GraphProto& body = *last_node(b).mutable_attribute(0)->mutable_g();
  for (int i = 0; i < 2000; ++i) body.add_initializer()->set_name(std::to_string(i));
  EXPECT_NE(refusal(b).find("more than 262,144 nodes when written out"), std::string::npos);
}

// Nests eight loops of 256 turns each: 256^8 turns that compute nothing.
TEST(onnx_control, loops_in_loops_end_in_a_sentence) {
  if (nacre::test::sanitized()) GTEST_SKIP() << "262,144 nodes: the plain build's";
  OnnxBuilder b;
  b.input("x", {2});
  b.integers("turns", {}, {256});
  b.node("Loop", {"turns", "", "x"}, {"y"});
  ::onnx::NodeProto* node = &last_node(b);
  for (int depth = 0; depth < 8; ++depth) {
    const std::string at = std::to_string(depth), old = depth == 0 ? "x" : "old" + std::to_string(depth - 1);
    ::onnx::GraphProto& body = inner_graph(*node, "body");
    for (const std::string& name : {"i" + at, "going" + at, "old" + at}) body.add_input()->set_name(name);
    inner_node(body, "Identity", {"going" + at}, "still" + at);
    node = &inner_node(
        body, depth == 7 ? "Identity" : "Loop",
        depth == 7 ? std::vector<std::string>{"old7"} : std::vector<std::string>{"turns", "", "old" + at}, "new" + at);
    for (const std::string& name : {"still" + at, "new" + at}) body.add_output()->set_name(name);
  }
  b.output("y");
  EXPECT_NE(refusal(b).find("more than 262,144 nodes when written out"), std::string::npos);
}

TEST(onnx_control, graphs_in_graphs_end_in_a_sentence) {
  OnnxBuilder b;
  b.input("x", {2});
  b.codes("yes", {}, {1}, TensorProto::BOOL);
  b.node("If", {"yes"}, {"y"});
  ::onnx::NodeProto* node = &last_node(b);
  for (int depth = 0; depth < 1000; ++depth) {
    ::onnx::GraphProto& graph = inner_graph(*node, "then_branch");
    graph.add_output()->set_name("y");
    node = &inner_node(graph, "If", {"yes"}, "y");
  }
  b.output("y");
  EXPECT_NE(refusal(b).find("graphs in graphs, more than 20 deep"), std::string::npos);
}

// ---- --shape

OnnxBuilder two_open_axes() {
  OnnxBuilder b;
  b.input("x", {0, 0, 4}, {"batch", "seq", ""});
  b.input("m", {0, 0, 1}, {"batch", "seq", ""});
  b.node("Mul", {"x", "m"}, {"y"});
  b.output("y");
  return b;
}

std::string shaped(const std::vector<std::string>& shapes, Dims* dims = nullptr) {
  try {
    const Graph graph = imported(two_open_axes(), {.shapes = shapes});
    if (dims != nullptr) *dims = output(graph).dims;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(onnx_control, open_axes_have_the_sizes_that_the_user_gives) {
  for (const std::vector<std::string>& shapes :
       {std::vector<std::string>{"seq=7"}, {"x=1x7x4"}, {"seq=7", "x=1x7x4"}}) {
    Dims dims;
    EXPECT_EQ(shaped(shapes, &dims), "");
    EXPECT_EQ(dims, (Dims{1, 7, 4}));
  }
}

TEST(onnx_control, an_open_axis_names_the_remedy) {
  const std::string text = shaped({});
  EXPECT_NE(text.find("input x: axis 1 has no fixed size ('seq') in x [batch, seq, 4]"), std::string::npos) << text;
  EXPECT_NE(text.find("--shape seq=N"), std::string::npos) << text;
}

TEST(onnx_control, sizes_that_do_not_fit_are_refused) {
  EXPECT_NE(shaped({"time=7"})
                .find("the file has no input and no open axis of this name\n    its inputs are x [batch, "
                      "seq, 4], m [batch, seq, 1]"),
            std::string::npos);
  EXPECT_NE(shaped({"seq=7", "x=1x8x4"}).find("another --shape gives it 7"), std::string::npos);
  EXPECT_NE(shaped({"x=1x7x5"}).find("axis 2 has the size 4 in the file"), std::string::npos);
  EXPECT_NE(shaped({"x=1x7"}).find("has 2 sizes, the input has 3 axes"), std::string::npos);
  for (const char* bad :
       {"seq", "=7", "seq=", "seq=0", "seq=-1", "seq=7y", "seq=99999999999999999999", "x=1x", "x=1xx4"})
    EXPECT_NE(shaped({bad}).find("is no NAME=SIZE"), std::string::npos) << bad;
}

// ---- Sequences

// A loop makes a sequence of the three rows of x; then the second row is erased.
TEST(onnx_control, sequences_of_known_length_are_their_parts) {
  OnnxBuilder b;
  b.input("x", {3, 2});
  b.integers("three", {}, {3});
  b.integers("second", {}, {1});
  b.integers("last", {}, {-1});
  b.node("SequenceEmpty", {}, {"none"});
  b.node("Loop", {"three", "", "none"}, {"rows"});
  ::onnx::GraphProto& body = inner_graph(last_node(b), "body");
  inner_node(body, "Gather", {"x", "i"}, "row");
  inner_node(body, "SequenceInsert", {"before", "row"}, "after");
  inner_node(body, "Identity", {"going"}, "goes");
  for (const char* name : {"i", "going", "before"}) body.add_input()->set_name(name);
  for (const char* name : {"goes", "after"}) body.add_output()->set_name(name);
  b.node("SequenceErase", {"rows", "second"}, {"two"});
  b.node("SequenceInsert", {"two", "x", "last"}, {"mixed"});  // before the last one
  b.node("SequenceAt", {"mixed", "second"}, {"inserted"});
  b.node("SequenceAt", {"rows", "last"}, {"z"});
  b.node("SequenceLength", {"two"}, {"count"});
  b.node("ConcatFromSequence", {"two"}, {"y"}).integer("axis", -1).integer("new_axis", 1);
  for (const char* name : {"y", "z", "count", "inserted"}) b.output(name);
  const Graph run = run_graph(converted(b), {bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(output(run).dims, (Dims{2, 2}));
  EXPECT_EQ(reals(output(run)), (std::vector<float>{1, 5, 2, 6}));
  EXPECT_EQ(reals(output(run, 1)), (std::vector<float>{5, 6}));
  EXPECT_EQ(integers(output(run, 2)), (std::vector<int64_t>{2}));
  EXPECT_EQ(output(run, 3).dims, (Dims{3, 2}));
}

// Splits five columns into parts of two, into parts of one and four, and into single columns.
TEST(onnx_control, a_tensor_becomes_a_sequence_of_its_parts) {
  const auto last_part = [](const std::vector<int64_t>& sizes, bool of_each, bool keeps) {
    OnnxBuilder b;
    b.input("x", {2, 5});
    b.integers("sizes", of_each ? std::vector<int64_t>{int64_t(sizes.size())} : std::vector<int64_t>{}, sizes);
    b.integers("last", {}, {-1});
    b.node("SplitToSequence", {"x", sizes[0] == 0 ? "" : "sizes"}, {"parts"})
        .integer("axis", 1)
        .integer("keepdims", keeps);
    b.node("SequenceAt", {"parts", "last"}, {"y"});
    b.output("y");
    const Graph run = run_graph(converted(b), {bytes_of(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})});
    return std::pair(output(run).dims, reals(output(run)));
  };
  EXPECT_EQ(last_part({2}, false, false), std::pair(Dims{2, 1}, std::vector<float>{4, 9}));
  EXPECT_EQ(last_part({1, 4}, true, false), std::pair(Dims{2, 4}, std::vector<float>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(last_part({0}, false, true), std::pair(Dims{2, 1}, std::vector<float>{4, 9}));
  EXPECT_EQ(last_part({0}, false, false), std::pair(Dims{2}, std::vector<float>{4, 9}));
}

TEST(onnx_control, sequences_are_no_values) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("SequenceConstruct", {"x", "x"}, {"s"});
  b.node("Relu", {"s"}, {"y"});
  b.output("y");
  b.output("s");
  const std::string why = refusal(b);
  EXPECT_NE(why.find("y_node (Relu): reads s, which is a sequence of tensors"), std::string::npos) << why;
  EXPECT_NE(why.find("s is a sequence of tensors, which no value is"), std::string::npos) << why;
}

}  // namespace
}  // namespace nacre::tools
