// Tests what layers of Keras files become, which variables belong to which layer, and bad files. The test makes the
// files with libhdf5 and libzip. tests/peers/keras_files.py compares whole networks with Keras.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <functional>

#include "tests/importers/keras_builder.h"
#include "tests/refused_with.h"
#include "tools/base/error.h"
#include "tools/importers/keras/files.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

std::vector<uint8_t> as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

constexpr char kDenseModel[] = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
  {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 2], "dtype": "float32", "name": "x"}},
  {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "relu", "use_bias": true}}]}})";
const std::vector<KerasVariable> kDenseVariables = {{"d/kernel:0", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                                    {"d/bias:0", {3}, {7, 8, 9}}};

const Value& operand(const Graph& graph, size_t node, size_t input) {
  return graph.values[size_t(graph.nodes.at(node).inputs.at(input))];
}

TEST(import_keras, a_dense_layer_is_a_product_with_its_kernel_turned) {
  const Graph graph = import_keras_hdf5(legacy_keras(kDenseModel, {{"d", kDenseVariables}}), "m.h5", {.batch = 4});
  check(graph);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(reals(operand(graph, 0, 1)), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(reals(operand(graph, 0, 2)), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(graph.nodes[1].op, Op::kClamp);
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(graph.outputs[0].name, "d");
  EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].dims, (std::vector<int64_t>{4, 3}));
  EXPECT_TRUE(graph.values[size_t(graph.outputs[0].value)].batched);
}

// Returns a model that calls one layer twice, as Keras 2 and Keras 3 write it. It becomes two nodes and one kernel.
std::string shared_model(const std::string& first, const std::string& second, const std::string& both) {
  return R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "b", "config": {"batch_shape": [null, 2], "name": "b"}, "inbound_nodes": []},
    {"class_name": "InputLayer", "name": "a", "config": {"batch_shape": [null, 2], "name": "a"}, "inbound_nodes": []},
    {"class_name": "Dense", "name": "d", "config": {"name": "d", "units": 3}, "inbound_nodes": [)" +
         first + ", " + second + R"(]},
    {"class_name": "Subtract", "name": "y", "config": {"name": "y"}, "inbound_nodes": [)" +
         both + R"(]}], "input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": [["y", 0, 0], ["d", 1, 0]]}})";
}

std::string tensor(const std::string& layer, int node) {
  return R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 2], "keras_history": [")" + layer + "\", " +
         std::to_string(node) + ", 0]}}";
}

TEST(import_keras, a_shared_layer_has_one_kernel_in_both_forms_of_calls) {
  const auto call = [](const std::string& arguments) { return "{\"args\": [" + arguments + "], \"kwargs\": {}}"; };
  const std::string keras2 =
      shared_model(R"([["a", 0, 0, {}]])", R"([["b", 0, 0, {}]])", R"([["d", 0, 0, {}], ["d", 1, 0, {}]])");
  const std::string keras3 = shared_model(call(tensor("a", 0)), call(tensor("b", 0)),
                                          call("[" + tensor("d", 0) + ", " + tensor("d", 1) + "]"));
  for (const std::string& config : {keras2, keras3}) {
    const Graph graph = import_keras_hdf5(legacy_keras(config, {{"d", kDenseVariables}}), "m.h5");
    check(graph);
    ASSERT_EQ(graph.nodes.size(), 3u);
    EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
    EXPECT_EQ(graph.inputs[0].name, "a");
    EXPECT_EQ(graph.inputs[1].name, "b");
    EXPECT_EQ(graph.nodes[0].inputs[0], graph.inputs[0].value);
    EXPECT_EQ(graph.nodes[2].op, Op::kSub);
    EXPECT_EQ(graph.outputs[0].name, "y");
    EXPECT_EQ(graph.outputs[1].name, "d");
    EXPECT_EQ(graph.outputs[1].value, graph.nodes[1].outputs[0]);
  }
}

// In a .keras file, the path of a variable is made of the layer's class and its number among layers of that class.
TEST(import_keras, an_archive_gives_each_layer_its_own_variables) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "first", "units": 3, "use_bias": false}},
    {"class_name": "Dense", "config": {"name": "second", "units": 1, "use_bias": false}}]}})";
  const std::vector<uint8_t> weights = hdf5_bytes({{"layers/dense/vars/0", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                                   {"layers/dense_1/vars/0", {3, 1}, {7, 8, 9}},
                                                   {"optimizer/vars/0", {1}, {5}}});
  const auto archive = [&](const std::string& member) {
    return zip_bytes({{"metadata.json", as_bytes(R"({"keras_version": "3.15.1"})")},
                      {"config.json", as_bytes(config)},
                      {member, weights}});
  };
  const Graph graph = import_keras_archive(archive("model.weights.h5"), "m.keras");
  check(graph);
  EXPECT_EQ(reals(operand(graph, 0, 1)), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(reals(operand(graph, 1, 1)), (std::vector<float>{7, 8, 9}));
  const auto imported = [](std::vector<uint8_t> bytes) { return [bytes] { import_keras_archive(bytes, "m.keras"); }; };
  EXPECT_NE(refused_with(imported(archive("../model.weights.h5")), kBadInput).find("leads out"), std::string::npos);
  EXPECT_NE(refused_with(imported(archive("other.h5")), kUnsupported).find("no model.weights.h5"), std::string::npos);
  // Makes the archive's directory promise gigabytes: writes the size of the last member in its central entry.
  std::vector<uint8_t> lying = archive("model.weights.h5");
  const std::string magic = "PK\x01\x02";
  const auto last = std::find_end(lying.begin(), lying.end(), magic.begin(), magic.end());
  ASSERT_NE(last, lying.end());
  for (int i = 24; i < 28; ++i) last[i] = 0x7F;
  refused_with([&] { import_keras_archive(lying, "m.keras"); }, kBadInput);
}

TEST(import_keras, int8_codes_mean_themselves_over_their_scale_and_keep_their_policy) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false, "dtype":
      {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}}}},
    {"class_name": "Dense", "config": {"name": "e", "units": 1, "use_bias": false, "dtype":
      {"class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"}}}}]}})";
  Graph graph =
      import_keras_hdf5(legacy_keras(config, {{"d",
                                               {{"d/kernel", {2, 2}, {127, -64, 10, 127}, KerasVariable::kInt8},
                                                {"d/kernel_scale", {2}, {63.5f, 254}}}},
                                              {"e", {{"e/kernel", {2, 1}, {1, 2}}}}}),
                        "m.h5");
  EXPECT_EQ(reals(operand(graph, 0, 1)), (std::vector<float>{2, 10 / 63.5f, -64 / 254.0f, 0.5f}));
  Graph asked = graph;
  resolve_policies(graph, {});
  EXPECT_EQ(graph.layers[0].policy.quantization, Quantization::kInt8Dynamic);
  EXPECT_EQ(graph.layers[1].policy.compute, ElementType::kBfloat16);
  EXPECT_TRUE(graph.layers[0].asked && graph.layers[1].asked);
  resolve_policies(asked, parse_policy_options({.policy = "float16"}));  // the user's policy overrides the file's
  for (const Layer& layer : asked.layers) EXPECT_EQ(layer.policy.compute, ElementType::kFloat16);
}

