// Runs the tool on Keras files with frozen layers: what it prints before the first epoch, in JSON and for inspect;
// options that unfreeze; and the frozen bytes of the exported file.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/importers/keras_builder.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/npy.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

constexpr char kBaseAndHead[] = R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
  {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
  {"class_name": "Sequential", "config": {"name": "base", "trainable": false, "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "inside"}},
    {"class_name": "Dense", "config": {"name": "dense", "units": 3, "trainable": false}},
    {"class_name": "BatchNormalization", "config": {"name": "norm", "trainable": false, "momentum": 0.5}}]}},
  {"class_name": "Dense", "config": {"name": "head", "units": 1}}]}})";

class FrozenFile {
 public:
  FrozenFile() {
    write_bytes(network, keras_archive(kBaseAndHead, {{at + "dense/vars/0", {2, 3}, {1, -2, 3, 4, 5, -6}},
                                                      {at + "dense/vars/1", {3}, {1, 2, 3}},
                                                      {at + "batch_normalization/vars/0", {3}, {1, 2, 1}},
                                                      {at + "batch_normalization/vars/1", {3}, {0, 0, 1}},
                                                      {at + "batch_normalization/vars/2", {3}, {1, 2, 0}},
                                                      {at + "batch_normalization/vars/3", {3}, {2, 4, 8}},
                                                      {"layers/dense/vars/0", {3, 1}, {1, 2, 3}},
                                                      {"layers/dense/vars/1", {1}, {0}}}));
    write_floats(data, {4, 2}, {1, 2, 3, 4, -1, 0, 2, 1});
    write_floats(labels, {4, 1}, {1, 0, 2, -1});
  }

  std::vector<std::string> tune(const std::vector<std::string>& more) const {
    std::vector<std::string> line = {
        "tune",        network, "--data", data,   "--labels", labels, "--loss",  "squared_error",
        "--optimizer", "sgd",   "--lr",   "0.01", "--epochs", "2",    "--batch", "4"};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  // Returns the variables of the archive `path`, by their own paths.
  static std::map<std::string, Hdf5Dataset> variables(const std::string& path) {
    return read_hdf5(keras::read_archive(read_bytes(path), path).weights, path, {}).datasets;
  }

  const TemporaryDirectory folder;
  const std::string network = folder / "m.keras", data = folder / "x.npy", labels = folder / "y.npy",
                    at = "layers/sequential/layers/";

 private:
  static void write_floats(const std::string& path, std::vector<int64_t> dims, const std::vector<float>& numbers) {
    NpyArray array;
    array.type = ElementType::kFloat32;
    array.dims = std::move(dims);
    array.data.resize(numbers.size() * sizeof(float));
    std::memcpy(array.data.data(), numbers.data(), array.data.size());
    write_npy(path, array);
  }
};

TEST(frozen_files, are_told_before_the_first_epoch) {
  const FrozenFile file;
  const ToolRun run = run_tool(file.tune({"-o", file.folder / "o.nacre"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const size_t said = run.out.find("frozen by the file: 2 of 3 layers, 78.9 % of the weights\n");
  EXPECT_LT(said, run.out.find("epoch   1 of 2")) << run.out;
  const Json frozen = Json::parse(run_tool(file.tune({"-o", file.folder / "o.nacre", "--json"})).out)["frozen"];
  EXPECT_EQ(frozen["layers"], Json::array({"base/dense", "base/norm"}));
  EXPECT_EQ(frozen["of_layers"], 3);
  EXPECT_EQ(frozen["weights"], 15);
  EXPECT_EQ(frozen["of_weights"], 19);
}

TEST(frozen_files, are_told_of_a_file_that_is_looked_at_and_of_a_training_model) {
  const FrozenFile file;
  EXPECT_TRUE(has(run_tool({"inspect", file.network}).out, "frozen by the file: 2 of 3 layers, 78.9 % of the weights"));
  EXPECT_EQ(Json::parse(run_tool({"inspect", file.network, "--json"}).out)["training"]["frozen"]["weights"], 15);
  const std::string model = file.folder / "t.nacre";
  const ToolRun made = run_tool({"convert", file.network, "-o", model, "--train", "squared_error", "--batch", "4"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "  frozen by the file: 2 of 3 layers, 78.9 % of the weights")) << made.out;
  EXPECT_TRUE(has(run_tool({"inspect", model}).out, "2 of 3 layers, 15 of 19 weights"));
  const ToolRun tuned = run_tool(
      {"tune", model, "--data", file.data, "--labels", file.labels, "--epochs", "1", "-o", file.folder / "o.nacre"});
  EXPECT_TRUE(has(tuned.out, "frozen by the file: 2 of 3 layers, 78.9 % of the weights")) << tuned.out << tuned.err;
}

TEST(frozen_files, go_back_with_the_bytes_of_what_is_frozen) {
  const FrozenFile file;
  const auto before = FrozenFile::variables(file.network);
  const auto moved = [&](const std::vector<std::string>& unfreeze) {
    const std::string run = file.folder / ("run" + std::to_string(unfreeze.size())), model = file.folder / "t.nacre",
                      back = file.folder / "back.keras";
    std::vector<std::string> tuning = file.tune({"--checkpoint", run}),
                             convert = {"convert",       file.network,  "-o",  model,     "--train",
                                        "squared_error", "--optimizer", "sgd", "--batch", "4"};
    for (const std::string& pattern : unfreeze)
      for (std::vector<std::string>* line : {&tuning, &convert}) line->insert(line->end(), {"--unfreeze", pattern});
    EXPECT_EQ(run_tool(tuning).exit_code, 0);
    EXPECT_EQ(run_tool(convert).exit_code, 0);
    const ToolRun made =
        run_tool({"export", model, "--checkpoint", run, "--network", file.network, "--keras", "-o", back});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    std::vector<std::string> names;
    for (const auto& [path, data] : FrozenFile::variables(back))
      if (data.bytes != before.at(path).bytes) names.push_back(path);
    return names;
  };
  const std::vector<std::string> head = {"layers/dense/vars/0", "layers/dense/vars/1"};
  EXPECT_EQ(moved({}), head);
  EXPECT_EQ(moved({"base/dense"}).size(), 4u);
  EXPECT_EQ(moved({"base/dense", "all"}).size(), 7u) << "statistics too, and no bias before a norm";
}

TEST(frozen_files, refusals_name_the_option_that_unfreezes) {
  const FrozenFile file;
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = file.tune({"-o", file.folder / "o.nacre"});
    line.insert(line.end(), more.begin(), more.end());
    const ToolRun run = run_tool(line);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    return run.err;
  };
  EXPECT_TRUE(has(refused({"--train-layers", "base/dense"}), "unfreeze it: --unfreeze 'base/dense'"));
  EXPECT_TRUE(has(refused({"--unfreeze", "head"}), "'head' matches no layer that the file freezes"));
  EXPECT_TRUE(has(refused({"--unfreeze", "("}), "--unfreeze"));
  const ToolRun onnx = run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", file.folder / "d.nacre",
                                 "--train", "softmax_cross_entropy", "--unfreeze", "all"});
  EXPECT_EQ(onnx.exit_code, 2);
  EXPECT_TRUE(has(onnx.err, "which only Keras files say")) << onnx.err;
}

}  // namespace
}  // namespace nacre::tools
