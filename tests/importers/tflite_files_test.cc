// Tests import_tflite on whole files: real networks, all refusals at once, and bad input.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/importers/tflite_builder.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/importers/importer.h"

namespace nacre::tools::tflite {
namespace {

namespace fs = std::filesystem;

fs::path shared() { return shared_path(""); }

std::vector<uint8_t> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> networks() {
  std::vector<fs::path> paths;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(shared() / "models/mlperf_tiny", absent))
    if (entry.path().extension() == ".tflite") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(import_tflite_files, every_network_of_mlperf_tiny_imports) {
  const std::vector<fs::path> paths = networks();
  if (paths.empty()) GTEST_SKIP() << "no networks in " << shared();
  EXPECT_EQ(paths.size(), 11u);
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    const Graph graph = import_tflite(read(path), path.filename().string());
    check(graph);
    EXPECT_EQ(graph.inputs.size(), 1u);
    EXPECT_EQ(graph.layers.size(), graph.nodes.size());  // these need no helping nodes
    for (const Node& node : graph.nodes)
      for (const ValueId y : node.outputs) EXPECT_TRUE(graph.values[size_t(y)].batched);
  }
}

TEST(import_tflite_files, shapes_are_those_that_tensorflow_lite_micro_computes) {
  if (networks().empty()) GTEST_SKIP() << "no networks in " << shared();
  int compared = 0;
  for (const fs::path& path : networks()) {
    std::ifstream file(shared() / "golden/tflite_layers" / (path.stem().string() + ".s1") / "index.json");
    if (!file) continue;
    const Graph graph = import_tflite(read(path), path.filename().string());
    const auto index = nacre::tools::Json::parse(file);
    ASSERT_EQ(index.size(), graph.nodes.size()) << path;
    for (size_t i = 0; i < index.size(); ++i) {
      const Value& y = graph.values[size_t(graph.nodes[i].outputs[0])];
      EXPECT_EQ(y.name, index[i]["name"].get<std::string>());
      EXPECT_EQ(y.dims, index[i]["shape"].get<std::vector<int64_t>>()) << y.name;
      EXPECT_EQ(y.quantizer.has_value(), index[i]["type"] == "int8");
      ++compared;
    }
  }
  EXPECT_EQ(compared, 138);  // tensors of 8 networks
}

TEST(import_tflite_files, a_batch_of_seven_reaches_every_layer) {
  for (const fs::path& path : networks()) {
    const Graph one = import_tflite(read(path), "n"), seven = import_tflite(read(path), "n", {.batch = 7});
    check(seven);
    ASSERT_EQ(one.values.size(), seven.values.size());
    for (size_t i = 0; i < one.values.size(); ++i) {
      std::vector<int64_t> dims = one.values[i].dims;
      if (one.values[i].batched) dims[0] *= 7;
      EXPECT_EQ(seven.values[i].dims, dims) << path << ' ' << one.values[i].name;
    }
  }
}

TEST(import_tflite_files, the_hybrid_keyword_network_has_five_layers_with_int8_filters) {
  const fs::path path = shared() / "models/mlperf_tiny/kws_ref_model_float32.tflite";
  if (!fs::exists(path)) GTEST_SKIP() << "no networks in " << shared();
  int hybrid = 0;
  for (const Layer& layer : import_tflite(read(path), "kws").layers) {
    const bool dynamic = layer.policy.quantization == Quantization::kInt8Dynamic;
    EXPECT_EQ(dynamic, layer.source_op == "CONV_2D");
    EXPECT_EQ(layer.policy.activation_zero, 0);
    hybrid += dynamic;
  }
  EXPECT_EQ(hybrid, 5);
}

// ---- Refusals ----

Error refused(const std::vector<uint8_t>& file) {
  try {
    import_tflite(file, "bad.tflite");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "the file was accepted";
  return {kSuccess, "", ""};
}

TEST(import_tflite_files, all_that_is_not_supported_is_reported_at_once) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), p = b.activation("first", {1, 4}), q = b.activation("second", {1, 4});
  const int r = b.tensor({.name = "third",
                          .type = TensorType::COMPLEX64,
                          .shape = {1, 4},
                          .data = {},
                          .codes = {{1}, {0}, 0},
                          .signature = {}});
  const int y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::BITCAST, {x}, {p});
  b.custom("ethos-u", {p}, {q});
  b.op(BuiltinOperator::QUANTIZE, {q}, {r});
  b.op(BuiltinOperator::TANH, {r}, {y});
  const Error error = refused(b.finish({x}, {y}));
  EXPECT_EQ(error.code, kUnsupported);
  EXPECT_STREQ(error.what(),
               "bad.tflite: 3 things are not supported, of 4 operators:\n"
               "    first (BITCAST): an operator that the engine does not have\n"
               "    second (CUSTOM ethos-u): an operator that the engine does not have\n"
               "    third (QUANTIZE): has element type COMPLEX64");
}

