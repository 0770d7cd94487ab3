// Tests nacre tune on networks that move the batch off axis 0, and on one with several outputs. Each form of one
// computation must learn as the form with its rows on axis 0 does.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

constexpr int64_t kRows = 12, kTimes = 5, kWide = 3, kKinds = 2;

// Returns a number in [-1, 1), the same in every run.
float spread_number(size_t i) { return float((i * 2654435761u >> 8) % 2048) / 1024 - 1; }

template <class T>
void save_array(const std::string& path, std::vector<int64_t> dims, const std::vector<T>& all) {
  const auto* first = reinterpret_cast<const uint8_t*>(all.data());
  const bool real = std::is_same_v<T, float>;
  write_npy(path,
            {real ? ElementType::kFloat32 : ElementType::kInt32, std::move(dims), {first, first + all.size() * 4}});
}

class tune_rows : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> x(size_t(kRows * kTimes * kWide)), turned(x.size());
    std::vector<int32_t> y(size_t(kRows * kTimes)), turned_y(y.size());
    for (size_t n = 0; n < size_t(kRows); ++n)
      for (size_t t = 0; t < size_t(kTimes); ++t) {
        const size_t from = n * size_t(kTimes) + t, to = t * size_t(kRows) + n;
        turned_y[to] = y[from] = spread_number(from + 7) > 0 ? 1 : 0;
        for (size_t i = 0; i < size_t(kWide); ++i)
          turned[to * size_t(kWide) + i] = x[from * size_t(kWide) + i] = spread_number(from * size_t(kWide) + i);
      }
    save_array(folder_ / "x.npy", {kRows, kTimes, kWide}, x);
    save_array(folder_ / "y.npy", {kRows, kTimes}, y);
    save_array(folder_ / "flat_y.npy", {kRows * kTimes}, y);
    save_array(folder_ / "turned_x.npy", {kTimes, kRows, kWide}, turned);
    save_array(folder_ / "turned_y.npy", {kTimes, kRows}, turned_y);
  }

  // Adds `to` = `from` w + b, for `from` [.., 3] and w [3, 2].
  static void head(OnnxBuilder& b, const std::string& from, const std::string& to) {
    b.floats("w", {kWide, kKinds}, {0.5f, -0.25f, 0.125f, 0.75f, -0.5f, 0.25f});
    b.floats("b", {kKinds}, {0.125f, -0.125f});
    b.node("MatMul", {from, "w"}, {"product"});
    b.node("Add", {"product", "b"}, {to});
  }

  ToolRun tune(const std::vector<uint8_t>& network, const std::string& x, const std::string& y,
               std::vector<std::string> more = {}) {
    write_bytes(folder_ / "net.onnx", network);
    std::filesystem::remove(folder_ / "out.nacre");
    more.insert(more.begin(), {"tune", folder_ / "net.onnx", "--loss", "softmax_cross_entropy", "--data", folder_ / x,
                               "--labels", folder_ / y, "--optimizer", "sgd", "--lr", "0.5", "--epochs", "3",
                               "--no-shuffle", "-o", folder_ / "out.nacre", "--csv", folder_ / "log.csv"});
    return run_tool(more);
  }

  // Returns the loss of each epoch.
  std::vector<double> losses() const {
    const std::vector<uint8_t> bytes = read_bytes(folder_ / "log.csv");
    std::istringstream text(std::string(bytes.begin(), bytes.end()));
    std::string line;
    std::getline(text, line);
    std::istringstream names(line);
    size_t column = 0;
    for (std::string name; std::getline(names, name, ',') && name != "loss";) ++column;
    std::vector<double> found;
    while (std::getline(text, line)) {
      std::istringstream cells(line);
      std::string cell;
      for (size_t i = 0; i <= column; ++i) std::getline(cells, cell, ',');
      found.push_back(std::stod(cell));
    }
    return found;
  }

  // Allows sums of 60 losses of size 1 in another order, and as many roundings of weights: below 60 * 3 * 2^-24.
  void expect_learned(const ToolRun& run, const std::vector<double>& expected, const std::string& what) {
    ASSERT_EQ(run.exit_code, 0) << what << ": " << run.err;
    const std::vector<double> found = losses();
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1.1e-5) << what;
  }

  static std::vector<uint8_t> plain() {
    OnnxBuilder b;
    b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
    b.node("Tanh", {"x"}, {"t"});
    head(b, "t", "y");
    b.output("y");
    return b.finish();
  }
  // Reshapes [rows, times, 3] to [rows times, 3]; if `back`, reshapes the result back.
  static std::vector<uint8_t> merged(bool back) {
    OnnxBuilder b;
    b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
    b.integers("flat", {2}, {-1, kWide});
    b.integers("whole", {3}, {-1, kTimes, kKinds});
    b.node("Reshape", {"x", "flat"}, {"r"});
    b.node("Tanh", {"r"}, {"t"});
    head(b, "t", back ? "z" : "y");
    if (back) b.node("Reshape", {"z", "whole"}, {"y"});
    b.output("y");
    return b.finish();
  }
  // The softmax runs over the times, axis 0 of [times, rows, 3], so the rows stay separate.
  static std::vector<uint8_t> time_major(int64_t rows, const std::string& symbol) {
    OnnxBuilder b;
    b.input("x", {kTimes, rows, kWide}, {"", symbol, ""});
    b.node("Softmax", {"x"}, {"share"}).integer("axis", 0);
    head(b, "share", "y");
    b.output("y");
    return b.finish();
  }
  static std::vector<uint8_t> shared_plain() {
    OnnxBuilder b;
    b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
    b.node("Softmax", {"x"}, {"share"}).integer("axis", 1);
    head(b, "share", "y");
    b.output("y");
    return b.finish();
  }

  TemporaryDirectory folder_;
};

