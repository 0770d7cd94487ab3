// Tests one file for several targets: programs of each, weights and state once, and commands that choose a target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/model/gpu.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

class several_targets : public testing::Test {
 protected:
  ToolRun tried(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {"convert", project_path("tools/samples/digits.onnx"), "-o", directory_ / name};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  }
  std::string convert(const std::string& name, std::vector<std::string> more) {
    const ToolRun run = tried(name, std::move(more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return directory_ / name;
  }
  std::vector<uint8_t> outputs_of(std::vector<std::string> words) {
    const std::string folder = directory_ / fmt::format("out{}", runs_++);
    words.insert(words.end(), {"--seed", "3", "--output", folder});
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<uint8_t> outputs;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const std::vector<uint8_t> bytes = read_bytes(file.path().string());
      outputs.insert(outputs.end(), bytes.begin(), bytes.end());
    }
    return outputs;
  }

  const TemporaryDirectory directory_;
  int runs_ = 0;
};

std::vector<std::string> targets_of(const LoadedModel& model) {
  std::vector<std::string> targets;
  for (uint32_t i = 0; i < model.model().program_count(); ++i) targets.push_back(model.program_names(i).target);
  return targets;
}

TEST_F(several_targets, each_has_its_program_and_the_weights_are_there_once) {
  const LoadedModel one(convert("one.nacre", {"--target", "cuda/sm90"}));
  const LoadedModel all(convert("all.nacre", {"--target", "host,cuda/sm80,cuda/sm90"}));
  EXPECT_EQ(targets_of(all), (std::vector<std::string>{"host", "cuda/sm80", "cuda/sm90"}));
  EXPECT_EQ(all.weight_bytes(), one.weight_bytes());
  ASSERT_EQ(all.model().steps().size(), 3 * one.model().steps().size());
  for (uint32_t i = 0; i < 3; ++i) {
    const ProgramView view = all.model().program(i);
    EXPECT_EQ(names_place(all.model(), view, kGpuPlace), i > 0);
    EXPECT_EQ(view.banks[0], one.model().program(0).banks[0]);
  }
}

TEST_F(several_targets, a_training_model_has_one_state_for_all) {
  const std::vector<std::string> training = {"--train",  "softmax_cross_entropy", "--optimizer", "adam", "--batch", "8",
                                             "--policy", "mixed_bfloat16"};
  std::vector<std::string> several = training;
  several.insert(several.end(), {"--target", "cuda/sm80,host"});
  const LoadedModel one(convert("one.nacre", training)), two(convert("two.nacre", several));
  EXPECT_EQ(two.weight_bytes(), one.weight_bytes());
  for (const Region region : {Region::kState, Region::kStream, Region::kDerived, Region::kStep})
    EXPECT_EQ(two.model().region_bytes(region), one.model().region_bytes(region));
  EXPECT_EQ(two.model().program_count(), 2 * one.model().program_count());
  const Json size[] = {Json::parse(run_tool({"size", directory_ / "one.nacre", "--train", "--json"}).out),
                       Json::parse(run_tool({"size", directory_ / "two.nacre", "--train", "--json"}).out)};
  EXPECT_EQ(size[0]["total"], size[1]["total"]) << "of one target";
}

TEST_F(several_targets, equal_options_give_equal_bytes_and_stand_in_the_file) {
  const std::string a = convert("a.nacre", {"--target", "host,cuda/sm90", "--golden", "1"});
  const std::string b = convert("b.nacre", {"--target", "host,cuda/sm90", "--golden", "1"});
  EXPECT_EQ(read_bytes(a), read_bytes(b));
  const Json all = Json::parse(run_tool({"inspect", a, "--json"}).out);
  EXPECT_TRUE(has(all["metadata"]["converter_options"].get<std::string>(), "--target host,cuda/sm90")) << all;
  const ToolRun check = run_tool({"check", a});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_TRUE(has(check.out, "golden 0   ok")) << check.out;
}

TEST_F(several_targets, commands_take_the_programs_of_the_target_that_is_named) {
  const std::string both = convert("both.nacre", {"--target", "cuda/sm90,host"}), host = convert("host.nacre", {});
  const std::vector<uint8_t> expected = outputs_of({"run", host, "--kernels", "reference"});
  EXPECT_EQ(outputs_of({"run", both, "--kernels", "reference"}), expected) << "the host's, without a GPU";
  EXPECT_EQ(outputs_of({"run", both, "--kernels", "reference", "--target", "cuda/sm90"}), expected);
  const ToolRun bench = run_tool({"bench", both, "--target", "host", "--runs", "1", "--min-ms", "0", "--json"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  if (gpu_is_here()) return;
  const ToolRun gpu = run_tool({"bench", both, "--target", "cuda/sm90"});
  EXPECT_EQ(gpu.exit_code, 4) << gpu.err;
  EXPECT_TRUE(gpu.err.starts_with("nacre: cuda: ")) << gpu.err;
}

TEST_F(several_targets, one_that_the_file_lacks_is_a_sentence_with_those_it_has) {
  const std::string both = convert("both.nacre", {"--target", "host,cuda/sm80"});
  for (const char* command : {"run", "bench"}) {
    const ToolRun run = run_tool({command, both, "--target", "cuda/sm90"});
    EXPECT_EQ(run.exit_code, 4) << run.err;
    EXPECT_TRUE(has(run.err, "--target cuda/sm90: ") && has(run.err, "it has: host, cuda/sm80")) << run.err;
  }
  const std::string training =
      convert("train.nacre", {"--train", "softmax_cross_entropy", "--target", "host,cuda/sm80"});
  const ToolRun tune = run_tool({"tune", training, "--data", project_path("tools/samples/digits_images.npy"),
                                 "--labels", project_path("tools/samples/digits_labels.npy"), "--cast-samples",
                                 "--epochs", "1", "--target", "cuda/sm90", "-o", directory_ / "tuned.nacre"});
  EXPECT_EQ(tune.exit_code, 4) << tune.err;
  EXPECT_TRUE(has(tune.err, "no training program for it") && has(tune.err, "it has: host, cuda/sm80")) << tune.err;
}

TEST_F(several_targets, tune_trains_with_the_programs_of_the_target) {
  const std::string both =
      convert("both.nacre", {"--train", "softmax_cross_entropy", "--target", "cuda/sm80,host", "--batch", "64"});
  const std::string host = convert("host.nacre", {"--train", "softmax_cross_entropy", "--batch", "64"});
  std::vector<std::string> losses;
  const std::vector<std::pair<std::string, std::string>> runs = {{host, "host"}, {both, "host"}, {both, "cuda/sm80"}};
  for (const auto& [model, target] : runs) {
    const ToolRun run =
        run_tool({"tune", model, "--data", project_path("tools/samples/digits_images.npy"), "--labels",
                  project_path("tools/samples/digits_labels.npy"), "--cast-samples", "--epochs", "1", "--kernels",
                  "reference", "--target", target, "--json", "-o", directory_ / "tuned.nacre"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    losses.push_back(Json::parse(run.out)["epochs"].dump());
    EXPECT_EQ(targets_of(LoadedModel(directory_ / "tuned.nacre")), std::vector<std::string>{target});
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST_F(several_targets, names_that_are_none_or_stand_twice_are_refused) {
  const ToolRun twice = tried("a.nacre", {"--target", "cuda/sm80,cuda/sm80"});
  EXPECT_EQ(twice.exit_code, 2) << twice.err;
  EXPECT_TRUE(has(twice.err, "names cuda/sm80 twice")) << twice.err;
  const ToolRun unknown = tried("b.nacre", {"--target", "host,cuda/sm70"});
  EXPECT_EQ(unknown.exit_code, 2) << unknown.err;
  EXPECT_TRUE(has(unknown.err, "'cuda/sm70' is not one of ")) << unknown.err;
  const ToolRun place = tried("c.nacre", {"--target", "host,cuda/sm80", "--tune"});
  EXPECT_EQ(place.exit_code, 2) << place.err;
  EXPECT_EQ(directory_.entries(), 0u);
}

TEST_F(several_targets, a_rounding_without_fast_kernels_is_told_of_a_microcontroller) {
  const std::string samples = project_path("tools/samples/digits_images.npy");
  const auto said = [&](const std::string& target, const std::string& rounding) {
    return tried("r.nacre", {"--policy", "int8/static_from_float32", "--calibrate", samples, "--cast-samples",
                             "--target", target, "--rounding", rounding})
        .err;
  };
  EXPECT_TRUE(
      has(said("host,arm/m4", "float_even"),
          "arm/m4: up to 6 of 13 steps run reference kernels because of their rounding: --rounding double has fast"));
  EXPECT_FALSE(has(said("arm/m4", "double"), "because of their rounding"));
  EXPECT_FALSE(has(said("host", "float_even"), "because of their rounding"));
}

TEST(gpu_targets, the_newest_that_a_gpu_runs_is_taken) {
  EXPECT_EQ(architecture_of("cuda/sm120"), 120);
  EXPECT_EQ(architecture_of("host"), 0);
  EXPECT_EQ(architecture_of("cuda/sm90a"), 0);
  const std::vector<std::string> targets = {"host", "cuda/sm80", "cuda/sm90", "cuda/sm75"};
  EXPECT_EQ(newest_gpu_target(targets, 70), nullptr);
  EXPECT_EQ(*newest_gpu_target(targets, 86), "cuda/sm80");
  EXPECT_EQ(*newest_gpu_target(targets, 90), "cuda/sm90");
  EXPECT_EQ(*newest_gpu_target(targets, 120), "cuda/sm90");
  EXPECT_EQ(*target_for_here(targets), "host");
  EXPECT_EQ(*target_for_here(std::span(targets).subspan(2, 1)), "cuda/sm90") << "nothing to choose";
  EXPECT_EQ(target_for_here({}), nullptr);
}

}  // namespace
}  // namespace nacre::tools