// Some of the hash table operators have no output.
TEST(import_tflite_files, operators_without_output_are_reported_with_the_others) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), state = b.activation("state", {}), y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::HASHTABLE_IMPORT, {}, {});
  b.op(BuiltinOperator::HASHTABLE, {}, {state});
  b.op(BuiltinOperator::HASHTABLE_IMPORT, {state, x}, {});
  b.op(BuiltinOperator::TANH, {x}, {y});
  const Error error = refused(b.finish({x}, {y}));
  EXPECT_EQ(error.code, kUnsupported);
  EXPECT_STREQ(error.what(),
               "bad.tflite: 3 things are not supported, of 4 operators:\n"
               "    operator 0 (HASHTABLE_IMPORT): an operator that the engine does not have\n"
               "    state (HASHTABLE): an operator that the engine does not have\n"
               "    operator 2 (HASHTABLE_IMPORT): an operator that the engine does not have");
}

// Operators after an unsupported one are checked with the codes that the file declares for its outputs.
TEST(import_tflite_files, codes_behind_what_is_not_supported_are_those_of_the_file) {
  TfliteBuilder b;
  const int x =
      b.tensor({.name = "x", .type = TensorType::FLOAT16, .shape = {1, 4}, .data = {}, .codes = {}, .signature = {}});
  const int p = b.activation("p", {1, 4}, 0.5f, 0), y = b.activation("y", {1, 2}, 0.5f, 0);
  b.op(BuiltinOperator::BITCAST, {x}, {p});
  b.op(BuiltinOperator::FULLY_CONNECTED, {p, b.codes("w", {2, 4}, std::vector<int8_t>(8, 1), {{1}, {0}, 0}), -1}, {y},
       CreateFullyConnectedOptions(b.fbb()));
  EXPECT_STREQ(refused(b.finish({x}, {y})).what(),
               "bad.tflite: 2 things are not supported, of 2 operators:\n"
               "    input x: is a float16 input\n"
               "    p (BITCAST): an operator that the engine does not have");
}

// The file's shapes have a 1 for an open size. A later shape that does not fit because of it is not reported again.
TEST(import_tflite_files, open_sizes_beyond_the_batch_are_reported) {
  TfliteBuilder b;
  const int x = b.tensor({.name = "x", .shape = {1, 1, 4}, .data = {}, .codes = {}, .signature = {-1, -1, 4}});
  const int p = b.activation("p", {1, 1, 4}), y = b.activation("y", {1, 5});
  b.op(BuiltinOperator::BITCAST, {x}, {p});
  b.op(BuiltinOperator::FULLY_CONNECTED, {p, b.floats("w", {2, 12}, std::vector<float>(24, 1)), -1}, {y},
       CreateFullyConnectedOptions(b.fbb()));
  const Error error = refused(b.finish({x}, {y}));
  EXPECT_EQ(error.code, kUnsupported);
  EXPECT_STREQ(error.what(),
               "bad.tflite: 2 things are not supported, of 2 operators:\n"
               "    input x: axis 1 has no fixed size: export it with a fixed shape\n"
               "    p (BITCAST): an operator that the engine does not have");
}

// make() returns a file that is wrong in one way. `says` is part of the refusal.
struct Wrong {
  const char* says;
  ExitCode code;
  std::vector<uint8_t> (*make)();
};

// Builds x -> TANH -> y, changed by `Change`.
template <auto Change>
std::vector<uint8_t> tanh_with() {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), y = b.activation("y", {1, 4});
  std::vector<int32_t> op_inputs = {x}, op_outputs = {y}, inputs = {x}, outputs = {y};
  Change(b, op_inputs, op_outputs, inputs, outputs);
  b.op(BuiltinOperator::TANH, op_inputs, op_outputs);
  return b.finish(inputs, outputs);
}

using Ids = std::vector<int32_t>;