TEST(import_keras, everything_that_is_not_supported_is_said_at_once) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Lambda", "config": {"name": "python"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 3}},
    {"class_name": "Hologram", "config": {"name": "h"}}]}})";
  const std::string text =
      refused_with([&] { import_keras_hdf5(legacy_keras(config, {{"d", kDenseVariables}}), "m.h5"); }, kUnsupported);
  EXPECT_NE(text.find("2 things are not supported"), std::string::npos) << text;
  EXPECT_NE(text.find("python (Lambda): holds Python code, which is not run"), std::string::npos) << text;
  EXPECT_NE(text.find("h (Hologram): a layer that the converter does not have"), std::string::npos) << text;
}

TEST(import_keras, models_and_layers_of_own_classes_are_said) {
  const auto refused = [](const std::string& config) {
    return refused_with([&] { import_keras_hdf5(legacy_keras(config, {{"d", kDenseVariables}}), "m.h5"); },
                        kUnsupported);
  };
  for (const char* config : {R"({"trainable": true})", "null"}) {
    const std::string text = refused(R"({"module": null, "class_name": "M", "config": )" + std::string(config) +
                                     R"(, "registered_name": "Custom>M"})");
    EXPECT_NE(text.find("M is a subclassed model: its file holds weights and no graph"), std::string::npos) << text;
    EXPECT_NE(text.find("format='onnx'"), std::string::npos) << text;
  }
  for (const char* name : {"M", "Dense"}) {  // a user's Dense is not Keras's
    const std::string text = refused(R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
      {"class_name": ")" + std::string(name) +
                                     R"(", "config": {"units": 3}, "registered_name": "Custom>)" + name + R"("}]}})");
    EXPECT_NE(text.find("a layer or model of the user's own class"), std::string::npos) << text;
  }
}

