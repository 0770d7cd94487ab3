// Tests models for a GPU: every step is placed on the GPU. Without a GPU the tool refuses in one sentence, and runs the
// same file on the host on request.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/model/gpu.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

class gpu_target : public testing::Test {
 protected:
  std::string convert(const std::string& name, std::vector<std::string> more) {
    const std::string path = directory_ / name;
    std::vector<std::string> words = {"convert", project_path("tools/samples/digits.onnx"), "-o", path};
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return path;
  }

  static bool all_on_gpu(const LoadedModel& model) {
    return std::ranges::all_of(model.model().steps(), [](const StepRecord& step) { return step.place == kGpuPlace; });
  }

  const TemporaryDirectory directory_;
};

TEST_F(gpu_target, every_step_is_the_gpus_and_the_rest_of_the_file_the_hosts) {
  const LoadedModel gpu(convert("gpu.nacre", {"--target", "cuda/sm90"})), host(convert("host.nacre", {}));
  EXPECT_TRUE(all_on_gpu(gpu));
  EXPECT_EQ(gpu.program_names(0).target, "cuda/sm90");
  ASSERT_EQ(gpu.model().steps().size(), host.model().steps().size());
  EXPECT_FALSE(names_place(host.model(), host.model().program(0), kGpuPlace));
  const LoadedModel training(convert("train.nacre", {"--train", "softmax_cross_entropy", "--target", "cuda/sm90"}));
  EXPECT_TRUE(all_on_gpu(training));
  EXPECT_GT(training.model().program_count(), 2u);
}

TEST_F(gpu_target, without_a_gpu_it_is_one_sentence_that_says_what_runs) {
  if (gpu_is_here()) GTEST_SKIP() << "the sentence is of machines without a GPU, and this one has one";
  const std::string model = convert("gpu.nacre", {"--target", "cuda/sm90"});
  for (const char* command : {"run", "bench"}) {
    const ToolRun run = run_tool({command, model});
    EXPECT_EQ(run.exit_code, 4) << run.err;
    EXPECT_TRUE(run.err.starts_with("nacre: cuda: ")) << run.err;
    EXPECT_TRUE(has(run.err, "--kernels reference")) << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 2) << run.err;  // the sentence and its remedy
  }
  const ToolRun check = run_tool({"check", model});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_TRUE(has(check.out, "measured for cuda/sm90, not bound here")) << check.out;
  const std::string training = convert("train.nacre", {"--train", "softmax_cross_entropy", "--target", "cuda/sm90"});
  const ToolRun tune = run_tool({"tune", training, "--data", project_path("tools/samples/digits_images.npy"),
                                 "--labels", project_path("tools/samples/digits_labels.npy"), "--cast-samples",
                                 "--epochs", "1", "-o", directory_ / "tuned.nacre"});
  EXPECT_EQ(tune.exit_code, 4) << tune.err;
  EXPECT_TRUE(has(tune.err, "nacre: cuda: ")) << tune.err;
}

TEST_F(gpu_target, tf32_is_for_programs_of_a_gpu) {
  const ToolRun host = run_tool({"run", convert("host.nacre", {}), "--kernels", "tf32"});
  EXPECT_NE(host.exit_code, 0);
  EXPECT_TRUE(has(host.err, "--kernels tf32")) << host.err;
  EXPECT_TRUE(has(host.err, "--target cuda/sm80")) << host.err;
  if (gpu_is_here()) return;
  const ToolRun gpu = run_tool({"run", convert("gpu.nacre", {"--target", "cuda/sm90"}), "--kernels", "tf32"});
  EXPECT_TRUE(gpu.err.starts_with("nacre: cuda: ")) << gpu.err;
}

TEST_F(gpu_target, the_same_file_runs_on_the_host_with_the_bytes_of_a_hosts_file) {
  const std::string gpu = convert("gpu.nacre", {"--target", "cuda/sm90"}), host = convert("host.nacre", {});
  std::vector<uint8_t> outputs[2];
  for (const std::string* model : {&gpu, &host}) {
    const std::string folder = directory_ / (model == &gpu ? "from_gpu" : "from_host");
    const ToolRun run = run_tool({"run", *model, "--seed", "3", "--kernels", "reference", "--output", folder});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const std::vector<uint8_t> bytes = read_bytes(file.path().string());
      outputs[model == &host].insert(outputs[model == &host].end(), bytes.begin(), bytes.end());
    }
  }
  EXPECT_FALSE(outputs[0].empty());
  EXPECT_EQ(outputs[0], outputs[1]);
}

}  // namespace
}  // namespace nacre::tools
