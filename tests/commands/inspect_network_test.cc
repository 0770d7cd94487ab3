// Tests nacre inspect on a network file, which is a dry run of the conversion. Also tests which rewrites of nacre
// convert can be left out, by the model's steps and its outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <numbers>

#include "tests/importers/keras_builder.h"
#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

using Texts = std::vector<std::string>;

Json parsed(const ToolRun& run) { return Json::parse(run.out); }

// ---- The dry run

TEST(inspect_network, says_what_convert_would_make_and_writes_nothing) {
  const TemporaryDirectory folder;
  const std::string network = folder / "digits.onnx", model = folder / "digits.nacre";
  std::filesystem::copy_file(project_path("tools/samples/digits.onnx"), network);
  const ToolRun text = run_tool({"inspect", network}, {.directory = folder.path().string()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "ONNX, opset ") && has(text.out, "it converts: everything in it is supported")) << text.out;
  const Json found = parsed(run_tool({"inspect", network, "--json", "--batch", "2"}));
  EXPECT_EQ(folder.entries(), 1u);
  const Json made = parsed(run_tool({"convert", network, "-o", model, "--batch", "2", "--json"}));
  for (const char* fact : {"layers", "steps", "batch", "multiply_accumulates", "weight_bytes", "arena_bytes"})
    EXPECT_EQ(found["model"][fact], made[fact]) << fact;
  EXPECT_EQ(found["log"].dump(), made["log"].dump());
  EXPECT_FALSE(found["log"].empty());
  EXPECT_EQ(found["format"], "ONNX");
  EXPECT_EQ(found["inputs"][0]["name"], "pixels");
  EXPECT_EQ(found["inputs"][0]["shape"].text().substr(0, 7), "[batch,");
  EXPECT_EQ(found["outputs"].size(), 1u);
  EXPECT_EQ(found["parameters"], 20939);  // 20,746 are trained; the others belong to batch norms
  EXPECT_TRUE(found["converts"].get<bool>() && found["unsupported"].empty());
  EXPECT_GE(found["operators"]["Conv"].get<int>(), 1);
}

TEST(inspect_network, counts_layers_whose_inputs_are_rounded_at_run_time) {
  const TemporaryDirectory folder;
  constexpr int kFloat = 1, kInt8 = 3;  // ONNX's TensorProto
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.codes("w", {2, 2}, {1, 2, 3, 4}, kInt8);
  b.codes("wz", {}, {0}, kInt8);
  b.floats("ws", {}, {0.5f});
  b.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  b.node("MatMulInteger", {"q", "w", "z", "wz"}, {"i"});
  b.node("Mul", {"s", "ws"}, {"scales"});
  b.node("Cast", {"i"}, {"f"}).integer("to", kFloat);
  b.node("Mul", {"f", "scales"}, {"y"});
  b.output("y");
  write_bytes(folder / "net.onnx", b.finish());
  const ToolRun run = run_tool({"inspect", folder / "net.onnx"});
  EXPECT_TRUE(has(run.out, "weights     int8 in 1 of ")) << run.out;
  EXPECT_EQ(parsed(run_tool({"inspect", folder / "net.onnx", "--json"}))["model"]["hybrid_layers"], 1);
}

OnnxBuilder unsupported_network() {
  OnnxBuilder b;
  b.input("x", {1, 3, 0, 0}, {"", "", "height", "width"});
  b.filled("w", {2, 3, 3, 3}, 1);
  b.node("Conv", {"x", "w"}, {"c"});
  b.node("Mystery", {"c"}, {"m"});
  b.node("MatMulInteger", {"m", "m"}, {"d"});
  b.node("Riddle", {"d"}, {"y"}).domain("own");
  b.output("y");
  return b;
}

