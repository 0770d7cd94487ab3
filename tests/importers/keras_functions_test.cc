// Tests functions of keras.ops in Keras files: their results for small arrays, settings, gradients, names of outputs.
#include <gtest/gtest.h>

#include "tests/importers/keras_graphs.h"
#include "tests/refused_with.h"

namespace nacre::tools {
namespace {

// Returns y = function(x, ..) of keras.ops, for x [2, 3] = 0 .. 5. `config` belongs to the function, and `more` are
// the arguments after x.
Floats function_of_x(const std::string& function, const std::string& config, const std::string& more = "",
                     const std::string& outputs = R"(["y", 0, 0])", const ImportOptions& options = {}) {
  const std::string x = R"({"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}})";
  std::string text = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [2, 3], "name": "x"}, "inbound_nodes": []},
    {"module": "keras.src.ops.numpy", "class_name": ")" +
                     function + R"(", "name": "y", "config": {"name": "y")" + (config.empty() ? "" : ", ") + config +
                     R"(}, "inbound_nodes": [{"args": [X)" + more +
                     R"(], "kwargs": {}}]}], "input_layers": [["x", 0, 0]], "output_layers": [)" + outputs + "]}}";
  for (size_t at; (at = text.find("X", text.find("inbound_nodes\": [{"))) != text.npos;) text.replace(at, 1, x);
  return outputs_of(file_graph(text, {}, options), Floats{0, 1, 2, 3, 4, 5});
}

TEST(keras_functions, they_multiply_and_sum_as_numpys) {
  EXPECT_EQ(function_of_x("Einsum", R"("subscripts": "ij,kj->ki")", ", X"), (Floats{5, 14, 14, 50}));
  EXPECT_EQ(function_of_x("Einsum", R"("subscripts": "...j->...")"), (Floats{3, 12}));
  EXPECT_EQ(function_of_x("Einsum", R"("subscripts": "ij,ij,ij->j")", ", X, X"), (Floats{27, 65, 133}));
  EXPECT_EQ(function_of_x("Tensordot", R"("axes": [[0], [0]])", ", X"), (Floats{9, 12, 15, 12, 17, 22, 15, 22, 29}));
  EXPECT_EQ(function_of_x("Inner", "", ", X"), (Floats{5, 14, 14, 50}));
  EXPECT_EQ(function_of_x("Cumsum", R"("axis": 1)"), (Floats{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(function_of_x("Cumsum", ""), (Floats{0, 1, 3, 6, 10, 15}));
  EXPECT_EQ(function_of_x("Norm", R"("ord": 1, "axis": 1)"), (Floats{3, 12}));
}

TEST(keras_functions, they_say_where_elements_come_from_as_numpys) {
  EXPECT_EQ(function_of_x("Roll", R"("shift": -1, "axis": 1)"), (Floats{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(function_of_x("Roll", R"("shift": 7)"), (Floats{5, 0, 1, 2, 3, 4}));
  EXPECT_EQ(function_of_x("Take", R"("axis": 1)", ", [2, -3]"), (Floats{2, 0, 5, 3}));
  EXPECT_EQ(function_of_x("Take", R"("axis": 0)", ", -1"), (Floats{3, 4, 5}));
  EXPECT_EQ(function_of_x("Tril", R"("k": 1)"), (Floats{0, 1, 0, 3, 4, 5}));
  EXPECT_EQ(function_of_x("Triu", R"("k": 1)"), (Floats{0, 1, 2, 0, 0, 5}));
  EXPECT_EQ(function_of_x("Moveaxis", R"("source": 0, "destination": -1)"), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(function_of_x("Diff", R"("n": 1, "axis": 0)"), (Floats{3, 3, 3}));
  EXPECT_EQ(function_of_x("TopK", R"("k": 2)"), (Floats{2, 1, 5, 4}));
  EXPECT_EQ(function_of_x("BroadcastTo", R"("shape": [2, 2, 3])"), (Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST(keras_functions, a_setting_that_nothing_reads_is_refused_by_its_name) {
  const std::string idle = R"("axis": 1, "reverse": false, "dtype": "float32")";
  EXPECT_EQ(function_of_x("Cumsum", idle), (Floats{0, 1, 3, 3, 7, 12}));
  const std::string said = refused_with([] { function_of_x("Cumsum", R"("axis": 1, "reverse": true)"); }, kUnsupported);
  EXPECT_NE(said.find("its reverse (true) is not read; --ignore-setting Cumsum.reverse"), said.npos) << said;
}

TEST(keras_functions, the_end_of_a_gradient_is_refused_in_training_by_its_name) {
  const auto run = [](const ImportOptions& options) {
    return function_of_x("StopGradient", "", "", R"(["y", 0, 0])", options);
  };
  const std::string said = refused_with([&] { run({.train = true}); }, kUnsupported);
  EXPECT_NE(said.find("ends the gradient"), said.npos) << said;
  EXPECT_NE(said.find("--ignore-setting StopGradient goes on without it"), said.npos) << said;
  const Floats same = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(run({}), same);
  EXPECT_EQ(run({.train = true, .settled = true}), same);
  EXPECT_EQ(run({.train = true, .ignored = {"StopGradient"}}), same);
}

// The importer numbers the second output of y, but not as y_1, which is the name of another layer's output.
TEST(keras_functions, outputs_have_different_names) {
  const std::string x = R"({"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}})";
  const auto moments = [&](const char* name) {
    return std::string(R"({"module": "keras.src.ops.nn", "class_name": "Moments", "name": ")") + name +
           R"(", "config": {"name": ")" + name + R"(", "axes": [1]}, "inbound_nodes": [{"args": [)" + x +
           R"(], "kwargs": {}}]})";
  };
  const Graph graph = file_graph(R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [2, 3], "name": "x"}, "inbound_nodes": []}, )" +
                                     moments("y") + ", " + moments("y_1") +
                                     R"(], "input_layers": [["x", 0, 0]],
    "output_layers": [["y", 0, 0], ["y", 0, 1], ["y_1", 0, 0], ["y_1", 0, 1]]}})",
                                 {});
  std::vector<std::string> names;
  for (const Binding& output : graph.outputs) names.push_back(output.name);
  EXPECT_EQ(names, (std::vector<std::string>{"y", "y_2", "y_1", "y_1_1"}));
}

}  // namespace
}  // namespace nacre::tools