TEST_F(tune_rows, rows_that_meet_their_times_in_one_axis_learn_as_apart) {
  ASSERT_EQ(tune(plain(), "x.npy", "y.npy", {"--batch", "4"}).exit_code, 0);
  const std::vector<double> expected = losses();
  EXPECT_LT(expected.back(), expected.front());
  expect_learned(tune(merged(true), "x.npy", "y.npy", {"--batch", "4"}), expected, "and back");
  expect_learned(tune(merged(false), "x.npy", "y.npy", {"--batch", "4"}), expected, "labels [rows, times]");
  expect_learned(tune(merged(false), "x.npy", "flat_y.npy", {"--batch", "4"}), expected, "labels [rows times]");
  expect_learned(tune(merged(false), "x.npy", "y.npy", {"--batch", "4", "--micro-batch", "1"}), expected, "one by one");
}

TEST_F(tune_rows, rows_on_axis_1_learn_as_on_axis_0) {
  ASSERT_EQ(tune(shared_plain(), "x.npy", "y.npy", {"--batch", "4"}).exit_code, 0);
  const std::vector<double> expected = losses();
  const ToolRun turned = tune(time_major(1, "batch"), "turned_x.npy", "turned_y.npy", {"--batch", "4"});
  expect_learned(turned, expected, "an open batch on axis 1");
  EXPECT_TRUE(has(turned.err, "its rows are along axis 1")) << turned.err;
  expect_learned(tune(time_major(1, "batch"), "x.npy", "y.npy", {"--batch", "4"}), expected, "rows first");
  const ToolRun fixed = tune(time_major(4, ""), "turned_x.npy", "turned_y.npy", {"--batch", "4"});
  expect_learned(fixed, expected, "a batch that the file fixes");
  expect_learned(tune(time_major(2, ""), "x.npy", "turned_y.npy", {"--batch", "4"}), expected, "half of a step");
}

TEST_F(tune_rows, whole_batches_are_said_and_no_other_is_taken) {
  const ToolRun rest = tune(merged(true), "x.npy", "y.npy", {"--batch", "8"});
  EXPECT_EQ(rest.exit_code, 0);
  EXPECT_TRUE(has(rest.err, "4 rows of every epoch's order are left out; --micro-batch 4 takes them too")) << rest.err;
  const ToolRun fixed = tune(time_major(4, ""), "x.npy", "y.npy");
  EXPECT_TRUE(has(fixed.err, "its batch is fixed: a step of 32 rows is 8 runs of 4")) << fixed.err;
  const ToolRun no_multiple = tune(time_major(4, ""), "x.npy", "y.npy", {"--batch", "6"});
  EXPECT_EQ(no_multiple.exit_code, 2);
  EXPECT_TRUE(has(no_multiple.err, "give a multiple of 4")) << no_multiple.err;
  const ToolRun few = tune(merged(true), "x.npy", "y.npy", {"--batch", "16"});
  EXPECT_EQ(few.exit_code, 3);
  EXPECT_TRUE(has(few.err, "whole batches of 16 only, and there are 12 rows")) << few.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.nacre"));
}

TEST_F(tune_rows, a_network_that_mixes_its_rows_is_refused_by_the_node_s_name) {
  OnnxBuilder b;
  b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
  head(b, "x", "z");
  b.node("Softmax", {"z"}, {"y"}).integer("axis", 0);
  b.output("y");
  const ToolRun run = tune(b.finish(), "x.npy", "y.npy");
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_TRUE(has(run.err, "has no axis for rows: ") && has(run.err, "normalizes over the batch")) << run.err;
}

TEST_F(tune_rows, inference_never_normalises_by_a_batch_unsaid) {
  OnnxBuilder b(15);
  b.input("x", {1, kWide}, {"rows", ""});
  for (const char* name : {"scale", "bias", "mean", "variance"}) b.filled(name, {kWide}, name[0] == 'b' ? 0 : 1);
  b.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"n", "running_mean", "running_variance"})
      .integer("training_mode", 1);
  head(b, "n", "y");
  b.output("y");
  write_bytes(folder_ / "net.onnx", b.finish());
  const ToolRun run = run_tool({"convert", folder_ / "net.onnx", "-o", folder_ / "net.nacre", "--batch", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.err, "by the statistics of the batch that it runs on")) << run.err;
}

