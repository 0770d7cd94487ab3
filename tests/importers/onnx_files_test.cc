// Tests import_onnx on bad input, on external data and on real files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/graph/run_graph.h"
#include "tests/importers/onnx_builder.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/files/input_file.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
using ::onnx::TensorProto;

fs::path shared() { return shared_path(""); }

std::vector<uint8_t> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string refusal(const std::vector<uint8_t>& file, ExitCode code, const ImportOptions& options = {},
                    const std::string& name = "test.onnx") {
  try {
    check(import_onnx(file, name, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the file was accepted";
  return "";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

OnnxBuilder small_network() {
  OnnxBuilder b;
  b.input("x", {1, 2, 4, 4});
  b.counted("w", {3, 2, 3, 3});
  b.node("Conv", {"x", "w"}, {"c"}).ints("pads", {1, 1, 1, 1});
  b.node("Relu", {"c"}, {"y"});
  b.output("y");
  return b;
}

// ---- Bytes

TEST(onnx_files, every_truncation_is_refused_or_whole) {
  const std::vector<uint8_t> file = small_network().finish();
  int refused = 0;
  for (size_t length = 0; length < file.size(); ++length) {
    try {
      check(import_onnx(std::span(file).first(length), "test.onnx"));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code == kBadInput || error.code == kUnsupported) << length << ": " << error.what();
      ++refused;
    }
  }
  // The opset import is the last field. Without it the importer does not know the operators, so every truncation is
  // refused.
  EXPECT_EQ(refused, int(file.size()));
}

TEST(onnx_files, every_flipped_byte_gives_a_graph_or_an_error) {
  const std::vector<uint8_t> file = small_network().finish();
  for (size_t i = 0; i < file.size(); ++i)
    for (const int bit : {0, 2, 7}) {
      std::vector<uint8_t> changed = file;
      changed[i] = uint8_t(changed[i] ^ (1 << bit));
      try {
        check(import_onnx(changed, "test.onnx"));
      } catch (const Error& error) {
        EXPECT_NE(error.code, kFailed) << "byte " << i << ", bit " << bit << ": " << error.what();
      }
    }
}

TEST(onnx_files, graphs_nested_deeper_than_the_limit_are_refused) {
  ::onnx::GraphProto graph;
  for (int depth = 0; depth < 40; ++depth) {
    ::onnx::GraphProto outer;
    auto& attribute = *outer.add_node()->add_attribute();
    attribute.mutable_g()->Swap(&graph);
    graph.Swap(&outer);
  }
  OnnxBuilder b = small_network();
  b.model().mutable_graph()->add_node()->add_attribute()->mutable_g()->Swap(&graph);
  EXPECT_TRUE(says(refusal(b.finish(), kBadInput), "cannot be read to the end"));
}

TEST(onnx_files, functions_that_call_themselves_are_refused) {
  OnnxBuilder b;
  b.model().add_opset_import()->set_domain("mine");
  b.input("x", {2});
  b.node("Loop", {"x"}, {"y"}).domain("mine");
  b.output("y");
  ::onnx::FunctionProto& f = *b.model().add_functions();
  f.set_name("Loop");
  f.set_domain("mine");
  f.add_input("a");
  f.add_output("c");
  OnnxBuilder body;
  body.node("Loop", {"a"}, {"c"}).domain("mine");
  *f.add_node() = body.model().graph().node(0);
  EXPECT_TRUE(says(refusal(b.finish(), kBadInput), "more than 16 deep"));
}

TEST(onnx_files, a_few_bytes_cannot_ask_for_gigabytes) {
  for (const int64_t side : {int64_t{1} << 15, int64_t{1} << 40}) {
    OnnxBuilder b;
    b.integers("shape", {2}, {side, side});
    b.node("ConstantOfShape", {"shape"}, {"c"});
    b.node("Relu", {"c"}, {"y"});
    b.output("y");
    refusal(b.finish(), kUnsupported);
  }
}

TEST(onnx_files, a_weight_with_too_few_bytes_is_refused_by_name) {
  OnnxBuilder b = small_network();
  b.model().mutable_graph()->mutable_initializer(0)->mutable_raw_data()->resize(10);
  EXPECT_TRUE(says(refusal(b.finish(), kBadInput), "w: has 10 bytes of data, its shape needs 216"));
}

TEST(onnx_files, a_name_that_nothing_writes_is_refused) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Add", {"x", "ghost"}, {"y"});
  b.output("y");
  EXPECT_TRUE(says(refusal(b.finish(), kBadInput), "y_node (Add): reads ghost"));
}

TEST(onnx_files, opsets_and_ir_versions_outside_the_known_ones_are_refused) {
  for (const int opset : {0, 29}) {
    OnnxBuilder b(opset);
    b.input("x", {2});
    b.node("Relu", {"x"}, {"y"});
    b.output("y");
    EXPECT_TRUE(says(refusal(b.finish(), kUnsupported), "uses opset " + std::to_string(opset)));
  }
  OnnxBuilder b = small_network();
  b.model().set_ir_version(99);
  EXPECT_TRUE(says(refusal(b.finish(), kUnsupported), "IR version 99"));
}

// ---- Unsupported files

TEST(onnx_files, everything_unsupported_is_listed_at_once) {
  OnnxBuilder b;
  b.model().add_opset_import()->set_domain("com.microsoft");
  b.input("x", {1, 2});
  b.node("MaxRoiPool", {"x"}, {"a"});
  b.node("Relu", {"a"}, {"r"});
  b.node("NGramRepeatBlock", {"r", "x"}, {"f"}).domain("com.microsoft");
  b.node("MatMulInteger", {"x", "x"}, {"m"});
  b.node("Sum", {"a", "f", "m"}, {"y"});
  b.output("y");
  const std::string text = refusal(b.finish(), kUnsupported);
  EXPECT_TRUE(says(text, "test.onnx: 3 things are not supported"));
  EXPECT_TRUE(says(text, "a_node (MaxRoiPool): this operator is not supported"));
  EXPECT_TRUE(says(text, "f_node (NGramRepeatBlock): is an operator of ONNX Runtime"));
  EXPECT_TRUE(says(text, "m_node (MatMulInteger): its first operand is not what DynamicQuantizeLinear gives"));
}

TEST(onnx_files, a_symbolic_size_other_than_the_batch_is_refused_with_a_remedy) {
  OnnxBuilder b;
  b.input("x", {1, 3, 0, 4}, {"N", "", "height", ""});
  b.node("Relu", {"x"}, {"y"});
  b.output("y");
  const std::string text = refusal(b.finish(), kUnsupported);
  EXPECT_TRUE(says(text, "axis 2 has no fixed size ('height')"));
  EXPECT_TRUE(says(text, "--shape height=N"));
}

TEST(onnx_files, a_fixed_batch_is_not_changed) {
  EXPECT_TRUE(says(refusal(small_network().finish(), kUsage, {.batch = 2}), "its batch is fixed"));
}

TEST(onnx_files, functions_of_real_numbers_are_none_of_integers) {
  OnnxBuilder b;
  b.input("x", {2}, {}, TensorProto::INT64);
  b.node("Exp", {"x"}, {"y"});
  b.output("y");
  EXPECT_TRUE(says(refusal(b.finish(), kUnsupported), "float32 only"));
}

// ---- External data

struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("nacre_onnx_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
                                   std::to_string(reinterpret_cast<uintptr_t>(this)));
  Folder() { fs::create_directories(path / "model"); }
  ~Folder() { fs::remove_all(path); }
};

OnnxBuilder with_external(const std::string& location, const std::string& offset = "", const std::string& length = "") {
  OnnxBuilder b;
  b.input("x", {2});
  b.floats("c", {2}, {0, 0});
  TensorProto& c = *b.model().mutable_graph()->mutable_initializer(0);
  c.clear_raw_data();
  c.set_data_location(TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", offset}, {"length", length}};
  for (const auto& [key, text] : entries) {
    if (text.empty()) continue;
    auto& entry = *c.add_external_data();
    entry.set_key(key);
    entry.set_value(text);
  }
  b.node("Add", {"x", "c"}, {"y"});
  b.output("y");
  return b;
}

void write_floats(const fs::path& path, const std::vector<float>& numbers) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), std::streamsize(4 * numbers.size()));
}