TEST(inspect_network, lists_everything_that_is_not_supported_with_code_4) {
  const TemporaryDirectory folder;
  const std::string network = folder / "net.onnx";
  write_bytes(network, unsupported_network().finish());
  const auto things = [&](const Texts& options, size_t count) {
    Texts words = {"inspect", network, "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 4) << run.err;
    const Json found = parsed(run);
    EXPECT_FALSE(found["converts"].get<bool>());
    EXPECT_EQ(found["unsupported"].size(), count) << found["unsupported"].dump();
    EXPECT_TRUE(has(run.err, std::to_string(count) + " things are not supported")) << run.err;
    EXPECT_EQ(found["operators"]["own.Riddle"], 1);
    EXPECT_EQ(found["parameters"], 54);
    return found["unsupported"].dump();
  };
  const std::string all = things({}, 5), fixed = things({"--shape", "x=1x3x8x8"}, 3);
  for (const char* name : {"axis 2", "axis 3", "m_node (Mystery)", "d_node (MatMulInteger)", "y_node (Riddle)"})
    EXPECT_TRUE(has(all, name)) << name;
  EXPECT_FALSE(has(fixed, "axis"));
  const ToolRun text = run_tool({"inspect", network});
  EXPECT_EQ(text.exit_code, 4);
  EXPECT_TRUE(has(text.out, "not supported:\n  input x: axis 2")) << text.out;
  const ToolRun converted = run_tool({"convert", network, "-o", folder / "m.nacre"});
  EXPECT_EQ(converted.exit_code, 4);
  EXPECT_TRUE(has(converted.err, "5 things are not supported")) << converted.err;
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(inspect_network, a_broken_file_has_code_3) {
  const TemporaryDirectory folder;
  std::vector<uint8_t> whole = read_bytes(project_path("tools/samples/digits.onnx"));
  whole.resize(whole.size() - 7);
  write_bytes(folder / "cut.onnx", whole);
  write_bytes(folder / "cut.tflite", {28, 0, 0, 0, 'T', 'F', 'L', '3', 0, 0, 0, 0});
  write_bytes(folder / "cut.keras", {'P', 'K', 3, 4, 20, 0, 0, 0});
  for (const char* name : {"cut.onnx", "cut.tflite", "cut.keras"}) {
    const ToolRun run = run_tool({"inspect", folder / name});
    EXPECT_EQ(run.exit_code, 3) << name << run.err;
    EXPECT_TRUE(run.out.empty() && run.err.starts_with("nacre: ")) << run.err;
  }
}

TEST(inspect_network, a_keras_file_is_summarised_by_its_layers) {
  const TemporaryDirectory folder;
  const std::string network = folder / "net.keras";
  const auto write = [&](const char* class_name) {
    const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x", "dtype": "float32"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 3}},
      {"class_name": ")" + std::string(class_name) +
                               R"(", "config": {"name": "last"}}]}})";
    write_bytes(network, keras_archive(config, {{"layers/dense/vars/0", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                                {"layers/dense/vars/1", {3}, {1, 2, 3}}}));
    return run_tool({"inspect", network, "--json"});
  };
  const ToolRun known = write("ReLU"), unknown = write("Hologram");
  EXPECT_EQ(known.exit_code, 0) << known.err;
  EXPECT_EQ(unknown.exit_code, 4) << unknown.err;
  for (const ToolRun* run : {&known, &unknown}) {
    const Json found = parsed(*run);
    EXPECT_EQ(found["format"], "Keras");
    EXPECT_EQ(found["producer"], "keras 3.15.1");
    EXPECT_EQ(found["parameters"], 9);
    EXPECT_EQ(found["operators"]["Dense"], 1);
    EXPECT_EQ(found["inputs"][0]["shape"], "[?, 2]");
  }
  EXPECT_EQ(parsed(known)["outputs"][0]["shape"], "[1, 3]");
}

TEST(inspect_network, options_of_the_other_kind_of_file_are_refused) {
  const TemporaryDirectory folder;
  const std::string network = project_path("tools/samples/digits.onnx"), model = folder / "digits.nacre";
  EXPECT_EQ(run_tool({"convert", network, "-o", model}).exit_code, 0);
  for (const Texts& words : {Texts{network, "--steps"}, Texts{network, "--target", "host"},
                             Texts{model, "--batch", "2"}, Texts{model, "--io-layout", "nhwc"}}) {
    Texts line = {"inspect"};
    line.insert(line.end(), words.begin(), words.end());
    const ToolRun run = run_tool(line);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_TRUE(run.err.starts_with("nacre: " + words[1] + ": is about a ")) << run.err;
  }
}

// ---- Rewrites that can be left out

// Makes a network z = relu((conv(x) + 0.3) / 3), followed by a gelu of z that is written with erf.
std::string network_with_rewrites(const TemporaryDirectory& folder) {
  OnnxBuilder b;
  b.input("x", {1, 2, 2, 2});
  b.counted("w", {2, 2, 1, 1});
  b.filled("bias", {2}, 0.1f);
  b.filled("more", {1, 2, 1, 1}, 0.3f);
  b.node("Conv", {"x", "w", "bias"}, {"c"});
  b.node("Add", {"c", "more"}, {"sum"});
  for (const auto& [name, number] :
       {std::pair{"three", 3.0f}, {"root", std::numbers::sqrt2_v<float>}, {"one", 1.0f}, {"half", 0.5f}})
    b.filled(name, {1}, number);
  b.node("Div", {"sum", "three"}, {"third"});
  b.node("Relu", {"third"}, {"z"});
  b.node("Div", {"z", "root"}, {"scaled"});
  b.node("Erf", {"scaled"}, {"erf"});
  b.node("Add", {"erf", "one"}, {"shifted"});
  b.node("Mul", {"z", "shifted"}, {"product"});
  b.node("Mul", {"product", "half"}, {"y"});
  b.output("y");
  write_bytes(folder / "net.onnx", b.finish());
  return folder / "net.onnx";
}

