// Tests tensors without a gradient in PyTorch modules: padding rows of embeddings, and detached values.
#include <gtest/gtest.h>

#include "tests/importers/onnx_torch_file.h"

namespace nacre::tools {
namespace {

// Builds y = relu(embedding(w, ids, behind..)) for w [7, 3], whose row 0 is zeros.
TorchFile lookup(const std::string& behind, int ids = ::onnx::TensorProto::INT64) {
  TorchFile b("p_e: PARAMETER target='e.weight'\n");
  b.model().mutable_graph()->clear_input();
  b.input("ids", {4}, {}, ids);
  b.counted("e.weight", {7, 3});
  ::onnx::TensorProto& w = *b.model().mutable_graph()->mutable_initializer(0);
  w.mutable_raw_data()->replace(0, sizeof(float) * 3, std::string(sizeof(float) * 3, '\0'));
  b.call("Gather", {"e.weight", "ids"}, "embedding", "%p_e, %ids" + behind, "", "", "embedding");
  b.call("Relu", {"embedding"}, "y", "%embedding");
  b.output("y");
  return b;
}

size_t selects(const Graph& graph) { return size_t(std::ranges::count(ops(graph), Op::kSelect)); }

TEST(onnx_torch_gradients, a_row_of_padding_is_a_constant) {
  for (const int type : {::onnx::TensorProto::INT64, ::onnx::TensorProto::INT32}) {
    const Graph graph = to_train(lookup(", 0", type));
    EXPECT_EQ(selects(graph), 1u);
    const auto w = std::ranges::find(graph.values, "e.weight", &Value::name);
    ASSERT_NE(w, graph.values.end());
    EXPECT_FALSE(w->fixed);
    const Graph ran = type == ::onnx::TensorProto::INT64
                          ? run_graph(graph, {bytes_of(std::vector<int64_t>{2, 0, 6, 0})})
                          : run_graph(graph, {bytes_of(std::vector<int32_t>{2, 0, 6, 0})});
    EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]),
              (std::vector<float>{6, 7, 8, 0, 0, 0, 18, 19, 20, 0, 0, 0}));
  }
  EXPECT_EQ(selects(to_train(lookup(""))), 0u);
  EXPECT_EQ(selects(to_train(lookup(", -1"))), 0u);
  EXPECT_EQ(selects(imported(lookup(", 0"))), 0u) << "only training has gradients";
  EXPECT_EQ(selects(imported(lookup(", 0"), {.train = true, .settled = true})), 0u) << "as it is deployed";
}

TEST(onnx_torch_gradients, a_lookup_without_an_output_is_refused_as_any_node_is) {
  TorchFile b = lookup(", 0");
  b.model().mutable_graph()->mutable_node(0)->clear_output();
  EXPECT_NE(refusal_to_train(b), "");
}

TEST(onnx_torch_gradients, a_row_of_other_numbers_stays_too) {
  const Graph graph = to_train(lookup(", 6"));
  EXPECT_EQ(selects(graph), 1u);
  const Graph ran = run_graph(graph, {bytes_of(std::vector<int64_t>{2, 0, 6, 0})});
  EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]),
            (std::vector<float>{6, 7, 8, 0, 0, 0, 18, 19, 20, 0, 0, 0}));
}

// A second embedding without a padding_idx reads the same table, so its row 0 would still change.
TEST(onnx_torch_gradients, rows_without_a_gradient_of_a_table_that_others_read_are_refused_by_name) {
  TorchFile b = lookup(", 0");
  b.call("Gather", {"e.weight", "ids"}, "again", "%p_e, %ids", "", "", "embedding");
  b.call("Add", {"y", "again"}, "z", "%y, %again");
  b.output("z");
  const std::string said = refusal_to_train(b);
  EXPECT_NE(said.find("node_embedding has no gradient of row 0 of e.weight, which other steps read too"), said.npos)
      << said;
  EXPECT_NE(said.find("--ignore-setting Embedding.padding_idx goes on without it"), said.npos) << said;
  EXPECT_EQ(selects(imported(b, {.train = true, .ignored = {"Embedding.padding_idx"}})), 0u);

  TorchFile twice = lookup(", 0");
  twice.call("Gather", {"e.weight", "ids"}, "again", "%p_e, %ids, 0", "", "", "embedding");
  twice.call("Add", {"y", "again"}, "z", "%y, %again");
  twice.output("z");
  EXPECT_EQ(selects(to_train(twice)), 2u);

  const std::string scaled = refusal_to_train(lookup(", -1, True"));
  EXPECT_NE(scaled.find("--ignore-setting Embedding.scale_grad_by_freq goes on without it"), scaled.npos) << scaled;
  EXPECT_EQ(refusal_to_train(lookup(", -1, False")), "");
}

