// Tests Keras files whose calls, arguments and settings are easily misread: operands among the arguments, masks, names
// of layers. Also bounds the time and memory that a file can ask for.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "tests/importers/keras_builder.h"
#include "tests/refused_with.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {
namespace {

std::string argument_of(const std::string& layer, int node) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 2], "keras_history": [")" + layer + "\", " +
         std::to_string(node) + ", 0]}}";
}

// ---- Calls and configurations that are easily misread

// Returns the configuration of a network with the input x [batch, 2] and these layers. Each is {class, configuration,
// arguments}; the last is named y, the others l0, l1, ...
std::string calls(const std::vector<std::array<std::string, 3>>& layers) {
  std::string text = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2], "name": "x"}, "inbound_nodes": []})";
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = i + 1 == layers.size() ? "y" : "l" + std::to_string(i);
    text += R"(, {"class_name": ")" + layers[i][0] + R"(", "name": ")" + name + R"(", "config": {"name": ")" + name +
            "\"" + layers[i][1] + R"(}, "inbound_nodes": [{"args": [)" + layers[i][2] + R"(], "kwargs": {}}]})";
  }
  return text + R"(], "input_layers": [["x", 0, 0]], "output_layers": [["y", 0, 0]]}})";
}

TEST(import_keras, arrays_in_the_arguments_are_operands) {
  const std::string x = argument_of("x", 0);
  for (const char* kind : {"__numpy__", "__tensor__"}) {
    const std::string array =
        R"({"class_name": ")" + std::string(kind) + R"(", "config": {"value": [[1.5, 2.5]], "dtype": "float32"}})";
    for (const std::string& arguments : {x + ", " + array, array + ", " + x, "[" + x + ", " + array + "]"}) {
      const Graph graph = import_keras_hdf5(legacy_keras(calls({{"Multiply", "", arguments}}), {}), "m.h5");
      check(graph);
      ASSERT_EQ(graph.nodes.size(), 1u) << arguments;
      EXPECT_EQ(graph.nodes[0].op, Op::kMul);
      const size_t at = arguments.find(kind) < arguments.find("__keras_tensor__") ? 0 : 1;
      EXPECT_EQ(reals(graph.values[size_t(graph.nodes[0].inputs[at])]), (std::vector<float>{1.5f, 2.5f})) << arguments;
    }
  }
  const auto refused = [&](const std::string& arguments, int code) {
    return refused_with([&] { import_keras_hdf5(legacy_keras(calls({{"Add", "", arguments}}), {}), "m.h5"); }, code);
  };
  EXPECT_NE(refused(x + R"(, "1")", kUnsupported).find("neither a tensor nor a number"), std::string::npos);
  EXPECT_NE(
      refused(x + R"(, {"class_name": "__numpy__", "config": {"value": [[1, 2], [3]], "dtype": "int32"}})", kBadInput)
          .find("an array in its arguments is none"),
      std::string::npos);
}

// After an unknown layer, the importer also checks the layers that read its output. One refusal lists both problems.
TEST(import_keras, what_stands_behind_a_refusal_is_looked_at) {
  const auto refused = [](const std::string& config) {
    return refused_with([&] { import_keras_hdf5(legacy_keras(config, {}), "m.h5"); }, kUnsupported);
  };
  const std::string functional =
      refused(calls({{"Hologram", "", argument_of("x", 0)}, {"Add", "", argument_of("l0", 0) + R"(, "1")"}}));
  EXPECT_NE(functional.find("2 things are not supported"), std::string::npos) << functional;
  EXPECT_NE(functional.find("neither a tensor nor a number"), std::string::npos) << functional;
  const std::string sequential = refused(R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 4, 2], "name": "x"}},
    {"class_name": "Hologram", "config": {"name": "h"}},
    {"class_name": "Lambda", "config": {"name": "p"},
     "build_config": {"input_shape": [null, 4, 4, 2]}}]}})");
  EXPECT_NE(sequential.find("2 things are not supported"), std::string::npos) << sequential;
  EXPECT_NE(sequential.find("p (Lambda): "), std::string::npos) << sequential;
}