TEST(onnx_files, external_data_are_read_beside_the_model) {
  const Folder folder;
  write_floats(folder.path / "model" / "w.bin", {7, 8, 9});
  const Graph graph =
      import_onnx(with_external("w.bin", "4", "8").finish(), (folder.path / "model" / "m.onnx").string());
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 2})});
  EXPECT_EQ(reals(run.values[size_t(graph.outputs[0].value)]), (std::vector<float>{9, 11}));
}

// Returns a model with a Constant whose value is the tensor of with_external().
OnnxBuilder with_external_constant(const std::string& location) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Constant", {}, {"c"}).tensor("value", with_external(location).model().graph().initializer(0));
  b.node("Add", {"x", "c"}, {"y"});
  b.output("y");
  return b;
}

TEST(onnx_files, external_data_of_a_constant_are_read_as_those_of_an_initializer) {
  const Folder folder;
  write_floats(folder.path / "model" / "w.bin", {7, 8});
  write_floats(folder.path / "secret.bin", {7, 8});
  const std::string model = (folder.path / "model" / "m.onnx").string();
  const Graph graph = import_onnx(with_external_constant("w.bin").finish(), model);
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 2})});
  EXPECT_EQ(reals(run.values[size_t(graph.outputs[0].value)]), (std::vector<float>{8, 10}));
  EXPECT_TRUE(
      says(refusal(with_external_constant("../secret.bin").finish(), kBadInput, {}, model), "leaves the directory"));
  EXPECT_TRUE(says(refusal(with_external_constant("none.bin").finish(), kIo, {}, model), "cannot be read"));
}