// If a recurrence's initial state is a parameter, it trains, even if it is all zeros.
TEST(onnx_torch_gradients, a_state_that_is_a_parameter_is_no_constant) {
  for (const float state : {0.0f, 0.5f}) {
    TorchFile b("p_h: PARAMETER target='h'\np_w: PARAMETER target='w'\np_r: PARAMETER target='r'\n");
    b.model().mutable_graph()->clear_input();
    b.input("x", {2, 1, 3});
    b.counted("w", {1, 6, 3});
    b.counted("r", {1, 6, 2});
    b.filled("h", {1, 1, 2}, state);
    b.call("GRU", {"x", "w", "r", "", "", "h"}, "y", "%x, %p_h, %p_w, %p_r", "", "", "gru").integer("hidden_size", 2);
    b.output("y");
    const Graph graph = to_train(b);
    EXPECT_TRUE(std::ranges::any_of(graph.values, [](const Value& v) {
      return v.constant() && v.variable && v.name.starts_with("h");
    })) << state;
  }
}

TEST(onnx_torch_gradients, a_row_of_zeros_of_a_file_without_calls_is_said) {
  TorchFile b = lookup(", 0");
  clear_metadata(*b.model().mutable_graph());
  const auto said = [&](const ImportOptions& options) {
    const Graph graph = imported(b, options);
    EXPECT_EQ(selects(graph), 0u);
    return std::ranges::count_if(graph.log, [](const std::string& line) {
      return line.find("row 0 of e.weight holds zeros: if it is a padding_idx") != line.npos;
    });
  };
  EXPECT_EQ(said(kTorchTraining), 1);
  EXPECT_EQ(said({}), 0);
  EXPECT_EQ(said({.train = true, .settled = true}), 0);
}

// Builds y = x w + detach(`what`). An `optimized` file has no Identity for detach().
TorchFile detached(const std::string& what, bool optimized) {
  TorchFile b("p_w: PARAMETER target='w'\nb_c: BUFFER target='c' persistent=True\n");
  b.counted("w", {3, 3});
  b.counted("c", {3});
  b.call("MatMul", {"x", "w"}, "matmul", "%x, %p_w");
  if (!optimized) b.call("Identity", {what}, "detach", "%" + what, "", "", "detach");
  b.call("Add", {"matmul", optimized ? what : "detach"}, "y", "%matmul, %detach");
  b.output("y");
  return b;
}

TEST(onnx_torch_gradients, a_detached_value_that_depends_on_parameters_is_refused_by_name) {
  for (const bool optimized : {false, true}) {
    EXPECT_EQ(refusal_to_train(detached("x", optimized)), "");
    EXPECT_EQ(refusal_to_train(detached("c", optimized)), "");
    TorchFile b = detached("relu", optimized);
    auto& nodes = *b.model().mutable_graph()->mutable_node();
    TorchFile other("");
    other.call("Relu", {"matmul"}, "relu", "%matmul");
    nodes.Add()->CopyFrom(other.model().graph().node(0));
    for (int i = nodes.size() - 1; i > 1; --i) nodes.SwapElements(i, i - 1);  // behind the product
    const std::string said = refusal_to_train(b);
    EXPECT_NE(said.find("reads relu detached, without a gradient"), said.npos) << said;
    EXPECT_NE(said.find("--ignore-setting detach goes on without it"), said.npos) << said;
    EXPECT_NO_THROW(imported(b, {.train = true, .ignored = {"detach"}}));
  }
}

}  // namespace
}  // namespace nacre::tools
