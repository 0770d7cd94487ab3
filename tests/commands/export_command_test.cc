// Runs nacre export --onnx and --keras: the network's file gets the learned numbers, and computes what was tuned.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/importers/keras_builder.h"
#include "tests/run_tool.h"
#include "tools/files/npy.h"
#include "tools/importers/shared/stored_numbers.h"

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

// tune trains with the settings that the file was compiled with, and writes a file with the learned numbers.
TEST(export_command, a_keras_file_is_tuned_as_it_was_compiled_and_comes_back) {
  const TemporaryDirectory folder;
  const std::string config = R"({"class_name": "Sequential", "compile_config": {"loss": "mse", "optimizer":
    {"class_name": "SGD", "config": {"learning_rate": 0.5, "momentum": 0.25}}}, "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false}}]}})";
  const std::string net = folder / "m.keras", made = folder / "tuned.keras", train = folder / "train.nacre";
  write_bytes(net, keras_archive(config, {{"layers/dense/vars/0", {2, 1}, {1, 2}}}));
  const auto numbers = [&](const char* name, std::vector<int64_t> dims, const std::vector<float>& all) {
    const auto* first = reinterpret_cast<const uint8_t*>(all.data());
    write_npy(folder / name, {ElementType::kFloat32, std::move(dims), {first, first + all.size() * sizeof(float)}});
  };
  numbers("x.npy", {2, 2}, {1, 0, 0, 1});
  numbers("y.npy", {2, 1}, {0, 0});
  const std::vector<std::string> data = {"--data", folder / "x.npy", "--labels",     folder / "y.npy", "--epochs",
                                         "1",      "--no-shuffle",   "--checkpoint", folder / "run"};
  const auto run = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun done = run_tool(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.err;
  };
  const std::string said = run({"tune", net, "--batch", "2"}, data);
  EXPECT_TRUE(has(said, "--train squared_error --optimizer momentum,momentum=0.25 --lr 0.5")) << said;
  run({"convert", net, "-o", train, "--batch", "2", "--train", "squared_error", "--optimizer",
       "momentum,momentum=0.25"},
      {});
  run({"export", train, "--checkpoint", folder / "run", "--network", net, "--keras", "-o", made}, {});
  // y = w. The mean of (w_0^2 + w_1^2) / 2 has the gradient w, and the step subtracts half of it.
  const std::vector<uint8_t> file = read_bytes(made);
  const std::vector<StoredNumbers> stored = stored_numbers(file, made);
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(read_stored(file, stored[0]), (std::vector<float>{0.5f, 1}));
}

// A loss of one output trains that output. If two outputs have one loss, an option must choose; the refusal names it.
TEST(export_command, a_keras_file_of_two_outputs_is_tuned_by_the_one_that_its_loss_is_of) {
  const TemporaryDirectory folder;
  const std::string net = folder / "m.keras";
  const auto write_net = [&](const std::string& loss) {
    const std::string dense = R"({"class_name": "Dense", "name": "NAME", "config": {"name": "NAME", "units": 1,
      "use_bias": false}, "inbound_nodes": [[["x", 0, 0, {}]]]})";
    const auto named = [&](const std::string& name) {
      std::string text = dense;
      for (size_t at = text.find("NAME"); at != text.npos; at = text.find("NAME")) text.replace(at, 4, name);
      return text;
    };
    const std::string config = R"({"class_name": "Functional", "compile_config": {"optimizer": "SGD", "loss": )" +
                               loss + R"(}, "config": {"name": "m", "layers": [
      {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2], "name": "x"},
       "inbound_nodes": []}, )" +
                               named("a") + ", " + named("b") +
                               R"(], "input_layers": [["x", 0, 0]], "output_layers": {"a": ["a", 0, 0],
      "b": ["b", 0, 0]}}})";
    write_bytes(net, keras_archive(
                         config, {{"layers/dense/vars/0", {2, 1}, {1, 2}}, {"layers/dense_1/vars/0", {2, 1}, {3, 4}}}));
  };
  for (const char* name : {"x.npy", "y.npy"}) {
    const std::vector<float> all = {1, 0, 0, 1};
    const auto* first = reinterpret_cast<const uint8_t*>(all.data());
    const bool data = name[0] == 'x';
    write_npy(folder / name,
              {ElementType::kFloat32, {2, data ? 2 : 1}, {first, first + (data ? 4 : 2) * sizeof(float)}});
  }
  const auto tune = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "tune", net,  "--batch",           "2", "--data", folder / "x.npy", "--labels", folder / "y.npy", "--epochs",
        "1",    "-o", folder / "out.nacre"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  write_net(R"({"b": "mse"})");
  const ToolRun of_b = tune({});
  EXPECT_EQ(of_b.exit_code, 0) << of_b.err;
  EXPECT_TRUE(has(of_b.err, "--train-output b")) << of_b.err;
  write_net(R"("mse")");
  const ToolRun refused = tune({});
  EXPECT_EQ(refused.exit_code, 4) << refused.err;
  EXPECT_TRUE(has(refused.err, "name the output to train with --train-output: a, b")) << refused.err;
  const ToolRun named = tune({"--train-output", "a"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

}  // namespace
}  // namespace nacre::tools