TEST(onnx_files, external_data_are_files_of_the_network) {
  const Folder folder;
  const std::string model = (folder.path / "model" / "m.onnx").string(),
                    weights = (folder.path / "model" / "w.bin").string();
  OnnxBuilder inside, function;  // in a graph in a node, and in a function
  *inside.model().mutable_graph()->add_node()->add_attribute()->mutable_g() = with_external("w.bin").graph();
  *function.model().add_functions()->add_node() = with_external_constant("w.bin").graph().node(0);
  for (const OnnxBuilder& b : {with_external("w.bin"), with_external_constant("w.bin"), inside, function}) {
    const std::vector<uint8_t> bytes = b.finish();
    std::ofstream(model, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    EXPECT_EQ(files_of_network(model), (std::vector<std::string>{model, weights}));
  }
  EXPECT_EQ(files_of_network(weights), std::vector<std::string>{weights});
}

TEST(onnx_files, external_data_outside_the_model_s_folder_are_refused) {
  const Folder folder;
  write_floats(folder.path / "secret.bin", {7, 8});
  fs::create_symlink(folder.path / "secret.bin", folder.path / "model" / "link.bin");
  const std::string model = (folder.path / "model" / "m.onnx").string();
  const auto text = [&](const std::string& location) {
    return refusal(with_external(location).finish(), kBadInput, {}, model);
  };
  EXPECT_TRUE(says(text((folder.path / "secret.bin").string()), "is an absolute path"));
  EXPECT_TRUE(says(text("../secret.bin"), "leaves the directory"));
  EXPECT_TRUE(says(text("a/../../secret.bin"), "leaves the directory"));
  EXPECT_TRUE(says(text("..\\secret.bin"), "leaves the directory"));
  EXPECT_TRUE(says(text("C:\\secret.bin"), "is an absolute path"));
  EXPECT_TRUE(says(text("link.bin"), "leaves the directory"));
  EXPECT_TRUE(says(text(""), "no location"));
}

TEST(onnx_files, external_data_behind_a_link_are_those_of_the_first_reading) {
  const Folder folder;
  const fs::path link = folder.path / "model" / "w.bin";
  write_floats(folder.path / "model" / "first", {7, 8});
  write_floats(folder.path / "model" / "second", {9, 10});
  fs::remove(link);
  fs::create_symlink("first", link);
  const std::string model = (folder.path / "model" / "m.onnx").string();
  const std::vector<uint8_t> file = with_external("w.bin").finish();
  const auto values = [&] {
    const Graph graph = import_onnx(file, model);
    const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 2})});
    return reals(run.values[size_t(graph.outputs[0].value)]);
  };
  const CommandInputs inputs;
  const std::vector<float> first = values();
  EXPECT_EQ(first, (std::vector<float>{8, 10}));
  fs::remove(link);
  fs::create_symlink("second", link);
  EXPECT_EQ(values(), first);
  fs::remove(link);
  fs::remove(folder.path / "model" / "first");
  EXPECT_EQ(values(), first);
}

TEST(onnx_files, external_data_that_do_not_fit_are_refused) {
  const Folder folder;
  write_floats(folder.path / "model" / "w.bin", {7, 8});
  const std::string model = (folder.path / "model" / "m.onnx").string();
  EXPECT_TRUE(says(refusal(with_external("w.bin", "4").finish(), kBadInput, {}, model), "the tensor ends at 12"));
  EXPECT_TRUE(says(refusal(with_external("w.bin", "0", "4").finish(), kBadInput, {}, model), "its shape needs 8"));
  EXPECT_TRUE(
      says(refusal(with_external("w.bin", "99999999999999999999").finish(), kBadInput, {}, model), "not a number"));
  EXPECT_TRUE(says(refusal(with_external("none.bin").finish(), kIo, {}, model), "cannot be read"));
}

// ---- Real files

TEST(onnx_files, the_sample_becomes_one_layer_per_operator) {
  const std::vector<uint8_t> file = read(project_path("tools/samples/digits.onnx"));
  ASSERT_FALSE(file.empty());
  const Graph graph = import_onnx(file, "digits.onnx");
  check(graph);
  EXPECT_EQ(graph.inputs[0].name, "pixels");
  EXPECT_EQ(graph.inputs[0].layout, "NCHW");
  EXPECT_EQ(graph.outputs[0].name, "probabilities");
  EXPECT_EQ(graph.layers.size(), 21u);
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op == Op::kTranspose; }),
            1);
}

TEST(onnx_files, silero_is_imported_or_refused_with_its_whole_list) {
  const fs::path folder = shared() / "models" / "silero";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const Graph openvino = import_onnx(read(folder / "silero_vad_openvino_16k.onnx"), "silero.onnx");
  check(openvino);
  EXPECT_EQ(openvino.layers.size(), 36u);
  const std::string ifless = refusal(read(folder / "silero_vad_op18_ifless.onnx"), kUnsupported);
  EXPECT_TRUE(says(ifless, "('sequence')"));
  EXPECT_TRUE(says(ifless, "--shape sequence=N"));
  EXPECT_TRUE(says(ifless, "node_cond__1 (If)"));  // depends on the sampling rate, a run-time input
}

}  // namespace
}  // namespace nacre::tools
