// Runs nacre tune: tests where it keeps its checkpoints, and its results.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

ToolRun tune(const std::vector<std::string>& options, const ToolOptions& with = {}) {
  const std::string samples = project_path("tools/samples/");
  std::vector<std::string> words = {"tune",
                                    samples + "digits.onnx",
                                    "--loss",
                                    "softmax_cross_entropy",
                                    "--data",
                                    samples + "digits_images.npy",
                                    "--labels",
                                    samples + "digits_labels.npy",
                                    "--cast-samples",
                                    "--train-last",
                                    "1",
                                    "--epochs",
                                    "1",
                                    "--validate",
                                    "0.95"};
  words.insert(words.end(), options.begin(), options.end());
  return run_tool(words, with);
}

TEST(tune_command, makes_the_folder_of_its_checkpoints_and_what_leads_to_it) {
  const TemporaryDirectory directory;
  const ToolRun run = tune({"--checkpoint", directory / "a/b/run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  // An equal training gives an equal checkpoint in any folder.
  ASSERT_EQ(tune({"--checkpoint", directory / "run"}).exit_code, 0);
  EXPECT_EQ(read_bytes(directory / "a/b/run/slot0.checkpoint"), read_bytes(directory / "run/slot0.checkpoint"));
  EXPECT_GT(read_bytes(directory / "run/slot0.checkpoint").size(), 1000u);
}

TEST(tune_command, makes_no_folder_where_it_is_refused) {
  const TemporaryDirectory directory;
  EXPECT_EQ(tune({"--checkpoint", directory / "a/b", "--lr", "nan"}).exit_code, 2);
  EXPECT_EQ(tune({"--checkpoint", directory / "a/b", "--optimizer", "none"}).exit_code, 2);
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(tune_command, leaves_no_checkpoint_where_nothing_was_learned) {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", {1});
  const ToolRun diverged =
      tune({"--checkpoint", directory / "a/b", "--lr", "1e30", "--scale", "1e30", "--max-refused", "1"});
  EXPECT_EQ(diverged.exit_code, 1) << diverged.err;
  const ToolRun through = tune({"--checkpoint", directory / "none/../file"});
  EXPECT_EQ(through.exit_code, 5) << through.err;
  EXPECT_NE(through.err.find("none, which is not there"), std::string::npos) << through.err;
  EXPECT_EQ(tune({"--checkpoint", directory / "file"}).exit_code, 5);
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(tune_command, leaves_no_checkpoint_where_the_disk_is_full) {
  const TemporaryDirectory directory;
  const ToolRun run = tune({"--checkpoint", directory / "run"}, {.file_limit_bytes = 4096});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(tune_command, refuses_one_name_for_its_model_and_its_checkpoints) {
  const TemporaryDirectory directory;
  for (const char* model : {"run", "./run", "run/slot1.checkpoint", "run/best/slot0.checkpoint", "run/best"}) {
    const ToolRun run = tune({"--checkpoint", directory / "run", "-o", directory / model});
    EXPECT_EQ(run.exit_code, 2) << model;
    EXPECT_NE(run.err.find("would be overwritten"), std::string::npos) << run.err;
  }
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(tune_command, restarts_where_there_is_no_checkpoint_too) {
  const TemporaryDirectory directory;
  std::string first;
  for (int time = 0; time < 2; ++time) {
    const ToolRun run = tune({"--checkpoint", directory / "run", "--restart"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out.find("goes on"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("epoch   1 of 1"), std::string::npos) << run.out;
    if (time == 0) first = run.out;
    EXPECT_EQ(run.out, first);  // same loss: starts from the beginning
  }
}

TEST(tune_command, its_checkpoint_is_told_from_a_model) {
  const TemporaryDirectory directory;
  ASSERT_EQ(tune({"--checkpoint", directory / "run"}).exit_code, 0);
  const ToolRun run = run_tool({"inspect", directory / "run/slot0.checkpoint"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.err.find("is a checkpoint of a training, and no model"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("nacre export TRAINING_MODEL --checkpoint DIR -o MODEL"), std::string::npos) << run.err;
}

// Returns the outputs of the model's inference program for zeros, then for ones.
std::vector<uint8_t> outputs_of(const std::string& path) {
  const LoadedModel model(path);
  const BoundProgram bound(model, model.infer_program());
  const std::span<std::byte> in = bound.program().input(0);
  std::vector<uint8_t> all;
  for (const float number : {0.0f, 1.0f}) {
    for (size_t at = 0; at < in.size(); at += sizeof number) std::memcpy(in.data() + at, &number, sizeof number);
    model.require(bound.program().run());
    const std::span<const std::byte> out = bound.program().output(0);
    all.insert(all.end(), reinterpret_cast<const uint8_t*>(out.data()),
               reinterpret_cast<const uint8_t*>(out.data()) + out.size());
  }
  return all;
}

// If a seed only orders rows, the training model does not depend on it, and tune trains the model that nacre convert
// makes. export's model of the checkpoint must give the outputs of the model that tune -o wrote, not those of the
// network before training.
TEST(tune_command, with_a_seed_leaves_a_checkpoint_that_export_takes) {
  const TemporaryDirectory directory;
  const std::string network = project_path("tools/samples/digits.onnx"), model = directory / "train.nacre";
  const ToolRun tuned = tune({"--checkpoint", directory / "run", "--seed", "7", "-o", directory / "deployed.nacre"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const ToolRun converted = run_tool(
      {"convert", network, "-o", model, "--train", "softmax_cross_entropy", "--train-last", "1", "--batch", "32"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  const ToolRun exported = run_tool(
      {"export", model, "--checkpoint", directory / "run", "--network", network, "-o", directory / "tuned.nacre"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const std::vector<uint8_t> learned = outputs_of(directory / "tuned.nacre");
  EXPECT_EQ(learned, outputs_of(directory / "deployed.nacre"));
  ASSERT_EQ(run_tool({"convert", network, "-o", directory / "before.nacre"}).exit_code, 0);
  EXPECT_NE(learned, outputs_of(directory / "before.nacre"));
  EXPECT_EQ(run_tool({"export", model, "--checkpoint", directory / "run", "-o", directory / "whole.nacre"}).exit_code,
            0);
}

TEST(tune_command, refuses_a_link_to_where_nothing_can_be_written_before_it_trains) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink(directory / "none/tuned.nacre", directory / "tuned.nacre");
  const ToolRun run = tune({"-o", directory / "tuned.nacre"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(run.out, "");
}

// If the model cannot be written, tune saves a checkpoint beside it. An equal command goes on from there.
TEST(tune_command, whose_model_cannot_be_written_keeps_what_was_learned) {
  const TemporaryDirectory directory;
  const std::string model = directory / "tuned.nacre", rescue = model + ".checkpoint";
  const ToolRun whole = tune({"-o", directory / "whole.nacre"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const ToolRun lost = tune({"-o", model}, {.file_limit_bytes = 64});  // no checkpoint can be written either
  EXPECT_EQ(lost.exit_code, 5) << lost.err;
  EXPECT_NE(lost.err.find("what was learned is lost: --checkpoint DIR keeps it"), std::string::npos) << lost.err;
  EXPECT_FALSE(std::filesystem::exists(rescue));
  std::filesystem::create_symlink("/dev/full", model);  // passes the checks, and takes no byte
  const ToolRun kept = tune({"-o", model});
  ASSERT_EQ(kept.exit_code, 5) << kept.err;
  ASSERT_NE(kept.err.find("what was learned is in " + rescue), std::string::npos) << kept.err;
  std::filesystem::remove(model);
  const ToolRun again = tune({"-o", model, "--checkpoint", rescue});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(read_bytes(model), read_bytes(directory / "whole.nacre"));
}

TEST(tune_command, refuses_a_rate_of_0_and_an_empty_value) {
  const TemporaryDirectory directory;
  const ToolRun rate = tune({"--lr", "0", "-o", directory / "o.nacre"});
  EXPECT_EQ(rate.exit_code, 2);
  EXPECT_TRUE(has(rate.err, "--lr: is 0: no step would change anything")) << rate.err;
  const ToolRun empty = tune({"-o", directory / "o.nacre", "--csv=", "--json"});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_TRUE(has(empty.err, "--csv: is given an empty value")) << empty.err;
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(tune_command, whose_log_cannot_be_written_has_its_model) {
  const TemporaryDirectory directory;
  ASSERT_EQ(tune({"-o", directory / "whole.nacre"}).exit_code, 0);
  const ToolRun run = tune({"-o", directory / "tuned.nacre", "--csv", "/dev/full", "--html", "/dev/full", "--json"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_TRUE(has(run.err, "; the training goes on without it")) << run.err;
  EXPECT_TRUE(has(run.err, "tuned.nacre is written")) << run.err;
  EXPECT_EQ(read_bytes(directory / "tuned.nacre"), read_bytes(directory / "whole.nacre"));
  EXPECT_EQ(Json::parse(run.out).at("warnings").size(), 1u) << run.out;
}

TEST(tune_command, that_diverged_writes_no_model) {
  const TemporaryDirectory directory;
  for (const std::string mode : {"", "--json"}) {
    std::vector<std::string> options = {"--lr", "1e30", "--scale", "1e30", "-o", directory / "o.nacre"};
    if (!mode.empty()) options.push_back(mode);
    const ToolRun run = tune(options);
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_NE(run.err.find("the training diverge"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("take a lower --lr"), std::string::npos) << run.err;
  }
  EXPECT_EQ(directory.entries(), 0u);
}

// Trains on one row at a time. If the loss ignores a step's label, the step does not count.
TEST(tune_command, leaves_out_a_step_whose_labels_count_nothing) {
  const TemporaryDirectory directory;
  const std::string samples = project_path("tools/samples/");
  NpyArray rows = read_npy(samples + "digits_images.npy");
  rows.data.resize(rows.data.size() / size_t(rows.dims[0]) * 4);
  rows.dims[0] = 4;
  write_npy(directory / "x.npy", rows);
  const auto trained = [&](const std::vector<int32_t>& labels) {
    NpyArray y = {.type = ElementType::kInt32, .dims = {4}, .data = std::vector<uint8_t>(16), .place = ""};
    std::memcpy(y.data.data(), labels.data(), y.data.size());
    write_npy(directory / "y.npy", y);
    return run_tool({"tune", samples + "digits.onnx", "--loss", "softmax_cross_entropy,ignore_index=-1", "--data",
                     directory / "x.npy", "--labels", directory / "y.npy", "--cast-samples", "--train-last", "1",
                     "--batch", "1", "--epochs", "2", "--json", "-o", directory / "t.nacre"});
  };
  const ToolRun some = trained({3, -1, 5, -1});
  ASSERT_EQ(some.exit_code, 0) << some.err;
  EXPECT_EQ(Json::parse(some.out)["steps"], 4);  // four of the 8 count
  std::filesystem::remove(directory / "t.nacre");
  const ToolRun none = trained({-1, -1, -1, -1});
  EXPECT_EQ(none.exit_code, 3) << none.err;
  EXPECT_FALSE(std::filesystem::exists(directory / "t.nacre"));
}

TEST(tune_command, says_that_a_warm_up_outlasts_the_training) {
  const TemporaryDirectory directory;
  const std::string samples = project_path("tools/samples/");
  const auto said = [&](const std::string& schedule) {
    const ToolRun run =
        run_tool({"tune", samples + "digits.onnx", "--loss", "softmax_cross_entropy", "--train-last", "1", "--data",
                  samples + "digits_images.npy", "--labels", samples + "digits_labels.npy", "--cast-samples", "--batch",
                  "599", "--epochs", "1", "--schedule", schedule, "-o", directory / "t.nacre"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return has(run.err + run.out, "the warm-up of 3 steps is not over in the 3 steps of this training");
  };
  EXPECT_TRUE(said("cosine,warmup=3"));
  EXPECT_FALSE(said("cosine,warmup=2"));
}

TEST(tune_command, refuses_a_scale_that_no_float32_holds) {
  const TemporaryDirectory directory;
  for (const char* scale : {"1e300", "1e-300", "0", "1/0"}) {
    const ToolRun run = tune({"--scale", scale, "-o", directory / "o.nacre"});
    EXPECT_EQ(run.exit_code, 2) << scale;
    EXPECT_TRUE(has(run.err, "--scale")) << run.err;
  }
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(tune_command, that_is_interrupted_says_so_in_its_json) {
  const TemporaryDirectory directory;
  const std::string samples = project_path("tools/samples/"), output = directory / "t.nacre";
  const ToolRun run = run_tool(
      {"tune", samples + "digits.onnx", "--loss", "softmax_cross_entropy", "--data", samples + "digits_images.npy",
       "--labels", samples + "digits_labels.npy", "--cast-samples", "--epochs", "100000", "--json", "-o", output},
      {.interrupt = true});
  EXPECT_EQ(run.signal, SIGINT) << run.err;
  const Json told = Json::parse(run.out);
  EXPECT_EQ(told["interrupted"], true);
  EXPECT_EQ(told["output"].is_null(), !std::filesystem::exists(output));
  EXPECT_EQ(told["output"].is_null(), told["steps"] == 0);
  EXPECT_TRUE(told["checkpoint"].is_null());
}

TEST(tune_command, refuses_a_file_name_that_ends_as_a_folder_before_it_trains) {
  const TemporaryDirectory directory;
  const ToolRun run = tune({"-o", directory / "tuned.nacre/"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(directory.entries(), 0u);
}

// A float32 training finds no ranges. int8/static takes them from samples, and so do fits of weights.
TEST(tune_command, leaves_a_checkpoint_that_export_calibrates) {
  const TemporaryDirectory directory;
  const std::string samples = project_path("tools/samples/"), network = samples + "digits.onnx",
                    model = directory / "train.nacre";
  ASSERT_EQ(run_tool({"convert", network, "--train", "softmax_cross_entropy", "--train-last", "1", "--batch", "32",
                      "-o", model})
                .exit_code,
            0);
  ASSERT_EQ(tune({"--checkpoint", directory / "run", "--batch", "32"}).exit_code, 0);
  for (const char* policy : {"int8/static_from_float32", "gptq/4/32_from_float32", "awq/4/32_from_bfloat16"}) {
    const std::string exported = directory / "exported.nacre";
    std::vector<std::string> words = {"export", model, "--checkpoint", directory / "run", "--network",
                                      network,  "-o",  exported,       "--policy",        policy};
    const ToolRun without = run_tool(words);
    EXPECT_EQ(without.exit_code, 2) << without.err;
    EXPECT_NE(without.err.find("--calibrate"), std::string::npos) << without.err;
    EXPECT_FALSE(std::filesystem::exists(exported));
    words.insert(words.end(), {"--calibrate", samples + "digits_images.npy", "--cast-samples"});
    const ToolRun with = run_tool(words);
    EXPECT_EQ(with.exit_code, 0) << with.err;
    EXPECT_EQ(run_tool({"check", exported}).exit_code, 0);
    std::filesystem::remove(exported);
  }
}

}  // namespace
}  // namespace nacre::tools