// Builds x [1, 2] -> FULLY_CONNECTED with the weights that `Weights` adds -> y [1, 2].
template <auto Weights>
std::vector<uint8_t> dense_with() {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 1, 0), y = b.activation("y", {1, 2}, 1, 0), w = Weights(b);
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
  return b.finish({x}, {y});
}

template <auto Options>
std::vector<uint8_t> conv_with() {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4, 4, 1}), y = b.activation("y", {1, 4, 4, 1}),
            w = b.floats("w", {1, 1, 1, 1}, {1});
  b.op(BuiltinOperator::CONV_2D, {x, w, -1}, {y}, Options(b));
  return b.finish({x}, {y});
}

std::vector<uint8_t> list_op(BuiltinOperator code, const std::vector<int32_t>& shape,
                             const std::vector<int32_t>& list) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), y = b.activation("y", {1, 4}), l = b.int32s("list", shape, list);
  b.op(code, {x, l}, {y});
  return b.finish({x}, {y});
}

const Wrong kWrong[] = {
    {"names tensor 9, which does not exist", kBadInput,
     &tanh_with<[](TfliteBuilder&, Ids& in, Ids&, Ids&, Ids&) { in = {9}; }>},
    {"names tensor -2, which does not exist", kBadInput,
     &tanh_with<[](TfliteBuilder&, Ids&, Ids&, Ids& in, Ids&) { in = {-2}; }>},
    {"has no output", kBadInput, &tanh_with<[](TfliteBuilder&, Ids&, Ids& out, Ids&, Ids&) { out = {}; }>},
    {"has no output", kBadInput, &tanh_with<[](TfliteBuilder&, Ids&, Ids&, Ids&, Ids& out) { out = {}; }>},
    {"input 0 is missing", kBadInput, &tanh_with<[](TfliteBuilder&, Ids& in, Ids&, Ids&, Ids&) { in = {-1}; }>},
    {"reads x before it is written", kBadInput, &tanh_with<[](TfliteBuilder&, Ids&, Ids&, Ids& in, Ids&) { in = {}; }>},
    {"is two inputs", kBadInput, &tanh_with<[](TfliteBuilder&, Ids&, Ids&, Ids& in, Ids&) { in = {0, 0}; }>},
    {"writes x a second time", kBadInput, &tanh_with<[](TfliteBuilder&, Ids&, Ids& out, Ids&, Ids&) { out = {0}; }>},
    {"reads y, which it writes", kBadInput, &tanh_with<[](TfliteBuilder&, Ids& in, Ids&, Ids&, Ids&) { in = {1}; }>},
    {"is an output that no operator writes", kBadInput,
     &tanh_with<[](TfliteBuilder& b, Ids&, Ids&, Ids&, Ids& out) { out = {b.activation("z", {1})}; }>},
    {"is of schema version 4, only 3 is known", kUnsupported,
     &tanh_with<[](TfliteBuilder& b, Ids&, Ids&, Ids&, Ids&) { b.version = 4; }>},
    {"the file gives its output shape [1, 5], the operator computes [1, 4]", kBadInput,
     &tanh_with<[](TfliteBuilder& b, Ids&, Ids& out, Ids&, Ids& outputs) {
       out = outputs = {b.activation("z", {1, 5})};
     }>},
    {"has a dimension of -7", kBadInput,
     &tanh_with<[](TfliteBuilder& b, Ids& op, Ids&, Ids& in, Ids&) { op = in = {b.activation("z", {1, -7})}; }>},
    {"has shape [1, 2147483647]", kUnsupported,
     &tanh_with<[](TfliteBuilder& b, Ids& op, Ids&, Ids& in, Ids&) { op = in = {b.activation("z", {1, INT32_MAX})}; }>},
    {"has no elements", kBadInput,
     &tanh_with<[](TfliteBuilder& b, Ids& op, Ids&, Ids& in, Ids&) { op = in = {b.activation("z", {1, 0})}; }>},
    {"z: has 9 axes, more than 8, which is not supported", kUnsupported,
     &tanh_with<[](TfliteBuilder& b, Ids& op, Ids&, Ids& in, Ids&) {
       op = in = {b.activation("z", {1, 1, 1, 1, 1, 1, 1, 1, 1})};
     }>},
    {"1 thing is not supported, of 1 operators:\n    input z: is a variable that lives between runs", kUnsupported,
     &tanh_with<[](TfliteBuilder& b, Ids& op, Ids&, Ids& in, Ids&) {
       op = in = {b.tensor({.name = "z", .shape = {1, 4}, .data = {}, .codes = {}, .signature = {}, .variable = true})};
     }>},
    {"has 4 bytes of data, its shape [2, 2] needs 16", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.floats("w", {2, 2}, {1}); }>},
    {"3 scales along axis 0 of shape [2, 2]", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1, 1, 1}, {0, 0, 0}, 0}); }>},
    {"2 scales but 3 zero points", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1, 1}, {0, 0, 0}, 0}); }>},
    {"w: a scale is not a positive, normal, finite number", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{-1}, {0}, 0}); }>},
    {"w: a scale is not a positive, normal, finite number", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1, 1e-40f}, {0, 0}, 0}); }>},
    {"a zero point is outside the range of the codes", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1}, {128}, 0}); }>},
    {"weights with a zero point", kUnsupported,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1}, {1}, 0}); }>},
    {"float32 weights under quantized activations", kUnsupported,
     &dense_with<[](TfliteBuilder& b) { return b.floats("w", {2, 2}, {1, 2, 3, 4}); }>},
    {"an input of shape [1, 2] for weights of shape [2, 3]", kBadInput,
     &dense_with<[](TfliteBuilder& b) { return b.codes("w", {2, 3}, {1, 2, 3, 4, 5, 6}, {{1}, {0}, 0}); }>},
    {"a stride, dilation or kernel size is not positive", kBadInput,
     &conv_with<[](TfliteBuilder& b) { return CreateConv2DOptions(b.fbb(), Padding::SAME, 0, 1); }>},
    {"a window over 2^14", kUnsupported,
     &conv_with<[](TfliteBuilder& b) { return CreateConv2DOptions(b.fbb(), Padding::SAME, 1 << 30, 1); }>},
    {"padding is neither SAME nor VALID", kBadInput,
     &conv_with<[](TfliteBuilder& b) { return CreateConv2DOptions(b.fbb(), Padding(7), 1, 1); }>},
    {"fused activation 5", kUnsupported, &conv_with<[](TfliteBuilder& b) {
       return CreateConv2DOptions(b.fbb(), Padding::SAME, 1, 1, Activation::SIGN_BIT);
     }>},
    {"has no options of its kind", kBadInput, &conv_with<[](TfliteBuilder& b) { return CreateMulOptions(b.fbb()); }>},
    {"a target shape with two open sizes", kBadInput, [] { return list_op(BuiltinOperator::RESHAPE, {2}, {-1, -1}); }},
    {"for 4 elements", kBadInput, [] { return list_op(BuiltinOperator::RESHAPE, {2}, {3, -1}); }},
    {"for 4 elements", kBadInput, [] { return list_op(BuiltinOperator::RESHAPE, {3}, {65536, 65536, 65536}); }},
    {"for 4 elements", kBadInput, [] { return list_op(BuiltinOperator::RESHAPE, {2}, {0, 4}); }},
    {"axis 2 of a tensor with 2 axes", kBadInput, [] { return list_op(BuiltinOperator::TRANSPOSE, {2}, {0, 2}); }},
    {"a permutation of 1 axes for 2", kBadInput, [] { return list_op(BuiltinOperator::TRANSPOSE, {1}, {0}); }},
    {"axis 5 of a tensor with 2 axes", kBadInput, [] { return list_op(BuiltinOperator::MEAN, {1}, {5}); }},
    {"3 paddings for 2 axes", kBadInput, [] { return list_op(BuiltinOperator::PAD, {3}, {0, 0, 0}); }},
    {"a negative padding", kBadInput, [] { return list_op(BuiltinOperator::PAD, {4}, {0, 0, -1, 0}); }},
    {"padding of 2147483647", kBadInput, [] { return list_op(BuiltinOperator::PAD, {4}, {0, 0, INT32_MAX, 0}); }},
};

