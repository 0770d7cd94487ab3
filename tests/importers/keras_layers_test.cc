// Compares the outputs of imported Keras layers with the layers' formulas: loops, or numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/importers/keras_graphs.h"
#include "tests/refused_with.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {
namespace {

// Returns the configuration of a model with an input of this shape (without the batch) and these layers. The layer
// with variables is named "d".
std::string model_of(const std::string& shape, const std::string& layers, const std::string& type = "float32") {
  return R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
         shape + R"(], "name": "x", "dtype": ")" + type + "\"}}, " + layers + "]}}";
}

std::string layer(const std::string& class_name, const std::string& config) {
  return R"({"class_name": ")" + class_name + R"(", "config": {)" + config + "}}";
}

Floats counting(size_t count, float first = -2, float step = 0.25f) {
  Floats numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + step * float(i % 17);
  return numbers;
}

void expect_near(const Floats& found, const Floats& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;  // sums of some dozen terms
}

// h' = x + h for x = 1, 0, 2. The second step is masked, so the state stays.
TEST(keras_layers, a_masked_step_leaves_the_state_as_it_was) {
  const std::string masking = layer("Masking", R"("name": "m", "mask_value": 0)");
  const auto sums = [&](const std::string& more) {
    const std::string rnn =
        layer("SimpleRNN", R"("name": "d", "units": 1, "activation": "linear", "use_bias": false, )" + more);
    return outputs_of(
        file_graph(model_of("3, 1", masking + ", " + rnn), {{"d/k:0", {1, 1}, {1}}, {"d/r:0", {1, 1}, {1}}}),
        Floats{1, 0, 2});
  };
  EXPECT_EQ(sums(R"("return_sequences": true)"), (Floats{1, 1, 3}));
  EXPECT_EQ(sums(R"("return_sequences": true, "zero_output_for_mask": true)"), (Floats{1, 0, 3}));
  EXPECT_EQ(sums(R"("return_sequences": false)"), Floats{3});
  EXPECT_EQ(sums(R"("go_backwards": true, "return_sequences": true)"), (Floats{2, 2, 3}));
}

// Moves the last axis of x [n, 2, 1, 3, 1, 2, 1, 2] to directly behind the batch axis n.
TEST(keras_layers, tensors_have_up_to_8_axes) {
  const std::string turned = layer("Permute", R"("name": "p", "dims": [7, 1, 2, 3, 4, 5, 6])");
  const Floats x = counting(24), y = outputs_of(file_graph(model_of("2, 1, 3, 1, 2, 1, 2", turned), {}), x);
  ASSERT_EQ(y.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i % 12 * 2 + i / 12]) << i;
}

// A layer that does not support masks drops the mask. Then the mean is over all steps.
TEST(keras_layers, a_mask_goes_as_far_as_layers_hand_it_on) {
  const std::string table = layer("Embedding", R"("name": "d", "input_dim": 3, "output_dim": 1, "mask_zero": true)");
  const auto mean = [&](const std::string& between) {
    const std::string layers = table + ", " + between + ", " + layer("GlobalAveragePooling1D", R"("name": "g")");
    return outputs_of(file_graph(model_of("4", layers, "int32"), {{"d/e:0", {3, 1}, {8, 2, 4}}}),
                      std::vector<int32_t>{1, 0, 2, 0});
  };
  EXPECT_EQ(mean(layer("Dropout", R"("name": "o", "rate": 0.5)")), Floats{3});
  EXPECT_EQ(mean(layer("ZeroPadding1D", R"("name": "o", "padding": 0)")), Floats{5.5f});
}

struct Cuboid {
  int d, h, w, c;
  float at(const Floats& x, int i, int j, int k, int channel) const {
    const bool inside = i >= 0 && i < d && j >= 0 && j < h && k >= 0 && k < w;
    return inside ? x[size_t(((i * h + j) * w + k) * c + channel)] : 0;
  }
};

