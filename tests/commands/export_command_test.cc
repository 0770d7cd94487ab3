// nacre export --onnx, run as a program: the network's file with what was learned is the network that was tuned.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/run_tool.h"

namespace nacre::tools {
namespace {

TEST(export_command, an_onnx_file_comes_back_as_the_network_that_was_tuned) {
  const TemporaryDirectory folder;
  const std::string samples = project_path("tools/samples/"), net = samples + "digits.onnx";
  const auto expect = [](const std::vector<std::string>& words, int code) {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, code) << run.err;
    return run.out + run.err;
  };
  const std::string train = folder / "train.nacre", run = folder / "run", made = folder / "tuned.onnx";
  expect({"convert", net, "-o", train, "--train", "softmax_cross_entropy", "--train-last", "2", "--batch", "32"}, 0);
  expect({"tune", train, "--data", samples + "digits_images.npy", "--labels", samples + "digits_labels.npy",
          "--cast-samples", "--epochs", "1", "--validate", "0.9", "--checkpoint", run},
         0);
  const std::vector<std::string> command = {"export", train, "--checkpoint", run, "--network", net};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  EXPECT_TRUE(has(expect(with({"--keras", "-o", made}), 2), "is no file of Keras"));
  EXPECT_FALSE(std::filesystem::exists(made));
  expect(with({"--onnx", "-o", net}), 2);  // an input
  EXPECT_TRUE(has(expect(with({"--onnx", "-o", made}), 0), "numbers in 6 tensors of the file"));
  expect(with({"-o", folder / "deployed.nacre"}), 0);
  expect({"convert", made, "-o", folder / "converted.nacre"}, 0);
  for (const char* name : {"deployed", "converted"})
    expect({"run", folder / (std::string(name) + ".nacre"), "--seed", "3", "--output", folder / name}, 0);
  size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "deployed")) {
    EXPECT_EQ(read_bytes(entry.path().string()), read_bytes((folder.path() / "converted" / entry.path().filename())));
    ++compared;
  }
  EXPECT_EQ(compared, 1u);
}

}  // namespace
}  // namespace nacre::tools