TEST(import_tflite_files, each_fault_has_its_own_sentence) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.says);
    const Error error = refused(wrong.make());
    EXPECT_EQ(error.code, wrong.code) << error.what();
    EXPECT_NE(std::string(error.what()).find(wrong.says), std::string::npos) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("bad.tflite: ")) << error.what();
  }
}

// Builds a network with a few operators of different kinds.
std::vector<uint8_t> small_network() {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4, 4, 1}, 0.5f, 0), c = b.activation("c", {1, 2, 2, 2}, 0.5f, -128),
            r = b.activation("r", {1, 8}, 0.5f, -128);
  const int y = b.activation("y", {1, 2}, 0.25f, 0);
  const int w = b.codes("w", {2, 3, 3, 1}, std::vector<int8_t>(18, 3), {{0.1f, 0.2f}, {0, 0}, 0});
  const int bias = b.int32s("b", {2}, {5, 6}, {{0.05f, 0.1f}, {0, 0}, 0}), target = b.int32s("target", {2}, {-1, 8});
  const int f = b.codes("f", {2, 8}, std::vector<int8_t>(16, -2), {{0.1f}, {0}, 0});
  b.op(BuiltinOperator::CONV_2D, {x, w, bias}, {c},
       CreateConv2DOptions(b.fbb(), Padding::SAME, 2, 2, Activation::RELU));
  b.op(BuiltinOperator::RESHAPE, {c, target}, {r}, CreateReshapeOptions(b.fbb()));
  b.op(BuiltinOperator::FULLY_CONNECTED, {r, f, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
  return b.finish({x}, {y});
}

TEST(import_tflite_files, a_truncated_file_is_refused_at_every_length) {
  const std::vector<uint8_t> file = small_network();
  check(import_tflite(file, "whole"));
  int accepted = 0;  // a cut may lie after the last byte that is read
  for (size_t length = 0; length < file.size(); ++length) {
    const std::vector<uint8_t> cut(file.begin(), file.begin() + std::ptrdiff_t(length));
    try {
      check(import_tflite(cut, "cut"));
      ++accepted;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code == kBadInput || error.code == kUnsupported) << length << ": " << error.what();
    }
  }
  EXPECT_LE(accepted, 8);
}