// Compares a Conv3D that has two groups, a dilation and a stride with loops over its kernel.
TEST(keras_layers, a_convolution_of_volumes_is_its_sum) {
  const Cuboid in = {4, 3, 5, 4}, out = {1, 1, 4, 2};
  const Floats x = counting(4 * 3 * 5 * 4), w = counting(2 * 3 * 2 * 2 * 2, -1, 0.125f);
  Floats expected;
  for (int i = 0; i < out.d; ++i)
    for (int k = 0; k < out.w; ++k)
      for (int o = 0; o < 2; ++o) {
        float sum = o == 0 ? 0.5f : -1;
        for (int a = 0; a < 2; ++a)
          for (int b = 0; b < 3; ++b)
            for (int e = 0; e < 2; ++e)
              for (int c = 0; c < 2; ++c)
                sum += in.at(x, i + 3 * a, b, k + e, 2 * o + c) * w[size_t((((a * 3 + b) * 2 + e) * 2 + c) * 2 + o)];
        expected.push_back(sum);
      }
  const std::string conv = layer("Conv3D", R"("name": "d", "filters": 2, "kernel_size": [2, 3, 2], "groups": 2,
    "dilation_rate": [3, 1, 1], "padding": "valid")");
  expect_near(outputs_of(file_graph(model_of("4, 3, 5, 4", conv),
                                    {{"d/kernel:0", {2, 3, 2, 2, 2}, w}, {"d/bias:0", {2}, {0.5f, -1}}}),
                         x),
              expected);
}

// Each element of x, times the kernel, is added to the outputs that the kernel reaches from there.
TEST(keras_layers, a_transposed_convolution_of_volumes_gives_out_what_it_reads) {
  const Cuboid in = {2, 2, 3, 2}, out = {5, 3, 5, 1};
  const Floats x = counting(2 * 2 * 3 * 2), w = counting(3 * 2 * 3 * 1 * 2, -1, 0.25f);
  Floats expected(size_t(out.d * out.h * out.w), 0);
  for (int i = 0; i < in.d; ++i)
    for (int j = 0; j < in.h; ++j)
      for (int k = 0; k < in.w; ++k)
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 2; ++b)
            for (int e = 0; e < 3; ++e)
              for (int c = 0; c < 2; ++c)
                expected[size_t(((2 * i + a) * out.h + j + b) * out.w + k + e)] +=
                    in.at(x, i, j, k, c) * w[size_t(((a * 2 + b) * 3 + e) * 2 + c)];
  const std::string conv = layer("Conv3DTranspose", R"("name": "d", "filters": 1, "kernel_size": [3, 2, 3],
    "strides": [2, 1, 1], "padding": "valid", "use_bias": false)");
  expect_near(outputs_of(file_graph(model_of("2, 2, 3, 2", conv), {{"d/kernel:0", {3, 2, 3, 1, 2}, w}}), x), expected);
}

TEST(keras_layers, channels_may_be_first) {
  const std::string pool = layer("MaxPooling2D", R"("name": "p", "pool_size": 2, "data_format": "channels_first")");
  const Graph graph = file_graph(model_of("2, 2, 2", pool), {});
  EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].dims, (std::vector<int64_t>{1, 2, 1, 1}));
  EXPECT_EQ(outputs_of(graph, Floats{1, 2, 3, 4, 8, 7, 6, 5}), (Floats{4, 8}));
}

TEST(keras_layers, adaptive_windows_meet_and_overlap) {
  const std::string mean = layer("AdaptiveAveragePooling1D", R"("name": "p", "output_size": 3)");
  EXPECT_EQ(outputs_of(file_graph(model_of("4, 1", mean), {}), Floats{1, 3, 5, 9}), (Floats{2, 4, 7}));
  const std::string most = layer("AdaptiveMaxPooling1D", R"("name": "p", "output_size": 3)");
  EXPECT_EQ(outputs_of(file_graph(model_of("4, 1", most), {}), Floats{1, 3, 5, 9}), (Floats{3, 5, 9}));
}