TEST(kept_rewrites, leave_the_steps_of_the_file_and_are_in_no_log) {
  const TemporaryDirectory folder;
  const std::string network = network_with_rewrites(folder), model = folder / "m.nacre";
  const auto made = [&](const std::string& kept) {
    Texts words = {"convert", network, "-o", model, "--no-fuse", "--json"};
    if (!kept.empty()) words.insert(words.end(), {"--keep", kept});
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const Json steps = parsed(run_tool({"inspect", model, "--json"}))["programs"][0]["steps"];
    Texts ops;
    for (const Json& step : steps.elements()) ops.push_back(step["op"].text());
    return std::pair(ops, parsed(run)["log"].dump());
  };
  const auto holds = [](const Texts& ops, const char* op) { return std::ranges::find(ops, op) != ops.end(); };
  const auto [usual, log] = made("");
  EXPECT_TRUE(holds(usual, "gelu") && !holds(usual, "unary") && !holds(usual, "binary") && !holds(usual, "add"));
  EXPECT_TRUE(has(log, "made one gelu of the steps before y_node (mul)")) << log;
  EXPECT_TRUE(has(log, "third_node (Div): division by a constant")) << log;
  EXPECT_TRUE(has(log, "folded sum_node (add) into c_node (conv2d)")) << log;
  const auto [gelu, no_gelu] = made("gelu");
  EXPECT_TRUE(holds(gelu, "unary") && !holds(gelu, "gelu") && !has(no_gelu, "one gelu"));
  const auto [division, no_division] = made("division");
  EXPECT_TRUE(holds(division, "binary") && !has(no_division, "division by a constant"));
  const auto [bias, no_bias] = made("bias");
  EXPECT_TRUE(holds(bias, "add") && !has(no_bias, "folded sum_node"));
  const auto [all, none] = made("division,gelu,bias");
  EXPECT_TRUE(holds(all, "binary") && holds(all, "unary") && holds(all, "add"));
  EXPECT_EQ(run_tool({"convert", network, "-o", model, "--keep", "everything"}).exit_code, 2);
}

// The network is hard_swish(silu(x)), with the steps that exporters write.
TEST(kept_rewrites, activations_stay_the_steps_of_the_file) {
  const TemporaryDirectory folder;
  OnnxBuilder b;
  b.input("x", {1, 8});
  for (const auto& [name, number] : {std::pair{"three", 3.0f}, {"low", 0.0f}, {"high", 6.0f}, {"sixth", 1.0f / 6}})
    b.filled(name, {}, number);
  b.node("Sigmoid", {"x"}, {"gate"});
  b.node("Mul", {"x", "gate"}, {"silu"});
  b.node("Add", {"silu", "three"}, {"sum"});
  b.node("Clip", {"sum", "low", "high"}, {"bounded"});
  b.node("Mul", {"silu", "bounded"}, {"product"});
  b.node("Mul", {"product", "sixth"}, {"y"});
  b.output("y");
  write_bytes(folder / "net.onnx", b.finish());
  const std::string model = folder / "m.nacre";
  const auto steps = [&](const Texts& kept) {
    Texts words = {"convert", folder / "net.onnx", "-o", model, "--no-fuse"};
    words.insert(words.end(), kept.begin(), kept.end());
    EXPECT_EQ(run_tool(words).exit_code, 0);
    const Json read = parsed(run_tool({"inspect", model, "--json"}))["programs"][0]["steps"];
    std::string ops;
    for (const Json& step : read.elements()) ops += step["op"].text() + ' ';
    return ops;
  };
  EXPECT_EQ(steps({}), "silu hard_swish ");
  EXPECT_EQ(steps({"--keep", "silu"}), "sigmoid mul hard_swish ");
  EXPECT_EQ(steps({"--keep", "hard_swish"}), "silu add clamp mul mul ");
}

// 1 / 3 is rounded, so 5 (1 / 3) is another float32 than 5 / 3.
TEST(kept_rewrites, a_division_that_is_kept_gives_the_quotient) {
  const TemporaryDirectory folder;
  OnnxBuilder b;
  b.input("x", {64});
  b.filled("c", {1}, 3);
  b.node("Div", {"x", "c"}, {"y"});
  b.output("y");
  write_bytes(folder / "net.onnx", b.finish());
  std::vector<float> x, quotients, products;
  for (int i = 1; i <= 64; ++i)
    x.push_back(float(i)), quotients.push_back(float(i) / 3), products.push_back(float(i) * (1.0f / 3));
  ASSERT_NE(quotients, products);
  std::vector<uint8_t> bytes(x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  write_bytes(folder / "x.bin", bytes);
  const auto run = [&](const Texts& kept) {
    Texts words = {"convert", folder / "net.onnx", "-o", folder / "m.nacre"};
    words.insert(words.end(), kept.begin(), kept.end());
    EXPECT_EQ(run_tool(words).exit_code, 0);
    EXPECT_EQ(run_tool({"run", folder / "m.nacre", "--kernels", "reference", "--input", "x=" + (folder / "x.bin"),
                        "--output", folder / "out"})
                  .exit_code,
              0);
    const std::vector<uint8_t> file = read_bytes((folder.path() / "out" / "y.npy").string());
    std::vector<float> y(64);
    std::memcpy(y.data(), file.data() + file.size() - y.size() * sizeof(float), y.size() * sizeof(float));
    return y;
  };
  EXPECT_EQ(run({}), products);
  EXPECT_EQ(run({"--keep", "division"}), quotients);
}

}  // namespace
}  // namespace nacre::tools