// keras.ops has classes with the names of layers. In an .h5 file an Average of layers has no axis, and a Dot of
// layers has axes.
TEST(import_keras, operations_are_no_layers_of_their_name) {
  const std::string x = argument_of("x", 0);
  check(import_keras_hdf5(legacy_keras(calls({{"Average", R"(, "axis": 1)", x}}), {}), "m.h5"));
  const std::string dot = calls({{"Dot", "", x + ", " + x}});  // [1, 2] and [1, 2]
  EXPECT_NE(refused_with([&] { import_keras_hdf5(legacy_keras(dot, {}), "m.h5"); }, kBadInput).find("do not fit"),
            std::string::npos);
}

// An .h5 file does not say the module. Reshape is the function if it has a newshape, and the layer if it has a
// target_shape.
TEST(import_keras, a_reshape_is_the_functions_where_it_has_its_argument) {
  const std::string x = argument_of("x", 0);
  for (const char* config : {R"(, "newshape": [-1, 1, 2])", R"(, "target_shape": [1, 2])"}) {
    const Graph graph = import_keras_hdf5(legacy_keras(calls({{"Reshape", config, x}}), {}), "m.h5");
    check(graph);
    EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].dims, (std::vector<int64_t>{1, 1, 2})) << config;
  }
}

TEST(import_keras, arguments_of_attention_mean_what_their_places_say) {
  const std::string q = argument_of("l0", 0);
  const auto imported = [&](const std::string& arguments) {
    return import_keras_hdf5(
        legacy_keras(
            calls({{"Reshape", R"(, "target_shape": [1, 2])", argument_of("x", 0)}, {"Attention", "", arguments}}), {}),
        "m.h5");
  };
  check(imported("[" + q + ", " + q + ", " + q + "]"));
  check(imported("[" + q + ", " + q + "], [null, null]"));
  for (const std::string& arguments : {q + ", " + q + ", null, " + q, "[" + q + ", " + q + "], null, " + q})
    EXPECT_NE(refused_with([&] { imported(arguments); }, kUnsupported).find("a mask"), std::string::npos) << arguments;
  EXPECT_NE(refused_with([&] { imported("[" + q + ", " + q + "], null, false, false, true"); }, kUnsupported)
                .find("an argument without its name"),
            std::string::npos);
}

TEST(import_keras, configurations_that_mean_something_else_are_refused) {
  const auto sequential = [](const std::string& layer, const std::string& shape) {
    return R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
           shape + R"(], "name": "x"}}, )" + layer + "]}}";
  };
  const auto text = [&](const std::string& config, const std::vector<KerasVariable>& variables, int code) {
    return refused_with([&] { import_keras_hdf5(legacy_keras(config, {{"d", variables}}), "m.h5"); }, code);
  };
  const std::string prelu = R"({"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false,
    "activation": {"class_name": "PReLU", "config": {"name": "p"}}}})";
  EXPECT_NE(
      text(sequential(prelu, "2"), {{"d/kernel:0", {2, 2}, {1, 2, 3, 4}}, {"d/p/alpha:0", {2}, {5, 6}}}, kUnsupported)
          .find("its activation PReLU, which has variables"),
      std::string::npos);
  const std::vector<KerasVariable> of_gates = {{"d/kernel:0", {2, 4}, {1, 1, 1, 1, 1, 1, 1, 1}},
                                               {"d/recurrent:0", {1, 4}, {1, 1, 1, 1}},
                                               {"d/bias:0", {8}, {1, 1, 1, 1, 1, 1, 1, 1}}};
  const std::string lstm = R"({"class_name": "LSTM", "config": {"name": "d", "units": 1, "time_major": )";
  EXPECT_NE(text(sequential(lstm + "true}}", "3, 2"), of_gates, kUnsupported).find("time_major"), std::string::npos);
  EXPECT_NE(
      text(sequential(lstm + "false}}", "3, 2"), of_gates, kBadInput).find("bias is stored with shape [8], [4] is"),
      std::string::npos);
  const std::string int4 = R"({"class_name": "Dense", "config": {"name": "d", "units": 0, "use_bias": false, "dtype":
    {"class_name": "Int4DTypePolicy", "config": {"mode": "int4", "source_name": "float32", "block_size": 1}}}})";
  EXPECT_NE(text(sequential(int4, "2"),
                 {{"d/kernel", {2, 0}, {}, KerasVariable::kInt8},
                  {"d/kernel_scale", {1}, {1}},
                  {"d/kernel_zero", {1}, {1}},
                  {"d/g_idx", {2}, {0, 0}}},
                 kBadInput)
                .find("a kernel of shape [2, 0]"),
            std::string::npos);
}

