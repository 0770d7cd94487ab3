// Tests that masks of softmax are left out of ranges: where codes begin, which values may be infinite, which stay
// real.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tools/base/error.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Returns a network of softmax(x + mask), with three scores a row.
std::string masked_net(const std::string& mask) {
  return R"(graph "net" batch=1
layer "add" source="Add" asked=1 quantization=int8/static
layer "soft" source="Softmax" asked=1 quantization=int8/static
value %x float32 [1, 3] batched
value %m float32 [1, 3] region=weights data=float32 {)" +
         mask + R"(}
value %s float32 [1, 3] batched
value %y float32 [1, 3] batched
input "x" %x
output "y" %y
%s = add(%x, %m) name="add" layer="add"
%y = softmax(%s) axis=1 beta=1 name="soft" layer="soft"
)";
}

Samples scores(const Graph& graph, const std::vector<float>& x) {
  NpyArray array = {.type = ElementType::kFloat32,
                    .dims = {int64_t(x.size() / 3), 3},
                    .data = std::vector<uint8_t>(x.size() * sizeof(float)),
                    .place = "test"};
  std::memcpy(array.data.data(), x.data(), array.data.size());
  return make_samples(graph, {array});
}

const std::vector<float> kScores = {1, 2, 3, -1, 0, 5};

TEST(softmax_masks, codes_begin_where_a_softmax_uses_nothing_below) {
  const float low = float(0 - std::log(512.0 * 3));  // the least peak is 0: 5 is masked
  for (const char* mask : {"-inf", "-1e4", "-1e9", "-3.4028235e38", "-100"}) {
    const Graph graph = parse(masked_net(std::string("0, 0, ") + mask));
    for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kMovingAverage, RangeMethod::kPercentile,
                                     RangeMethod::kMse, RangeMethod::kEntropy}) {
      const Calibration found = calibrate(graph, scores(graph, kScores), {.method = method});
      EXPECT_EQ(found.find("s")->range.low, low) << mask;
      EXPECT_LE(found.find("s")->range.high, 2) << mask;
      EXPECT_EQ(found.find("x")->range.high, found.find("x")->range.high) << mask;
      ASSERT_EQ(found.masks.operands.size(), 1u) << mask;
      EXPECT_EQ(found.masks.operands.begin()->second.low, low - 5) << mask;
    }
  }
}

TEST(softmax_masks, a_bias_of_scores_is_no_mask) {
  const Graph graph = parse(masked_net("0, -2, -4"));
  const Calibration found = calibrate(graph, scores(graph, kScores));
  EXPECT_TRUE(found.masks.empty());
  EXPECT_EQ(found.find("s")->range, (Range{-2, 1}));
}

TEST(softmax_masks, the_constant_s_codes_end_at_the_limit) {
  Graph graph = parse(masked_net("0, 0, -inf"));
  const Calibration found = calibrate(graph, scores(graph, kScores));
  quantize_static(graph, &found);
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kAdd) continue;
    const Value& mask = graph.values[size_t(node.inputs[1])];
    ASSERT_EQ(mask.stored, ElementType::kInt8);
    EXPECT_NEAR(reals(mask)[2], found.masks.operands.begin()->second.low, 0.1);
    EXPECT_EQ(reals(mask)[0], 0);
  }
}

TEST(softmax_masks, infinity_elsewhere_is_refused) {
  std::string text = masked_net("0, 0, -inf");
  text.replace(text.find("output \"y\" %y"), 13, "output \"y\" %y\noutput \"s\" %s");
  const Graph graph = parse(text);
  EXPECT_THROW(calibrate(graph, scores(graph, kScores)), Error);
}

TEST(softmax_masks, a_row_without_scores_sets_no_limit) {
  const Graph graph = parse(masked_net("-1e9, -1e9, -1e9"));
  const Calibration found = calibrate(graph, scores(graph, kScores));
  EXPECT_TRUE(std::isfinite(found.find("s")->range.low));
  EXPECT_LT(kNoScore, found.find("s")->range.low);
}

// m is an input, and the mask (1 - m) x -1e9 is computed from it.
const std::string kComputed = R"(graph "net" batch=1
layer "away" source="Sub" asked=1 quantization=int8/static
layer "mask" source="Mul" asked=1 quantization=int8/static
layer "add" source="Add" asked=1 quantization=int8/static
layer "soft" source="Softmax" asked=1 quantization=int8/static
value %x float32 [1, 3]
value %m float32 [1, 3]
value %one float32 [1] region=weights data=float32 {1}
value %away float32 [1, 3]
value %low float32 [1] region=weights data=float32 {-1e9}
value %mask float32 [1, 3]
value %s float32 [1, 3]
value %y float32 [1, 3]
input "x" %x
input "m" %m
output "y" %y
%away = sub(%one, %m) name="away" layer="away"
%mask = mul(%away, %low) name="mask" layer="mask"
%s = add(%x, %mask) name="add" layer="add"
%y = softmax(%s) axis=1 beta=1 name="soft" layer="soft"
)";

TEST(softmax_masks, what_computes_a_mask_stays_real_and_is_listed) {
  Graph graph = parse(kComputed);
  const SoftmaxMasks masks(graph);
  for (size_t id = 0; id < graph.values.size(); ++id)
    EXPECT_EQ(masks.only_masks(ValueId(id)), graph.values[id].name == "mask") << graph.values[id].name;
  Calibration found;
  for (const char* name : {"x", "m", "away", "mask", "s"}) found.ranges[name].range = {-1, 1};
  quantize_static(graph, &found);
  ASSERT_EQ(graph.fallbacks.size(), 1u);
  EXPECT_NE(graph.fallbacks[0].find("mask (mul): wants int8/static, runs in float32"), std::string::npos);
}

}  // namespace
}  // namespace nacre::tools