// If the file leaves the size of an axis open, the refusal names the option that gives one. With the option the
// import uses it.
TEST(keras_layers, open_axes_take_the_sizes_that_are_given) {
  const std::string config = model_of("null, 2", layer("GlobalMaxPooling1D", R"("name": "g")"));
  const std::string text = refused_with([&] { file_graph(config, {}); }, kUnsupported);
  EXPECT_NE(text.find("axis 1 has no fixed size: give it one, as --shape x=1xSIZEx2"), std::string::npos) << text;
  const Graph graph = file_graph(config, {}, {.shapes = {"x=3x5x2"}});
  EXPECT_EQ(graph.values[size_t(graph.inputs[0].value)].dims, (std::vector<int64_t>{3, 5, 2}));
  EXPECT_EQ(graph.batch, 3);
  EXPECT_NE(refused_with([&] { file_graph(config, {}, {.batch = 2, .shapes = {"x=3x5x2"}}); }, kUsage).find("batches"),
            std::string::npos);
}

// Two stacked cells compute y = 3 (2 x). The group of a cell's variables is numbered among cells of its class.
TEST(keras_layers, stacked_cells_have_their_own_variables) {
  const std::string cell = R"("units": 1, "activation": "linear", "use_bias": false)";
  const std::string cells = layer("SimpleRNNCell", cell) + ", " + layer("SimpleRNNCell", cell);
  const std::string config = model_of("2, 1", layer("RNN", R"("name": "d", "cell": {"class_name": "StackedRNNCells",
    "config": {"cells": [)" + cells + "]}}"));
  const std::string at = "layers/rnn/cell/cells/simple_rnn_cell";
  const Graph graph = import_keras_archive(keras_archive(config, {{at + "/vars/0", {1, 1}, {2}},
                                                                  {at + "/vars/1", {1, 1}, {0}},
                                                                  {at + "_1/vars/0", {1, 1}, {3}},
                                                                  {at + "_1/vars/1", {1, 1}, {0}}}),
                                           "m.keras");
  check(graph);
  EXPECT_EQ(outputs_of(graph, Floats{1, 5}), Floats{30});
}

// x[:, 1:, ::-2] of [[0 .. 3], [4 .. 7]], as keras.ops.GetItem writes it.
TEST(keras_layers, a_slice_of_a_tensor_is_numpys) {
  const auto slice = [](const std::string& begin, const std::string& end, const std::string& step) {
    return R"({"class_name": "__slice__", "config": {"start": )" + begin + R"(, "stop": )" + end + R"(, "step": )" +
           step + "}}";
  };
  const std::string config = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2, 4], "name": "x"},
     "inbound_nodes": []},
    {"module": "keras.src.ops.numpy", "class_name": "GetItem", "name": "y", "config": {"name": "y"},
     "inbound_nodes": [{"args": [
      {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}, [)" +
                             slice("null", "null", "null") + ", " + slice("1", "null", "null") + ", " +
                             slice("null", "null", "-2") + R"(]], "kwargs": {}}]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["y", 0, 0]]}})";
  EXPECT_EQ(outputs_of(file_graph(config, {}), Floats{0, 1, 2, 3, 4, 5, 6, 7}), (Floats{7, 5}));
}

// Keras 2 counts the construction of a model as its first call. It names the variables of a nested model without the
// model's name. y = 3 (3 x).
TEST(keras_layers, a_model_in_a_model_is_read_as_keras_2_wrote_it) {
  const std::string config = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_input_shape": [null, 1], "name": "x"},
     "inbound_nodes": []},
    {"class_name": "Functional", "name": "middle", "config": {"name": "middle", "layers": [
      {"class_name": "InputLayer", "name": "y", "config": {"batch_input_shape": [null, 1], "name": "y"},
       "inbound_nodes": []},
      {"class_name": "Sequential", "name": "inner", "config": {"name": "inner", "layers": [
        {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false,
         "dtype": {"class_name": "Policy", "config": {"name": "mixed_float16"}}}}]},
       "inbound_nodes": [[["y", 0, 0, {}]]]}],
     "input_layers": [["y", 0, 0]], "output_layers": [["inner", 1, 0]]},
     "inbound_nodes": [[["x", 0, 0, {}]], [["middle", 1, 0, {}]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["middle", 2, 0]]}})";
  const Graph graph = import_keras_hdf5(legacy_keras(config, {{"middle", {{"d/kernel:0", {1, 1}, {3}}}}}), "m.h5");
  check(graph);
  EXPECT_EQ(outputs_of(graph, Floats{2}), Floats{18});
  EXPECT_EQ(graph.layers[0].source_policy, R"("mixed_float16")");
}