// In an archive, an activation's variables have a path of their own.
TEST(import_keras, an_activation_has_its_own_variables) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false,
      "activation": {"class_name": "PReLU", "config": {"name": "p"}}}}]}})";
  const Graph graph = import_keras_archive(keras_archive(config, {{"layers/dense/vars/0", {2, 2}, {1, 2, 3, 4}},
                                                                  {"layers/dense/activation/vars/0", {2}, {5, 6}}}),
                                           "m.keras");
  check(graph);
  const auto mul = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op == Op::kMul; });
  ASSERT_NE(mul, graph.nodes.end());
  EXPECT_EQ(reals(graph.values[size_t(mul->inputs[1])]), (std::vector<float>{5, 6}));
}

// ---- Time, memory, and a process whose standard streams are closed

// Returns the processor time that the import of `count` layers takes. The file lists them from the last to the first.
double seconds_of_layers(int count) {
  std::string layers;
  for (int i = count; i > 0; --i) {
    const std::string name = "l" + std::to_string(i), before = "l" + std::to_string(i - 1);
    layers += R"({"class_name": "Identity", "name": ")" + name + R"(", "config": {"name": ")" + name +
              R"(", "seed": ")" + std::string(500, 'a') + R"("}, "inbound_nodes": [[[")" + before +
              R"(", 0, 0, {}]]]}, )";
  }
  const std::vector<uint8_t> file =
      legacy_keras(R"({"class_name": "Functional", "config": {"name": "m", "layers": [)" + layers +
                       R"({"class_name": "InputLayer", "name": "l0", "config": {"batch_shape": [null, 2], "name": "l0"},
              "inbound_nodes": []}], "input_layers": [["l0", 0, 0]], "output_layers": [["l)" +
                       std::to_string(count) + R"(", 0, 0]]}})",
                   {});
  const std::clock_t begun = std::clock();
  EXPECT_EQ(import_keras_hdf5(file, "m.h5").nodes.size(), 1u);  // a copy
  return double(std::clock() - begun) / CLOCKS_PER_SEC;
}

// 16 times as many layers must take less than 64 times as long; time_test.cc says why.
TEST(import_keras, calls_in_any_order_take_time_in_proportion) {
  const int less = nacre::test::generated(200);
  const double best = std::min({seconds_of_layers(less), seconds_of_layers(less), seconds_of_layers(less)});
  double all = seconds_of_layers(16 * less);
  for (int again = 0; again < 4 && all >= 64 * best; ++again) all = std::min(all, seconds_of_layers(16 * less));
  EXPECT_LT(all, 64 * best);
}

TEST(import_keras, texts_without_characters_take_memory_too) {
  const auto many = [](hid_t file) {  // 2,400,000 texts in attributes
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 1);
    const hsize_t count = 60000;
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    for (int i = 0; i < 40; ++i)
      H5Aclose(H5Acreate2(file, ("t" + std::to_string(i)).c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    H5Tclose(type);
  };
  EXPECT_NE(
      refused_with([&] { import_keras_hdf5(hdf5_bytes({}, many), "m.h5"); }, kBadInput).find("text cannot be read"),
      std::string::npos);
}

// With stdin, stdout and stderr closed, the pipe to the process that runs libhdf5 gets one of their descriptors.
TEST(import_keras, files_are_read_where_nothing_is_open) {
  const std::vector<uint8_t> file = legacy_keras(calls({{"ReLU", "", argument_of("x", 0)}}), {});
  const pid_t process = fork();
  if (process == 0) {
    for (const int standard : {0, 1, 2}) close(standard);
    try {
      _exit(import_keras_hdf5(file, "m.h5").nodes.size() == 1 ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = -1;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace nacre::tools