TEST(import_keras, links_out_of_the_file_are_refused) {
  const auto with = [](const std::function<void(hid_t)>& add) {
    return refused_with([&] { import_keras_hdf5(hdf5_bytes({{"a/b", {1}, {1}}}, add), "m.h5"); }, kBadInput);
  };
  EXPECT_NE(with([](hid_t file) {
              H5Lcreate_external("/etc/passwd", "/", file, "out", H5P_DEFAULT, H5P_DEFAULT);
            }).find("is a link into another file"),
            std::string::npos);
  EXPECT_NE(with([](hid_t file) { H5Lcreate_soft("/a", file, "soft", H5P_DEFAULT, H5P_DEFAULT); }).find("not followed"),
            std::string::npos);
  EXPECT_NE(with([](hid_t file) {
              H5Lcreate_hard(file, "/", file, "a/loop", H5P_DEFAULT, H5P_DEFAULT);
            }).find("holds itself"),
            std::string::npos);
  const auto outside = [](hid_t file) {
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(made, "/etc/passwd", 0, 4);
    const hsize_t one = 1;
    const hid_t space = H5Screate_simple(1, &one, nullptr);
    H5Dclose(H5Dcreate2(file, "ext", H5T_IEEE_F32LE, space, H5P_DEFAULT, made, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(made);
  };
  EXPECT_NE(with(outside).find("lies in another file"), std::string::npos);
}

// A dataset whose chunks were never written is small in the file, but takes terabytes of memory.
TEST(import_keras, a_dataset_larger_than_its_file_may_mean_is_refused) {
  const auto huge = [](hid_t file) {
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t dims[2] = {hsize_t{1} << 20, hsize_t{1} << 20}, chunk[2] = {64, 64};
    H5Pset_chunk(made, 2, chunk);
    H5Pset_deflate(made, 9);
    const hid_t space = H5Screate_simple(2, dims, nullptr);
    H5Dclose(H5Dcreate2(file, "huge", H5T_IEEE_F32LE, space, H5P_DEFAULT, made, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(made);
  };
  EXPECT_NE(refused_with([&] { import_keras_hdf5(hdf5_bytes({}, huge), "m.h5"); }, kBadInput).find("more numbers"),
            std::string::npos);
}

// libhdf5 may do anything with damaged bytes. The importer must return a graph or refuse with one sentence.
TEST(import_keras, a_damaged_file_is_one_sentence) {
  const std::vector<uint8_t> whole = legacy_keras(kDenseModel, {{"d", kDenseVariables}});
  int refused = 0, tried = 0;
  for (size_t i = 0; i < 24; ++i) {
    std::vector<uint8_t> bytes = whole;
    if (i % 2 == 0) bytes.resize(whole.size() * (i + 1) / 25);
    else
      for (size_t k = 0; k < 6; ++k) bytes[(i * 7919 + k * 104729) % bytes.size()] ^= uint8_t(1 + i * 37);
    try {
      ++tried;
      check(import_keras_hdf5(bytes, "m.h5"));
    } catch (const Error& error) {
      EXPECT_NE(error.code, kFailed) << error.what();
      ++refused;
    }
  }
  EXPECT_EQ(tried, 24);
  EXPECT_GE(refused, 12);
}

}  // namespace
}  // namespace nacre::tools