// The kernel's codes have the output axis first. A scale belongs to an output, wherever the equation puts that axis.
TEST(keras_layers, scales_follow_the_equation) {
  const std::string einsum = layer("EinsumDense", R"("name": "d", "equation": "ab,cb->ac", "output_shape": 2, "dtype":
    {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}})");
  const Graph graph = file_graph(model_of("2", einsum), {{"d/kernel", {2, 2}, {10, 20, 30, 40}, KerasVariable::kInt8},
                                                         {"d/kernel_scale", {2}, {10, 100}}});
  expect_near(outputs_of(graph, Floats{1, 1}), {3, 0.7f});
}

// Returns a dtype policy of int8 or int4 codes and, if given, the quantizer of the layer's input.
std::string coded_as(const std::string& mode, const std::string& activation = "") {
  const std::string dtype = R"("dtype": {"class_name": "QuantizedDTypePolicy", "config": {"mode": ")" + mode +
                            R"(", "source_name": "float32"}})";
  if (activation.empty()) return dtype;
  return dtype + R"(, "quantization_config": {"class_name": "Int8QuantizationConfig", "config":
    {"weight_quantizer": null, "activation_quantizer": )" +
         activation + "}}";
}

constexpr char kAbsMax[] = R"({"class_name": "AbsMaxQuantizer", "config": {"value_range": [-127, 127],
  "epsilon": 1e-07, "output_dtype": "int8"}})";

float two_codes(int low, int high) { return float(int8_t((low & 15) | high << 4)); }

const std::vector<KerasVariable> kInt4Codes = {
    {"d/kernel", {2, 1}, {two_codes(-8, 3), two_codes(5, -1)}, KerasVariable::kInt8}, {"d/kernel_scale", {2}, {2, 4}}};

// In an archive, variables are found by their number. Without a bias, the scales directly follow the kernel's codes.
TEST(keras_layers, codes_of_four_bits_need_no_bias) {
  const std::string config =
      model_of("2", layer("Dense", R"("name": "d", "units": 2, "use_bias": false, )" + coded_as("int4/-1")));
  const Graph graph = import_keras_archive(
      keras_archive(config, {{"layers/dense/vars/0", {2, 1}, kInt4Codes[0].numbers, KerasVariable::kInt8},
                             {"layers/dense/vars/1", {2}, {2, 4}}}),
      "m.keras");
  check(graph);
  EXPECT_EQ(outputs_of(graph, Floats{1, 2}), (Floats{-4 + 5, 0.75f - 0.5f}));
  EXPECT_NE(graph.layers[0].source_policy.find("int4"), std::string::npos);
}

// Keras reshapes any kernel to a matrix before it packs the codes. If a column of the matrix is not an output of the
// layer, the scale of a column is not one of an output: the layer then computes in reals.
TEST(keras_layers, codes_of_a_turned_kernel_are_what_they_mean) {
  const std::string einsum =
      layer("EinsumDense", R"("name": "d", "equation": "ab,cb->ac", "output_shape": 2, )" + coded_as("int4/-1"));
  const Graph graph = file_graph(model_of("2", einsum), kInt4Codes);
  EXPECT_EQ(outputs_of(graph, Floats{1, 2}), (Floats{-4 + 1.5f, 2.5f - 0.5f}));
  EXPECT_EQ(graph.layers[0].source_policy, "");
}