TEST(import_tflite_files, any_flipped_bit_gives_a_valid_graph_or_one_error) {
  const std::vector<uint8_t> file = small_network();
  for (size_t i = 0; i < file.size() * 8; ++i) {
    std::vector<uint8_t> flipped = file;
    flipped[i / 8] = uint8_t(flipped[i / 8] ^ 1 << i % 8);
    try {
      check(import_tflite(flipped, "flipped"));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code == kBadInput || error.code == kUnsupported) << i << ": " << error.what();
    }
  }
}

TEST(import_tflite_files, bytes_need_no_alignment) {
  const std::vector<uint8_t> file = small_network();
  std::vector<uint8_t> moved(file.size() + 1);
  std::copy(file.begin(), file.end(), moved.begin() + 1);
  EXPECT_EQ(dump(import_tflite(std::span(moved).subspan(1), "n"), true), dump(import_tflite(file, "n"), true));
}

TEST(import_tflite_files, one_buffer_serves_many_tensors) {
  // 1,000 layers read the same 4 kB of weights, which the graph holds once.
  TfliteBuilder b;
  const int w = b.floats("w", {32, 32}, std::vector<float>(1024, 1));
  int x = b.activation("x", {1, 32});
  const int first = x;
  for (int i = 0; i < 1000; ++i) {
    const int y = b.activation("y", {1, 32});
    b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
    x = y;
  }
  const Graph graph = import_tflite(b.finish({first}, {x}), "deep");
  EXPECT_EQ(graph.nodes.size(), 1000u);
  EXPECT_EQ(graph.values[size_t(graph.nodes[0].inputs[1])].data, graph.values[size_t(graph.nodes[999].inputs[1])].data);
}

TEST(import_tflite_files, tensors_of_one_buffer_are_parameters_of_their_own) {
  TfliteBuilder b;
  const int w = b.floats("w", {4, 4}, std::vector<float>(16, 1));  // buffer 1
  const int v = b.tensor({.name = "v", .shape = {4, 4}, .data = {}, .codes = {}, .signature = {}, .buffer = 1});
  int x = b.activation("x", {1, 4});
  const int first = x;
  for (const int weights : {w, v, w}) {
    const int y = b.activation("y", {1, 4});
    b.op(BuiltinOperator::FULLY_CONNECTED, {x, weights, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
    x = y;
  }
  const Graph graph = import_tflite(b.finish({first}, {x}), "three", {.train = true});
  const auto weights = [&](size_t node) { return graph.nodes[node].inputs[1]; };
  EXPECT_EQ(weights(0), weights(2));
  EXPECT_NE(weights(0), weights(1));
  EXPECT_EQ(graph.values[size_t(weights(0))].data, graph.values[size_t(weights(1))].data);
}

}  // namespace
}  // namespace nacre::tools::tflite
