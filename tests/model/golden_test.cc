#include "tools/model/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "tests/run_tool.h"

namespace nacre::tools {
namespace {

class golden : public testing::Test {
 protected:
  static std::unique_ptr<LoadedModel> convert(const std::string& network, const TemporaryDirectory& directory) {
    const ToolRun run = run_tool({"convert", network, "-o", directory / "m.nacre"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return std::make_unique<LoadedModel>(directory / "m.nacre");
  }

  static std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    return {bytes, bytes + values.size() * sizeof(float)};
  }

  const TemporaryDirectory directory_;
};

// The shared data of golden/tflite draw their inputs by the same rule (README.md there), so both must be equal.
TEST_F(golden, seeded_inputs_are_those_of_the_shared_golden_data) {
  if (!std::filesystem::exists(shared_path("golden/tflite"))) GTEST_SKIP() << "no shared data";
  for (const char* name : {"kws_ref_model", "ad01_fp32"}) {
    const auto model = convert(shared_path(std::string("models/mlperf_tiny/") + name + ".tflite"), directory_);
    for (const uint64_t seed : {uint64_t{1}, uint64_t{2}})
      EXPECT_EQ(seeded_inputs(*model, 0, seed), read_bytes(shared_path(std::string("golden/tflite/") + name + ".s" +
                                                                       std::to_string(seed) + ".in0.bin")));
  }
}

TEST_F(golden, pairs_differ_by_seed_and_are_reproduced) {
  const auto model = convert(project_path("tools/samples/digits.onnx"), directory_);
  const std::vector<GoldenPair> a = make_golden(*model, 0, 3), b = make_golden(*model, 0, 2);
  ASSERT_EQ(a.size(), 3u);
  EXPECT_NE(a[0].inputs, a[1].inputs);
  EXPECT_NE(a[0].outputs, a[1].outputs);
  EXPECT_EQ(a[1].inputs, b[1].inputs);
  EXPECT_EQ(a[1].outputs, b[1].outputs);
  EXPECT_EQ(a[0].tolerance, kFloatTolerance);
}

TEST_F(golden, difference_is_relative_to_the_largest_magnitude) {
  const auto model = convert(project_path("tools/samples/digits.onnx"), directory_);
  const std::vector<float> expected = {0, 1, 2, 3, 4, -8, 0, 0, 0, 0};
  std::vector<float> found = expected;
  EXPECT_TRUE(difference(*model, 0, bytes_of(expected), bytes_of(found)).within(0));
  found[1] += 0.5f;
  const Difference d = difference(*model, 0, bytes_of(expected), bytes_of(found));
  EXPECT_EQ(d.largest, 0.5 / 8);
  EXPECT_TRUE(d.within(0.0625f));
  EXPECT_FALSE(d.within(0.0624f));
}

TEST_F(golden, a_nan_equals_nothing_but_itself) {
  const auto model = convert(project_path("tools/samples/digits.onnx"), directory_);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> expected(10, 1), found(10, 1);
  found[3] = nan;
  EXPECT_FALSE(difference(*model, 0, bytes_of(expected), bytes_of(found)).within(1e30f));
  expected[3] = nan;
  EXPECT_TRUE(difference(*model, 0, bytes_of(expected), bytes_of(found)).within(0));
}

}  // namespace
}  // namespace nacre::tools