TEST(keras_layers, rows_are_coded_where_the_file_says_it) {
  const std::vector<KerasVariable> int8 = {{"d/kernel", {2, 1}, {100, 50}, KerasVariable::kInt8},
                                           {"d/kernel_scale", {1}, {10}}};
  const auto dense = [&](const std::string& dtype) {
    return file_graph(model_of("2", layer("Dense", R"("name": "d", "units": 1, "use_bias": false, )" + dtype)), int8);
  };
  EXPECT_NE(dense(coded_as("int8", kAbsMax)).layers[0].source_policy.find(R"("int8")"), std::string::npos);
  EXPECT_EQ(dense(coded_as("int8", "null")).layers[0].source_policy, R"("int8/weights_from_float32")");
  EXPECT_EQ(outputs_of(dense(coded_as("int8", "null")), Floats{2, 0.01f}), Floats{20.05f});

  // 0.01 / 2 in codes up to 127 is round(0.635) = 1; in codes up to 7 it is 0.
  const std::string few = R"({"class_name": "AbsMaxQuantizer", "config": {"value_range": [-7, 7]}})";
  expect_near(outputs_of(dense(coded_as("int8", few)), Floats{2, 0.01f}), Floats{20});
  const std::string int4 =
      layer("Dense", R"("name": "d", "units": 2, "use_bias": false, )" + coded_as("int4", kAbsMax));
  expect_near(outputs_of(file_graph(model_of("2", int4), kInt4Codes), Floats{2, 0.01f}),
              Floats{-8 + 2.5f * 2 / 127, 1.5f - 0.25f * 2 / 127});
}

// In an .h5 file, variables are found by name, so a projection's bias may come before its codes.
TEST(keras_layers, codes_of_attention_are_found_by_their_names) {
  std::vector<KerasVariable> variables;
  for (const std::string name : {"query", "key", "value", "attention_output"})
    for (const KerasVariable& v :
         {KerasVariable{"bias", {1, 1}, {0}}, KerasVariable{"kernel", {1, 1, 1}, {20}, KerasVariable::kInt8},
          KerasVariable{"kernel_scale", {1, 1}, {10}}})
      variables.push_back({"d/" + name + "/" + v.path, v.dims, v.numbers, v.type});
  const std::string config = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 1, 1], "name": "x"},
     "inbound_nodes": []},
    {"class_name": "MultiHeadAttention", "name": "d", "config": {"name": "d", "num_heads": 1, "key_dim": 1},
     "inbound_nodes": [{"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}},
      {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}], "kwargs": {}}]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["d", 0, 0]]}})";
  EXPECT_EQ(outputs_of(file_graph(config, variables), Floats{3}), Floats{12});  // kernels of value and output: 2
}

// Multiplies x of width 2 by the embedding's own reverse matrix [2, 3]. In int4 one byte holds the codes of two rows.
TEST(keras_layers, an_embedding_turns_by_its_own_codes) {
  const auto scores = [](const std::string& mode, const std::vector<KerasVariable>& variables) {
    const std::string config = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
      {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2], "name": "x"}, "inbound_nodes": []},
      {"class_name": "ReversibleEmbedding", "name": "d", "config": {"name": "d", "input_dim": 3, "output_dim": 2,
       "tie_weights": false, )" +
                               coded_as(mode, "null") + R"(}, "inbound_nodes": [{"args": [
        {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}], "kwargs": {"reverse": true}}]}],
      "input_layers": [["x", 0, 0]], "output_layers": [["d", 0, 0]]}})";
    return outputs_of(file_graph(config, variables), Floats{1, 2});
  };
  EXPECT_EQ(scores("int8", {{"d/embeddings", {3, 2}, Floats(6, 1), KerasVariable::kInt8},
                            {"d/embeddings_scale", {3}, {1, 1, 1}},
                            {"d/reverse_embeddings", {2, 3}, {1, 2, 3, 4, 5, 6}, KerasVariable::kInt8},
                            {"d/reverse_embeddings_scale", {3}, {1, 2, 4}}}),
            (Floats{9, 6, 3.75f}));
  EXPECT_EQ(
      scores(
          "int4/2",
          {{"d/embeddings", {3, 1}, Floats(3, 1), KerasVariable::kInt8},
           {"d/embeddings_scale", {3, 1}, {1, 1, 1}},
           {"d/embeddings_zero", {3, 1}, {0, 0, 0}, KerasVariable::kInt8},
           {"d/g_idx", {2}, {0, 0}},
           {"d/reverse_embeddings", {1, 3}, {two_codes(1, 4), two_codes(2, 5), two_codes(-8, 7)}, KerasVariable::kInt8},
           {"d/reverse_embeddings_scale", {1, 3}, {1, 2, 4}},
           {"d/reverse_embeddings_zero", {1, 3}, {1, 0, 0}}}),
      (Floats{0 + 6, 4 + 20, -32 + 56}));
}

