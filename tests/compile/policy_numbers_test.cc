// Tests one dense layer under Keras's policies, small enough to follow by hand, against y of Keras 3.15.1.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

// Returns y of x [1, n] and w [1, n]. The float8 scale is calibrated on x.
float dense(const std::string& policy, const std::vector<float>& x, const std::string& w) {
  const std::string n = std::to_string(x.size());
  Graph graph = parse("graph \"t\" batch=1\nlayer \"fc\" source=\"Dense\"\nvalue %x float32 [1, " + n +
                      "]\nvalue %w float32 [1, " + n + "] data=float32 {" + w +
                      "}\nvalue %y float32 [1, 1]\ninput \"x\" %x\noutput \"y\" %y\n"
                      "%y = dense(%x, %w) name=\"fc\" layer=\"fc\"\n");
  Calibration calibration;
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::abs(v));
  calibration.ranges["x"].amaxes = {amax};
  calibration.ranges["x"].range = {-amax, amax};
  calibration.samples = 1;
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy});
  options.calibration = &calibration;
  const Compiled compiled = compile(graph, options);
  EXPECT_TRUE(compiled.graph.fallbacks.empty()) << policy;
  const LoadedModel model(compiled.bytes, "dense", "");
  BoundProgram bound(model, model.infer_program());
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  const std::vector<uint8_t> bytes = bound.run({first, x.size() * sizeof(float)});
  float y = 0;
  std::memcpy(&y, bytes.data(), sizeof y);
  return y;
}

// Keras casts the scales to bfloat16, and divides, clips and multiplies there. The sum is 1.2574 in float32.
TEST(policy_numbers, float8_from_mixed_bfloat16_is_keras_s) {
  const std::vector<float> x = {0.921875f, 1.03125f};
  EXPECT_EQ(dense("float8_from_mixed_bfloat16", x, "0.953125, 0.421875"), 1.2578125f);
  EXPECT_EQ(dense("float8/1024_from_mixed_bfloat16", x, "0.953125, 0.421875"), 1.3359375f);
}

TEST(policy_numbers, groups_of_one_sign_saturate_where_the_policy_asks_for_keras_s_range) {
  const std::vector<float> x = {1, 1, 1, 1};
  EXPECT_EQ(dense("int4/4_from_float32;group_range=keras", x, "1, 1.1, 1.2, 1.3"), 1.2000002f);
  EXPECT_FLOAT_EQ(dense("int4/4_from_float32", x, "1, 1.1, 1.2, 1.3"), 4.68f);
  EXPECT_EQ(dense("int4/4_from_float32", x, "1, 1.1, 1.2, 1.3"),
            dense("int4/4_from_float32;group_range=with_zero", x, "1, 1.1, 1.2, 1.3"));
}

// The weights are 2 and 1, and x selects the second. 127 / 2 is 63.5, so its code is 63 in float64 and 64 in float32.
TEST(policy_numbers, int8_from_float64_has_the_codes_of_float64) {
  EXPECT_NEAR(double(dense("int8_from_float64", {0, 1}, "2, 1")), 63 / 63.5, 1e-6);
  EXPECT_NEAR(double(dense("int8_from_float32", {0, 1}, "2, 1")), 64 / 63.5, 1e-6);
}

// The codes are 7 and 7. The sum 8.09375 is 8.125 in bfloat16, whose quotient by 7 differs.
TEST(policy_numbers, each_operation_rounds_where_the_policy_says_so) {
  EXPECT_EQ(dense("int4_from_mixed_bfloat16", {1, 0.15625f}, "1, 0.99"), 1.15625f);
  EXPECT_EQ(dense("int4_from_mixed_bfloat16;rounding=each", {1, 0.15625f}, "1, 0.99"), 1.1640625f);
}

}  // namespace
}  // namespace nacre::tools