// ---- Classes ----

TEST_F(tune_rows, classes_on_axis_1_are_refused_by_name) {
  const auto network = [](int64_t width, bool last) {  // [rows, 2, 5] of 3 channels
    OnnxBuilder b;
    b.input("x", {1, kWide, width}, {"rows", "", ""});
    b.floats("w", {kKinds, kWide, 1}, {0.5f, -0.25f, 0.125f, 0.75f, -0.5f, 0.25f});
    b.node("Conv", {"x", "w"}, {last ? "z" : "y"});
    if (last) b.node("Transpose", {"z"}, {"y"}).ints("perm", {0, 2, 1});
    b.output("y");
    return b.finish();
  };
  const std::vector<float> x(size_t(kRows * kWide * 2), 0.5f);
  save_array(folder_ / "square.npy", {kRows, kWide, 2}, x);
  save_array(folder_ / "square_y.npy", {kRows, 2}, std::vector<int32_t>(size_t(kRows * 2), 1));
  const ToolRun refused = tune(network(2, false), "square.npy", "square_y.npy");  // as wide as it has classes
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_TRUE(has(refused.err, "has the classes on axis 1") && has(refused.err, "transpose [0, 2, 1]")) << refused.err;
  EXPECT_EQ(tune(network(2, true), "square.npy", "square_y.npy").exit_code, 0);
  const ToolRun training =
      run_tool({"convert", folder_ / "net.onnx", "-o", folder_ / "train.nacre", "--train", "softmax_cross_entropy"});
  EXPECT_EQ(training.exit_code, 0) << training.err;
}

// The weights multiply x from the left, so only the labels tell which axis the classes are on.
TEST_F(tune_rows, labels_tell_that_classes_are_on_axis_1) {
  OnnxBuilder b;
  b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
  b.floats("w", {kKinds, kTimes}, std::vector<float>(size_t(kKinds * kTimes), 0.25f));
  b.node("MatMul", {"w", "x"}, {"y"});  // [rows, 2, 3]
  b.output("y");
  save_array(folder_ / "places.npy", {kRows, kWide}, std::vector<int32_t>(size_t(kRows * kWide), 1));
  const ToolRun run = tune(b.finish(), "x.npy", "places.npy");
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_TRUE(has(run.err, "the classes are then on axis 1")) << run.err;
}

// ---- Outputs ----

TEST_F(tune_rows, one_output_trains_and_the_other_stays) {
  OnnxBuilder b;
  b.input("x", {1, kTimes, kWide}, {"rows", "", ""});
  b.node("Tanh", {"x"}, {"t"});
  head(b, "t", "scores");
  b.floats("box.w", {kWide, 4}, std::vector<float>(12, 0.5f));
  b.node("MatMul", {"x", "box.w"}, {"box"});
  b.output("box");
  b.output("scores");
  const std::vector<uint8_t> file = b.finish();
  const ToolRun none = tune(file, "x.npy", "y.npy");
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_TRUE(has(none.err, "--train-output") && has(none.err, "box, scores")) << none.err;
  const ToolRun unknown = tune(file, "x.npy", "y.npy", {"--train-output", "boxes"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(has(unknown.err, "its outputs are: box, scores")) << unknown.err;
  ASSERT_EQ(tune(plain(), "x.npy", "y.npy").exit_code, 0);
  const std::vector<double> expected = losses();
  const ToolRun run = tune(file, "x.npy", "y.npy", {"--train-output", "scores"});
  expect_learned(run, expected, "scores");
  EXPECT_TRUE(has(run.out, "not trained: box.w")) << run.out;
  const auto boxes = [&](const std::string& from) {
    EXPECT_EQ(run_tool({"run", from, "--seed", "1", "--output", folder_ / "out"}).exit_code, 0);
    return read_bytes(folder_ / "out/box.npy");
  };
  const std::vector<uint8_t> tuned = boxes(folder_ / "out.nacre");  // all outputs are deployed
  ASSERT_EQ(run_tool({"convert", folder_ / "net.onnx", "-o", folder_ / "net.nacre"}).exit_code, 0);
  EXPECT_EQ(tuned, boxes(folder_ / "net.nacre"));
  ASSERT_EQ(run_tool({"convert", folder_ / "net.onnx", "-o", folder_ / "train.nacre", "--train",
                      "softmax_cross_entropy", "--train-output", "scores", "--optimizer", "sgd", "--batch", "32"})
                .exit_code,
            0);
  const ToolRun of_model =
      run_tool({"tune", folder_ / "train.nacre", "--data", folder_ / "x.npy", "--labels", folder_ / "y.npy", "--lr",
                "0.5", "--epochs", "3", "--no-shuffle", "-o", folder_ / "out.nacre", "--csv", folder_ / "log.csv"});
  expect_learned(of_model, expected, "a training model");
}

}  // namespace
}  // namespace nacre::tools