// The float8 scale is the one of the layer's input, wherever the equation makes that input an operand.
TEST(keras_layers, a_float8_scale_is_of_the_layers_product) {
  const std::string einsum = layer("EinsumDense", R"("name": "d", "equation": "abc,bd->acd", "output_shape": [3, 1],
    "dtype": {"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "float8", "source_name": "float32"}})");
  const std::vector<KerasVariable> variables = {{"d/kernel", {2, 1}, {1, 2}},
                                                {"d/inputs_scale", {}, {0.0078125f}},
                                                {"d/inputs_amax_history", {2}, {0, 0}},
                                                {"d/kernel_scale", {}, {0.25f}},
                                                {"d/kernel_amax_history", {2}, {0, 0}},
                                                {"d/outputs_grad_scale", {}, {1}},
                                                {"d/outputs_grad_amax_history", {2}, {0, 0}}};
  const Graph graph = file_graph(model_of("2, 3", einsum), variables);
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kDense) continue;
    EXPECT_EQ(node.x_amax, 3.5f);  // 448 / 128
    EXPECT_EQ(graph.values[size_t(node.inputs[1])].amaxes, Floats{112});
  }
}

// Counts the histogram of each tile of 2 x 2, computes the tile's map by the formula, and interpolates between the
// four nearest maps per pixel.
TEST(keras_layers, contrast_is_limited_per_tile) {
  constexpr int kSide = 4, kTile = 2, kGrid = 2;
  Floats image;
  for (int i = 0; i < kSide * kSide; ++i) image.push_back(float(i * 37 % 256) + 0.25f);
  std::vector<std::vector<double>> maps;
  for (int tile = 0; tile < kGrid * kGrid; ++tile) {
    std::vector<double> c(256, 0);
    for (int p = 0; p < kTile * kTile; ++p) {
      const int row = tile / kGrid * kTile + p / kTile, column = tile % kGrid * kTile + p % kTile;
      ++c[size_t(image[size_t(row * kSide + column)])];
    }
    const double limit = 40.0 * kTile * kTile / 256;
    double excess = 0;
    for (double& h : c) excess += std::max(h - limit, 0.0), h = std::min(h, limit);
    for (size_t k = 0; k < 256; ++k) c[k] += excess / 256 + (k > 0 ? c[k - 1] : 0);
    const double least = c[0];
    for (double& k : c) k = 255 * (k - least) / (kTile * kTile - least);
    maps.push_back(c);
  }
  Floats expected;
  const auto near = [](int i) { return (i - kTile / 2.0) / kTile; };  // in tiles, from the middle of the first
  for (int i = 0; i < kSide * kSide; ++i) {
    double y = 0;
    const int level = int(image[size_t(i)]);
    for (const int a : {0, 1})
      for (const int b : {0, 1}) {
        const double row = std::floor(near(i / kSide)) + a, column = std::floor(near(i % kSide)) + b;
        const double weight = (1 - std::abs(near(i / kSide) - row)) * (1 - std::abs(near(i % kSide) - column));
        const int tile = int(std::clamp(row, 0.0, 1.0)) * kGrid + int(std::clamp(column, 0.0, 1.0));
        y += weight * maps[size_t(tile)][size_t(level)];
      }
    expected.push_back(float(y));
  }
  const std::string equalization = layer("ContrastLimitedAdaptiveHistogramEqualization",
                                         R"("name": "e", "clip_limit": 40, "tile_grid_size": [2, 2])");
  const Floats found = outputs_of(file_graph(model_of("4, 4, 1", equalization), {}), image);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-2) << i;  // sums of 256, times 255
}

}  // namespace
}  // namespace nacre::tools
