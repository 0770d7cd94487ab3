// Tests nacre inspect --target cuda/..: the memory and time that any model would take on a GPU, as text and as JSON.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run_tool.h"
#include "tools/base/json.h"

namespace nacre::tools {
namespace {

class gpu_advice_command : public testing::Test {
 protected:
  std::string convert(const std::string& name, std::vector<std::string> more) {
    const std::string path = directory_ / name;
    std::vector<std::string> words = {"convert", project_path("tools/samples/digits.onnx"), "-o", path};
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return path;
  }
  static ToolRun inspected(const std::string& model, const std::string& target, bool json = false) {
    std::vector<std::string> words = {"inspect", model, "--target", target};
    if (json) words.emplace_back("--json");
    ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run;
  }
  static Json estimate(const std::string& model, const std::string& target) {
    return Json::parse(inspected(model, target, true).out)["gpu"];
  }

  const TemporaryDirectory directory_;
};

TEST_F(gpu_advice_command, the_times_of_layers_and_the_rest_are_those_of_a_run) {
  const Json gpu = estimate(convert("host.nacre", {}), "cuda/sm90");
  EXPECT_EQ(gpu["target"], "cuda/sm90");
  EXPECT_EQ(gpu["card"], "H200");
  EXPECT_TRUE(has(gpu["how"].get<std::string>(), "estimated, not measured"));
  double sum = gpu["copies_us"].get<double>() + gpu["other_us"].get<double>();
  ASSERT_GT(gpu["layers"].size(), 2u);
  for (const Json& layer : gpu["layers"]) {
    sum += layer["policy_us"].get<double>();
    EXPECT_EQ(layer["passes"], 1);
    EXPECT_EQ(layer["slower_in_float8"].get<bool>(), layer["float8_us"] > layer["half_us"]);
  }
  EXPECT_NEAR(gpu["gpu_us"].get<double>(), sum, 1e-9);
  EXPECT_EQ(gpu["place"], gpu["host_us"] <= gpu["gpu_us"] ? "host" : "gpu");
  EXPECT_EQ(gpu["place"], "host") << "a network of so few operations";
}

TEST_F(gpu_advice_command, a_file_for_the_gpu_and_one_for_the_host_get_the_same_advice) {
  const std::string host = convert("host.nacre", {"--policy", "mixed_bfloat16"});
  const std::string gpu = convert("gpu.nacre", {"--policy", "mixed_bfloat16", "--target", "cuda/sm90"});
  EXPECT_EQ(estimate(host, "cuda/sm90"), estimate(gpu, "cuda/sm90"));
}

TEST_F(gpu_advice_command, the_text_has_a_line_for_a_layer_and_for_each_piece_of_advice) {
  const std::string model = convert("bf16.nacre", {"--policy", "mixed_bfloat16", "--batch", "4"});
  const Json gpu = estimate(model, "cuda/sm90");
  const std::string text = inspected(model, "cuda/sm90").out;
  EXPECT_TRUE(has(text, "cuda/sm90 (H200), estimated, not measured")) << text;
  EXPECT_TRUE(has(text, "rows x features x terms")) << text;
  EXPECT_TRUE(has(text, "\nplace   " + gpu["verdict"].get<std::string>() + "\n")) << text;
  EXPECT_TRUE(has(text, "\nfloat8  slower than bfloat16 in ")) << text;
  size_t advice = 0;
  for (const Json& layer : gpu["layers"])
    for (const Json& sentence : layer["advice"]) {
      ++advice;
      const std::string line = layer["layer"].get<std::string>() + ": " + sentence.get<std::string>();
      EXPECT_TRUE(has(text, "\nadvice  " + line + "\n")) << line;
    }
  EXPECT_GT(advice, 0u) << "10 features are no multiple of 8";
  EXPECT_TRUE(has(text, "10 features are no multiple of 8, as Tensor Cores take bfloat16: pad to 16")) << text;
}

TEST_F(gpu_advice_command, targets_without_bfloat16_or_float8_say_so) {
  const std::string model = convert("bf16.nacre", {"--policy", "mixed_bfloat16"});
  const std::string turing = inspected(model, "cuda/sm75").out;
  EXPECT_TRUE(has(turing, "bfloat16 has no Tensor Cores before cuda/sm80: mixed_float16 ")) << turing;
  EXPECT_FALSE(has(turing, "float8")) << turing;
  EXPECT_TRUE(estimate(model, "cuda/sm75")["layers"][0]["float8_us"].is_null());
  const std::string training = convert(
      "train.nacre", {"--train", "softmax_cross_entropy", "--batch", "32", "--policy", "float8/16_from_float32"});
  const std::string ampere = inspected(training, "cuda/sm80").out;
  EXPECT_TRUE(has(ampere, "float8 has no Tensor Cores before cuda/sm89: mixed_bfloat16 ")) << ampere;
  const std::string hopper = inspected(training, "cuda/sm90").out;
  EXPECT_TRUE(has(hopper, "float8 is slower than bfloat16, ")) << hopper;
  EXPECT_TRUE(has(hopper, "a training step of 32 rows")) << hopper;
}

TEST_F(gpu_advice_command, other_targets_get_none_and_unknown_ones_are_refused) {
  const std::string model = convert("host.nacre", {});
  EXPECT_FALSE(has(run_tool({"inspect", model}).out, "estimated"));
  EXPECT_FALSE(Json::parse(run_tool({"inspect", model, "--json"}).out).contains("gpu"));
  const ToolRun run = run_tool({"inspect", model, "--target", "cuda/sm70"});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(has(run.err, "it has: host")) << run.err;
}

}  // namespace
}  // namespace nacre::tools
