// Tests the ranges of a network's activations over samples.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tools/base/error.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/float_network.h"

namespace nacre::tools {
namespace {

// The network x -> 2 x + 1 -> relu.
const std::string kNet = R"(graph "net" batch=1
layer "fc.0" source="FULLY_CONNECTED"
layer "relu.1" source="RELU"
value %x float32 [1, 2] batched
value %w float32 [2, 2] region=weights data=float32 {2, 0, 0, 2}
value %b float32 [2] region=weights data=float32 {1, 1}
value %h float32 [1, 2] batched
value %y float32 [1, 2] batched
input "x" %x
output "y" %y
%h = dense(%x, %w, %b) name="fc" layer="fc.0"
%y = clamp(%h) clamp=1 high=inf name="relu" layer="relu.1"
)";

Samples samples_of(const Graph& graph, std::vector<int64_t> dims, const std::vector<float>& x) {
  NpyArray array = {.type = ElementType::kFloat32,
                    .dims = std::move(dims),
                    .data = std::vector<uint8_t>(x.size() * sizeof(float)),
                    .place = "test"};
  std::memcpy(array.data.data(), x.data(), array.data.size());
  return make_samples(graph, {array});
}

const std::vector<float> kData = {-3, 1, 0, 0.5, 2, -1};  // three samples

std::string calibration_refusal(const Graph& graph, const Samples& samples, const CalibrationOptions& options) {
  try {
    calibrate(graph, samples, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(calibrate, records_every_activation) {
  const Graph graph = parse(kNet);
  const Calibration c = calibrate(graph, samples_of(graph, {3, 2}, kData));
  EXPECT_EQ(c.samples, 3);
  EXPECT_EQ(c.ranges.size(), 3u);
  EXPECT_EQ(c.find("x")->range, (Range{-3, 2}));
  EXPECT_EQ(c.find("h")->range, (Range{-5, 5}));
  EXPECT_EQ(c.find("y")->range, (Range{0, 5}));
  EXPECT_EQ(c.find("h")->amaxes, (std::vector<float>{5, 2, 5}));
  EXPECT_EQ(c.find("y")->amaxes, (std::vector<float>{3, 2, 5}));
  EXPECT_EQ(c.find("w"), nullptr);
}

TEST(calibrate, of_a_batch_gives_the_ranges_of_single_samples) {
  std::string text = kNet;
  for (size_t at = 0; (at = text.find("[1, 2] batched", at)) != std::string::npos;) text.replace(at, 6, "[4, 2]");
  text.replace(text.find("batch=1"), 7, "batch=4");
  const Graph one = parse(kNet), four = parse(text);
  const Calibration a = calibrate(one, samples_of(one, {3, 2}, kData)),
                    b = calibrate(four, samples_of(four, {3, 2}, kData));
  for (const auto& [name, found] : a.ranges) {
    EXPECT_EQ(found.range, b.find(name)->range) << name;
    EXPECT_EQ(found.amaxes, b.find(name)->amaxes) << name;
  }
}

// In calibration, weights in codes are decoded, and the quantizers of activations round nothing.
TEST(calibrate, decodes_a_quantized_source) {
  std::string text = kNet;
  text.replace(text.find("region=weights data=float32 {2, 0, 0, 2}"), 40,
               "codes=int8 axis=0 scale=[0.5] zero=[0] region=weights data=int8 {4, 0, 0, 4}");
  text.replace(text.find("%h float32 [1, 2] batched"), 25,
               "%h float32 [1, 2] batched codes=int8 axis=0 scale=[3] zero=[0]");
  const Graph graph = parse(text);
  const Calibration c = calibrate(graph, samples_of(graph, {3, 2}, kData));
  EXPECT_EQ(c.find("h")->range, (Range{-5, 5}));
}

TEST(calibrate, takes_methods_by_layer) {
  const Graph graph = parse(kNet);
  const Samples samples = samples_of(graph, {3, 2}, kData);
  const CalibrationOptions options = {
      .method = RangeMethod::kMse,
      .overrides = {{"fc\\.\\d", RangeMethod::kPercentile}, {"x", RangeMethod::kMovingAverage}}};
  const Calibration c = calibrate(graph, samples, options);
  EXPECT_EQ(c.find("x")->method, RangeMethod::kMovingAverage);
  EXPECT_EQ(c.find("h")->method, RangeMethod::kPercentile);
  EXPECT_EQ(c.find("y")->method, RangeMethod::kMse);
  EXPECT_EQ(c.find("h")->range, (Range{-5, 5}));
}

TEST(calibrate, an_exact_name_wins_over_patterns) {
  const Graph graph = parse(kNet);
  const CalibrationOptions options = {.overrides = {{"fc.*", RangeMethod::kMse}, {"fc.0", RangeMethod::kEntropy}}};
  EXPECT_EQ(calibrate(graph, samples_of(graph, {3, 2}, kData), options).find("h")->method, RangeMethod::kEntropy);
}

TEST(calibrate, refuses_patterns_by_name) {
  const Graph graph = parse(kNet);
  const Samples samples = samples_of(graph, {3, 2}, kData);
  const auto told = [&](std::vector<std::pair<std::string, RangeMethod>> overrides) {
    return calibration_refusal(graph, samples, {.overrides = std::move(overrides)});
  };
  EXPECT_NE(told({{"fc", RangeMethod::kMse}}).find("--range 'fc=mse': matches no layer"), std::string::npos);
  EXPECT_NE(told({{"(fc", RangeMethod::kMse}}).find("missing ) of a group"), std::string::npos);
  EXPECT_NE(told({{"(?=fc).*", RangeMethod::kMse}}).find("RE2 has no look-ahead"), std::string::npos);
  const std::string both = told({{"fc.*", RangeMethod::kMse}, {".*0", RangeMethod::kEntropy}});
  EXPECT_NE(both.find("fc.0: --range 'fc.*=mse' and --range '.*0=entropy' both match"), std::string::npos) << both;
  EXPECT_EQ(told({{"fc.*", RangeMethod::kMse}, {".*0", RangeMethod::kMse}}), "taken");
}

TEST(calibrate, refuses_numbers_outside_its_options) {
  const Graph graph = parse(kNet);
  const Samples samples = samples_of(graph, {3, 2}, kData);
  EXPECT_NE(calibration_refusal(graph, samples, {.percentile = 50}).find("--percentile: 50"), std::string::npos);
  EXPECT_NE(calibration_refusal(graph, samples, {.percentile = NAN}).find("--percentile"), std::string::npos);
  EXPECT_NE(calibration_refusal(graph, samples, {.decay = 1}).find("--range-decay: 1"), std::string::npos);
}

TEST(calibrate, refuses_activations_that_are_not_finite) {
  const Graph graph = parse(kNet);
  const std::string told = calibration_refusal(graph, samples_of(graph, {2, 2}, {1, 2, 3e38f, 1}), {});
  EXPECT_NE(told.find("net: fc.0: h has inf at element 0 for sample 2"), std::string::npos) << told;
}

TEST(float_network, keeps_every_value_of_a_run) {
  // The values are ones that a memory plan would overlap, and views.
  std::string text = "graph \"net\" batch=1\nvalue %v0 float32 [1, 4] batched\ninput \"x\" %v0\n";
  for (int i = 1; i <= 6; ++i) text += "value %v" + std::to_string(i) + " float32 [1, 4] batched\n";
  text += "value %r float32 [1, 2, 2] batched\noutput \"y\" %r\n";
  for (int i = 1; i <= 6; ++i)
    text +=
        "%v" + std::to_string(i) + " = add(%v" + std::to_string(i - 1) + ", %v0) name=\"a" + std::to_string(i) + "\"\n";
  text += "%r = reshape(%v6) rank=3 dims=[1, 2, 2] name=\"r\"\n";
  const Graph graph = parse(text);
  FloatNetwork network(graph);
  const Samples samples = samples_of(graph, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  network.run(samples, 1);
  ASSERT_EQ(network.taps().size(), 8u);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(network.value(network.taps()[i])[3], 8.0f * float(std::min<size_t>(i, 6) + 1)) << i;
}

}  // namespace
}  // namespace nacre::tools
