// Runs nacre convert on networks to train: tests an optimizer's field, the types of inputs and outputs, constants that
// do not train, and comparisons.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/commands/convert_digits.h"
#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

using namespace convert_digits;

using Json = nacre::tools::Json;

// Copies the first rows of an array to another file.
void copy_rows(const std::string& from, const std::string& to, int64_t rows) {
  NpyArray array = read_npy(from);
  array.data.resize(array.data.size() / size_t(array.dims[0]) * size_t(rows));
  array.dims[0] = rows;
  write_npy(to, array);
}

// A field of --optimizer becomes an attribute of every step that updates a parameter.
TEST(convert, writes_where_an_optimizer_adds_its_epsilon) {
  const TemporaryDirectory directory;
  const std::string model = directory / "m.nacre";
  for (const char* name : {"rmsprop", "adagrad"})
    for (const int in_root : {0, 1}) {
      const ToolRun run = run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model, "--train",
                                    "softmax_cross_entropy", "--optimizer",
                                    std::string(name) + ",epsilon_in_root=" + std::to_string(in_root)});
      ASSERT_EQ(run.exit_code, 0) << run.err;
      const Json programs = Json::parse(run_tool({"inspect", model, "--json"}).out)["programs"];
      int found = 0;
      for (const Json& program : programs)
        for (const Json& step : program["steps"])
          if (step["op"] == name) {
            EXPECT_EQ(step["attributes"]["epsilon_in_root"], in_root);
            ++found;
          }
      EXPECT_GT(found, 0) << name;
    }
}

// In the written model, each program takes the image, and gives the probabilities, in the types in which the policy's
// first and last layers compute. The model must learn.
TEST(convert, trains_with_inputs_and_outputs_in_the_types_of_the_policy) {
  const TemporaryDirectory directory;
  const std::string model = directory / "m.nacre", x = directory / "x.npy", y = directory / "y.npy";
  copy_rows(project_path("tools/samples/digits_images.npy"), x, 96);
  copy_rows(project_path("tools/samples/digits_labels.npy"), y, 96);
  const std::pair<const char*, ElementType> policies[] = {{"bfloat16", ElementType::kBfloat16},
                                                          {"float64", ElementType::kFloat64},
                                                          {"mixed_bfloat16", ElementType::kBfloat16},
                                                          {"int8_from_float32", ElementType::kFloat32},
                                                          {"float8_from_float32", ElementType::kFloat32}};
  for (const auto& [policy, type] : policies)
    for (const std::string update : {"step", "immediate"}) {
      if (nacre::test::sanitized() && type != ElementType::kBfloat16) continue;
      const std::string what = std::string(policy) + " " + update;
      const ToolRun run =
          run_tool({"convert", kDigits, "-o", model, "--train", "softmax_cross_entropy", "--policy", policy,
                    "--io-types", "policy", "--optimizer", "sgd", "--update", update, "--batch", "8"});
      ASSERT_EQ(run.exit_code, 0) << what << run.err;
      const LoadedModel made(model);
      int images = 0, probabilities = 0;
      for (uint32_t program = 0; program < made.model().program_count(); ++program) {
        const ProgramView view = made.model().program(program);
        const ProgramNames names = made.program_names(program);
        const auto expect_type = [&](std::span<const uint32_t> ids, const std::vector<std::string>& all,
                                     const char* name, int* found) {
          for (size_t i = 0; i < ids.size(); ++i) {
            if (all[i] != name) continue;
            ++*found;
            EXPECT_EQ(made.model().tensors()[ids[i]].element, type) << what << ' ' << name;
          }
        };
        expect_type(view.inputs, names.inputs, "pixels", &images);
        expect_type(view.outputs, names.outputs, "probabilities", &probabilities);
      }
      EXPECT_EQ(images, 2) << what;
      EXPECT_EQ(probabilities, update == "step" ? 2 : 1) << what;
      const ToolRun tuned = run_tool({"tune", model, "--data", x, "--labels", y, "--cast-samples", "--epochs", "3",
                                      "-o", directory / "t.nacre", "--json"});
      ASSERT_EQ(tuned.exit_code, 0) << what << tuned.err;
      const Json epochs = Json::parse(tuned.out)["epochs"];
      EXPECT_LT(epochs[2]["loss"].get<double>(), 0.5 * epochs[0]["loss"].get<double>()) << what;
      std::filesystem::remove(model);
    }
}

// Builds x [N, 2] -> five times mul by a factor g1 .. g5, tanh and a dense layer -> mul by a factor of one element.
std::vector<uint8_t> network_of_factors() {
  OnnxBuilder b;
  b.input("x", {0, 2}, {"N", ""});
  b.floats("one", {1}, {0.5f});
  std::string x = "x";
  for (int i = 1; i <= 5; ++i) {
    const std::string number = std::to_string(i);
    b.floats("g" + number, {2}, {0.5f, float(i)});
    b.floats("w" + number, {2, 2}, {1, 0.5f, -0.5f, 1});
    b.node("Mul", {x, "g" + number}, {"m" + number});
    b.node("Tanh", {"m" + number}, {"t" + number});
    b.node("MatMul", {"t" + number, "w" + number}, {x = "d" + number});
  }
  b.node("Mul", {x, "one"}, {"y"});
  b.output("y");
  return b.finish();
}

