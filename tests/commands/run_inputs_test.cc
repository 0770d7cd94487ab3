// Tests nacre run on archives of inputs, and warnings that do not refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/run_tool.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

class run_inputs : public testing::Test {
 protected:
  run_inputs() {
    EXPECT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", digits()}).exit_code, 0);
  }

  std::string digits() const { return directory_ / "digits.nacre"; }

  // Returns an array of these dims filled with one value.
  static NpyArray reals(std::vector<int64_t> dims, float value) {
    NpyArray array = {ElementType::kFloat32, std::move(dims), {}};
    const std::vector<float> data(size_t(array.elements()), value);
    array.data.resize(data.size() * sizeof(float));
    std::memcpy(array.data.data(), data.data(), array.data.size());
    return array;
  }

  static void expect_wrong_usage(const ToolRun& run, const std::string& part) {
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
  }

  TemporaryDirectory directory_;
};

TEST_F(run_inputs, takes_the_arrays_of_an_archive_by_the_names_of_inputs) {
  const std::string x = directory_ / "x.npy", archive = directory_ / "x.npz", other = directory_ / "y.npz";
  const NpyArray samples = reals({3, 1, 8, 8}, 0.5f);
  write_npy(x, samples);
  write_npz(archive, {{"pixels", samples}});
  write_npz(other, {{"pixel", samples}});
  const ToolRun one = run_tool({"run", digits(), "--input", "pixels=" + x, "--output", directory_ / "one"});
  const ToolRun two = run_tool({"run", digits(), "--input", archive, "--output", directory_ / "two"});
  ASSERT_EQ(one.exit_code + two.exit_code, 0) << two.err;
  EXPECT_EQ(read_bytes(directory_ / "one/probabilities.npy"), read_bytes(directory_ / "two/probabilities.npy"));
  expect_wrong_usage(run_tool({"run", digits(), "--input", other}), "'pixel', which is no input of the model");
  expect_wrong_usage(run_tool({"run", digits(), "--input", archive, "--input", x}), "pixels is given twice");
}

TEST_F(run_inputs, warns_of_damaged_weights_and_of_inputs_that_are_no_numbers) {
  std::vector<uint8_t> bytes = read_bytes(digits());
  bytes[bytes.size() - 200] ^= 0x11;
  write_bytes(directory_ / "damaged.nacre", bytes);
  const ToolRun damaged = run_tool({"run", directory_ / "damaged.nacre", "--seed", "1"});
  EXPECT_EQ(damaged.exit_code, 0);
  EXPECT_TRUE(has(damaged.err, "warning: ") && has(damaged.err, "the weights are damaged")) << damaged.err;
  NpyArray samples = reals({1, 1, 8, 8}, 0.5f);
  const float nan = std::nanf("");
  std::memcpy(&samples.data[4 * 7], &nan, sizeof nan);
  write_npy(directory_ / "nan.npy", samples);
  const ToolRun run = run_tool({"run", digits(), "--input", directory_ / "nan.npy"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(has(run.err, "warning: input pixels: element 7 is NaN or infinite")) << run.err;
  EXPECT_EQ(run_tool({"run", digits(), "--seed", "1"}).err, "");
}

}  // namespace
}  // namespace nacre::tools
