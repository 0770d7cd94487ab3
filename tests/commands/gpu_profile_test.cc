// Tests times per step of a program on a simulated GPU, by its clock: nacre run --profile and nacre bench --profile,
// in this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ports/cuda/cuda_port.h"
#include "tests/fake/fake_driver.h"
#include "tests/model/builder.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/commands/bench/bench.h"
#include "tools/commands/bench/profile_table.h"
#include "tools/commands/run/run.h"
#include "tools/evaluate/program_report.h"
#include "tools/model/gpu.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

const void* const kSimulatedModules[] = {fake::FakeDriver::module()};

class gpu_profile : public testing::Test {
 protected:
  gpu_profile() {
    const ToolRun run =
        run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", path_, "--target", "cuda/sm90"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    use_gpu(&driver_.driver(), kSimulatedModules);
  }
  ~gpu_profile() override {
    use_gpu(nullptr, {});
    EXPECT_EQ(driver_.held(), 0u);
    EXPECT_EQ(driver_.broken(), 0u);
  }

  // Expects a time by the GPU's clock for every step, and the sum of these times for the graph.
  static void expect_times(const Json& profile, const LoadedModel& model) {
    const ProgramReport report(model, 0);
    ASSERT_EQ(profile["steps"].size(), report.steps().size());
    double sum = 0;
    for (size_t i = 0; i < report.steps().size(); ++i) {
      const Json& step = profile["steps"][i];
      EXPECT_EQ(step["step"], i);
      EXPECT_EQ(step["op"], report.steps()[i].op_name);
      const uint32_t layer = report.steps()[i].layer;
      EXPECT_EQ(step["layer"], layer == kNoIndex ? "" : report.layers()[layer].name);
      EXPECT_EQ(step["clock"], "gpu");
      EXPECT_TRUE(std::string(step["kernel"]).starts_with("cuda/" + report.steps()[i].op_name)) << step;
      EXPECT_GT(step["us"], 1);
      EXPECT_FALSE(step.contains("roof_us"));
      sum += double(step["us"]);
    }
    EXPECT_NEAR(double(profile["gpu_us"]), sum, 1e-3);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "gpu.nacre";
  fake::FakeDriver driver_;
};

TEST_F(gpu_profile, run_says_the_time_and_the_kernel_of_every_step) {
  RunOptions options;
  options.model = path_, options.target = "cuda/sm90", options.inputs.seed = 1, options.profile = options.json = true;
  testing::internal::CaptureStdout();
  run(options, {});
  const Json report = Json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(report["kernels"], "reference+cuda");
  expect_times(report["profile"], LoadedModel(path_));
  options.json = false;
  testing::internal::CaptureStdout();
  run(options, {});
  const std::string text = testing::internal::GetCapturedStdout();
  for (const char* part : {"cuda/conv2d_f32", "cuda/dense_f32",
                           "on the GPU, by its clock and without copies: ", "as one graph; its steps one by one "})
    EXPECT_TRUE(has(text, part)) << part << text;
  EXPECT_FALSE(has(text, "roof: ")) << text;
}

TEST_F(gpu_profile, bench_says_them_too) {
  BenchOptions options;
  options.model = path_, options.warmup_ms = options.least_ms = 0, options.runs = 2;
  options.profile = options.json = true;
  testing::internal::CaptureStdout();
  bench(options);
  expect_times(Json::parse(testing::internal::GetCapturedStdout())["profile"], LoadedModel(path_));
}

TEST_F(gpu_profile, a_step_that_the_host_runs_has_the_hosts_time) {
  std::vector<uint8_t> bytes = read_bytes(path_);
  uint32_t on_host = 2;
  {
    const LoadedModel model(bytes, "whole", "");
    ASSERT_GT(model.model().steps().size(), on_host + 1);
    const auto* const at = reinterpret_cast<const uint8_t*>(&model.model().steps()[on_host].place);
    const auto* const first = reinterpret_cast<const uint8_t*>(model.model().steps().data());
    const auto found = std::search(bytes.begin(), bytes.end(), first, first + sizeof(StepRecord));
    ASSERT_NE(found, bytes.end());
    found[at - first] = 0;
    test::repair(std::as_writable_bytes(std::span(bytes)));
  }
  const LoadedModel model(bytes, "mixed", "");
  const BoundProgram bound(model, 0, ports_for(model, 0, "auto"), nullptr);
  const Profile found = profile(bound, 3, [] {});
  ASSERT_EQ(found.steps.size(), model.model().steps().size());
  for (const StepProfile& step : found.steps) {
    EXPECT_EQ(step.on_gpu, step.step != on_host);
    EXPECT_EQ(step.kernel.starts_with("cuda/"), step.on_gpu) << step.kernel;
    EXPECT_GT(step.us, 0);
  }
  EXPECT_GT(found.gpu_us, 0);
  const Json report = profile_json(model, 0, found);
  EXPECT_FALSE(report["steps"][on_host].contains("clock"));
}

// Process n of one machine takes GPU n; after the last GPU the first one follows again.
TEST(gpu_choice, is_the_one_that_was_made) {
  fake::FakeDriver three({.devices = 3});
  for (const uint32_t number : {2u, 1u, 5u, 3u, 0u}) {
    choose_gpu(number);
    use_gpu(&three.driver(), kSimulatedModules);
    EXPECT_TRUE(gpu_is_here());
    EXPECT_EQ(three.opened(), int(number % 3)) << number;
    EXPECT_EQ(gpu_is_own(), number < 3) << number;
    use_gpu(nullptr, {});
  }
  EXPECT_EQ(three.held(), 0u);
}

TEST_F(gpu_profile, a_call_that_fails_is_one_error_and_leaves_no_event) {
  const LoadedModel model(path_);
  const BoundProgram bound(model, 0, ports_for(model, 0, "auto"), nullptr);
  EXPECT_GT(profile(bound, 1, [] {}).gpu_us, 0);
  const uint64_t held = driver_.held();
  for (const char* symbol : {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime_v2", "cuLaunchKernel"}) {
    driver_.fail(symbol, 1);
    EXPECT_THROW(profile(bound, 1, [] {}), Error) << symbol;
    EXPECT_TRUE(driver_.failed()) << symbol;
    EXPECT_EQ(driver_.held(), held) << symbol;
  }
  EXPECT_GT(profile(bound, 1, [] {}).gpu_us, 0);
}

}  // namespace
}  // namespace nacre::tools
