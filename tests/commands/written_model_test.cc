// Tests that convert checks its model as nacre check does, before it writes the file.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

std::vector<uint8_t> dense_network(float weight) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.floats("w", {2, 2}, {1, 2, weight, 4});
  b.node("MatMul", {"x", "w"}, {"y"});
  b.output("y");
  return b.finish();
}

// Builds a DequantizeLinear of weights with a scale per channel, and a QuantizeLinear with one scale.
std::vector<uint8_t> quantized_network(float per_axis, float per_tensor) {
  OnnxBuilder b;
  b.input("x", {1, 2});
  b.floats("s", {}, {per_tensor});
  b.codes("z", {}, {0});
  b.codes("w_q", {2, 2}, {1, 2, 3, 4});
  b.floats("w_s", {2}, {1, per_axis});
  b.codes("w_z", {2}, {0, 0});
  b.node("QuantizeLinear", {"x", "s", "z"}, {"x_q"});
  b.node("DequantizeLinear", {"x_q", "s", "z"}, {"x_d"});
  b.node("DequantizeLinear", {"w_q", "w_s", "w_z"}, {"w"}).integer("axis", 0);
  b.node("Gemm", {"x_d", "w"}, {"y"}).integer("transB", 1);
  b.output("y");
  return b.finish();
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNoNumber = std::numeric_limits<float>::quiet_NaN();

TEST(written_model, is_one_that_check_takes_or_there_is_none) {
  const struct {
    const char* what;
    std::vector<uint8_t> file;
    std::vector<std::string> options;
    int code;
    const char* said;
  } cases[] = {
      {"an infinite weight as codes",
       dense_network(kInfinity),
       {"--policy", "int8/weights_from_float32"},
       3,
       "w has inf at element 1, which has no code"},
      {"a weight that is no number", dense_network(kNoNumber), {}, 3, "w has nan at element 1, which no weight may be"},
      {"a denormal scale per channel",
       quantized_network(1e-40f, 0.5f),
       {},
       3,
       "a scale is not a positive, normal, finite number"},
      {"a denormal scale", quantized_network(1, 1e-40f), {}, 3, "a scale is not a positive, normal, finite number"},
      {"a scale of 0", quantized_network(0, 1), {}, 3, "a scale is not a positive, normal, finite number"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const TemporaryDirectory folder;
    write_bytes(folder / "n.onnx", c.file);
    std::vector<std::string> arguments = {"convert", folder / "n.onnx", "-o", folder / "m.nacre"};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, c.code) << run.err;
    EXPECT_NE(run.err.find(c.said), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("defect"), std::string::npos) << run.err;
    EXPECT_EQ(folder.entries(), 1u);
  }
}

// Tests casts at run time, as the first step and after others, also under policies of other types.
TEST(written_model, casts_between_the_types_that_the_import_takes) {
  const int kTypes[] = {::onnx::TensorProto::INT8, ::onnx::TensorProto::UINT8, ::onnx::TensorProto::INT32,
                        ::onnx::TensorProto::INT64, ::onnx::TensorProto::BOOL};
  for (const int type : kTypes)
    for (const bool first : {true, false})
      for (const char* policy : {"float32", "float16", "mixed_bfloat16", "float64"}) {
        SCOPED_TRACE(std::to_string(type) + (first ? " from, " : " to and back, ") + policy);
        OnnxBuilder b;
        b.input("x", {1, 2}, {}, first ? type : int(::onnx::TensorProto::FLOAT));
        b.floats("w", {2, 2}, {1, 2, 3, 4});
        if (!first) {
          b.node("MatMul", {"x", "w"}, {"h"});
          b.node("Cast", {"h"}, {"i"}).integer("to", type);
        }
        b.node("Cast", {first ? "x" : "i"}, {"r"}).integer("to", ::onnx::TensorProto::FLOAT);
        b.node("MatMul", {"r", "w"}, {"y"});
        b.output("y");
        const TemporaryDirectory folder;
        write_bytes(folder / "n.onnx", b.finish());
        const ToolRun run = run_tool({"convert", folder / "n.onnx", "-o", folder / "m.nacre", "--policy", policy});
        EXPECT_EQ(run.exit_code, 0) << run.err;
        EXPECT_EQ(run_tool({"check", folder / "m.nacre"}).exit_code, 0);
      }
}

// A weight's name may fit, while the longer name of its scales, which exists in the model file only, does not.
TEST(written_model, a_name_over_the_limit_is_said_as_the_limit) {
  for (const size_t length : {4090u, 4091u, 4096u}) {
    const std::string name(length, 'w');
    OnnxBuilder b;
    b.input("x", {1, 2});
    b.floats("one", {}, {1});
    b.codes("zero", {}, {0});
    b.codes("c", {2, 2}, {1, 2, 3, 4});
    b.floats("s", {2}, {1, 2});
    b.codes("z", {2}, {0, 0});
    b.node("QuantizeLinear", {"x", "one", "zero"}, {"x_q"});
    b.node("DequantizeLinear", {"x_q", "one", "zero"}, {"x_d"});
    b.node("DequantizeLinear", {"c", "s", "z"}, {name}).integer("axis", 0);
    b.node("Gemm", {"x_d", name}, {"h"}).integer("transB", 1);
    b.node("QuantizeLinear", {"h", "one", "zero"}, {"y_q"});
    b.node("DequantizeLinear", {"y_q", "one", "zero"}, {"y"});
    b.output("y");
    const TemporaryDirectory folder;
    write_bytes(folder / "n.onnx", b.finish());
    const ToolRun run = run_tool({"convert", folder / "n.onnx", "-o", folder / "m.nacre"});
    EXPECT_EQ(run.exit_code, length == 4090 ? 0 : 4) << run.err;
    EXPECT_EQ(run.err.find("a model holds at most 4,096") == std::string::npos, length == 4090) << run.err;
    EXPECT_EQ(run_tool({"convert", folder / "n.onnx", "-o", folder / "m.nacre", "--strip-names"}).exit_code, 0);
  }
}

// Frameworks cast such a weight. The tool stores the largest number of the type, and names the layer.
TEST(written_model, says_which_weight_is_beyond_its_type) {
  const TemporaryDirectory folder;
  const std::string network = folder / "n.onnx", model = folder / "m.nacre";
  write_bytes(network, dense_network(1e38f));
  const ToolRun run = run_tool({"convert", network, "-o", model, "--policy", "float16"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("w has 1 number beyond float16, the first 1e+38 at element 1: they become 65504"),
            std::string::npos)
      << run.err;
  EXPECT_EQ(run_tool({"check", model}).exit_code, 0);
}

// A language model's causal mask, as exported, adds the lowest float32 to the scores before softmax.
TEST(written_model, takes_a_causal_mask_in_every_type) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  OnnxBuilder b;
  b.input("x", {1, 3, 3});
  b.floats("w", {3, 3}, {1, 0.5f, -2, 0.25f, 1, 3, -1, 2, 0.5f});
  b.floats("mask", {1, 3, 3}, {0, kLowest, kLowest, 0, 0, kLowest, 0, 0, 0});
  b.node("MatMul", {"x", "w"}, {"scores"});
  b.node("Add", {"scores", "mask"}, {"masked"});
  b.node("Softmax", {"masked"}, {"y"});
  b.output("y");
  const TemporaryDirectory folder;
  const std::string network = folder / "n.onnx", model = folder / "m.nacre", x = folder / "x.npy";
  write_bytes(network, b.finish());
  NpyArray input = {.type = ElementType::kFloat32, .dims = {1, 3, 3}, .data = std::vector<uint8_t>(36)};
  const float numbers[9] = {0.5f, -1, 2, 1, 1, 1, -3, 0.25f, 4};
  std::memcpy(input.data.data(), numbers, sizeof numbers);
  write_npy(x, input);
  for (const char* policy :
       {"float32", "float64", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16", "int8_from_float32",
        "int8_from_mixed_bfloat16", "int8/weights_from_mixed_float16", "float8/current_from_mixed_bfloat16"}) {
    const ToolRun made = run_tool({"convert", network, "-o", model, "--policy", policy});
    ASSERT_EQ(made.exit_code, 0) << policy << made.err;
    EXPECT_EQ(made.err.find("beyond"), std::string::npos) << policy << made.err;  // a mask keeps its meaning
    EXPECT_EQ(run_tool({"check", model}).exit_code, 0) << policy;
    const ToolRun run = run_tool({"run", model, "--input", "x=" + x, "--output", folder / "out"});
    ASSERT_EQ(run.exit_code, 0) << policy << run.err;
    const std::vector<float> y = read_npy(folder / "out/y.npy").values<float>();
    for (size_t r = 0; r < 3; ++r) {
      float sum = 0;
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_TRUE(c <= r || y[3 * r + c] == 0) << policy << ' ' << r << ' ' << c;
        sum += y[3 * r + c];
      }
      EXPECT_NEAR(sum, 1, 0.02) << policy << ' ' << r;  // three roundings to bfloat16
    }
    std::filesystem::remove_all(folder / "out");
    std::filesystem::remove(model);
  }
}

}  // namespace
}  // namespace nacre::tools