TEST(convert, says_what_is_not_trained) {
  const TemporaryDirectory directory;
  const std::string network = directory / "factors.onnx", model = directory / "m.nacre";
  write_bytes(network, network_of_factors());
  const std::string all = "\n  not trained: g1 (mul), g2 (mul), g3 (mul), g4 (mul) and 1 more\n";
  const auto converted = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"convert", network, "-o", model, "--train", "squared_error", "--batch", "2"};
    words.insert(words.end(), options.begin(), options.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  EXPECT_TRUE(has(converted({"--strip-names"}), all));
  EXPECT_TRUE(has(converted({}), all));
  EXPECT_EQ(Json::parse(converted({"--json"}))["not_trained"],
            (Json{"g1 (mul)", "g2 (mul)", "g3 (mul)", "g4 (mul)", "g5 (mul)"}));

  // The line comes before the first epoch, whether a model or a network is trained.
  const NpyArray rows = {
      .type = ElementType::kFloat32, .dims = {4, 2}, .data = std::vector<uint8_t>(4 * 2 * sizeof(float)), .place = ""};
  write_npy(directory / "rows.npy", rows);
  for (const bool of_model : {true, false}) {
    std::vector<std::string> words = {"tune",     of_model ? model : network, "--data",   directory / "rows.npy",
                                      "--labels", directory / "rows.npy",     "--epochs", "1",
                                      "-o",       directory / "tuned.nacre"};
    if (!of_model) words.insert(words.end(), {"--loss", "squared_error"});
    const ToolRun text = run_tool(words);
    EXPECT_LT(text.out.find(all.substr(3)), text.out.find("epoch   1")) << text.out << text.err;
    words.emplace_back("--json");
    const ToolRun json = run_tool(words);
    ASSERT_EQ(json.exit_code, 0) << json.err;
    EXPECT_EQ(Json::parse(json.out)["not_trained"].size(), 5u);
  }

  // The line leaves out constants that the user freezes. A network whose constants all train has no such line.
  EXPECT_FALSE(has(converted({"--lora", "1"}), "not trained"));
  EXPECT_FALSE(has(converted({"--train-layers", "d[0-9]_node"}), "not trained"));
  EXPECT_TRUE(has(converted({"--train-layers", "d[0-9]_node|m2_node"}), "\n  not trained: g2 (mul)\n"));
  EXPECT_FALSE(has(converted({"--train-last", "1"}), "not trained"));
  const ToolRun digits = run_tool({"convert", kDigits, "-o", model, "--train", "softmax_cross_entropy", "--json"});
  EXPECT_EQ(Json::parse(digits.out)["not_trained"], Json::array()) << digits.err;
}

// Builds x [N, 3, 2] -> scores between rows plus a causal mask -> softmax -> mixed rows -> a dense layer -> y.
std::vector<uint8_t> masked_network(float hidden) {
  OnnxBuilder b;
  b.input("x", {0, 3, 2}, {"N", "", ""});
  b.floats("mask", {3, 3}, {0, hidden, hidden, 0, 0, hidden, 0, 0, 0});
  b.floats("w", {2, 2}, {1, 0.5f, -0.5f, 1});
  b.floats("bias", {2}, {0.25f, -0.25f});
  b.node("Transpose", {"x"}, {"turned"}).ints("perm", {0, 2, 1});
  b.node("MatMul", {"x", "turned"}, {"scores"});
  b.node("Add", {"scores", "mask"}, {"masked"});
  b.node("Softmax", {"masked"}, {"shares"});
  b.node("MatMul", {"shares", "x"}, {"mixed"});
  b.node("MatMul", {"mixed", "w"}, {"d"});
  b.node("Add", {"d", "bias"}, {"y"});
  b.output("y");
  return b.finish();
}

TEST(convert, a_mask_that_is_added_is_no_parameter) {
  const TemporaryDirectory directory;
  const std::string network = directory / "masked.onnx", model = directory / "m.nacre";
  for (const float hidden : {-std::numeric_limits<float>::infinity(), -1e4f, std::numeric_limits<float>::lowest()}) {
    write_bytes(network, masked_network(hidden));
    const ToolRun run = run_tool({"convert", network, "-o", model, "--train", "squared_error", "--batch", "2"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(has(run.out, "\n  not trained: mask (add)\n")) << run.out;
    std::filesystem::remove(model);
  }
}

// y = h [h > 0], h = x w. The comparison has no gradient; h gets its gradient through the product.
TEST(convert, a_comparison_ends_the_gradient) {
  const TemporaryDirectory directory;
  const std::string network = directory / "gate.onnx", model = directory / "m.nacre";
  OnnxBuilder b;
  b.input("x", {0, 2}, {"N", ""});
  b.floats("w", {2, 2}, {1, 0.5f, -0.5f, 1});
  b.floats("zero", {}, {0});
  b.node("MatMul", {"x", "w"}, {"h"});
  b.node("Greater", {"h", "zero"}, {"above"});
  b.node("Cast", {"above"}, {"open"}).integer("to", 1);
  b.node("Mul", {"h", "open"}, {"y"});
  b.output("y");
  write_bytes(network, b.finish());
  const ToolRun run = run_tool({"convert", network, "-o", model, "--train", "squared_error", "--batch", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

}  // namespace
}  // namespace nacre::tools
