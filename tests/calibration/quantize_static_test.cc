// Tests quantize_static: quantizers and codes of dense layers, the steps that apply_policy makes of them, and
// refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "tests/calibration/static_int8_graphs.h"
#include "tests/graph/run_graph.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

using namespace static_int8_graphs;

std::string refusal(Graph graph, const Calibration* calibration) {
  try {
    quantize_static(graph, calibration);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

const std::string kDense =
    kHead + R"(layer "fc" source="FULLY_CONNECTED"
layer "act" source="RELU"
)" + activation("x") +
    activation("h", "[1, 2]") + activation("y", "[1, 2]") +
    R"(value %w float32 [2, 4] region=weights data=float32 {1.1, -2, 0.5, 0.25, 0.01, 0.03, -0.04, 0}
value %b float32 [2] region=weights data=float32 {0.3, -0.1}
input "x" %x
output "y" %y
%h = dense(%x, %w, %b) name="fc" layer="fc"
%y = clamp(%h) clamp=1 high=inf name="act" layer="act"
)";

const std::vector<std::pair<std::string, Range>> kDenseRanges = {{"x", {-1, 1}}, {"h", {-5, 4}}, {"y", {0, 4}}};

TEST(quantize_static, a_clamp_is_fused_before_the_quantizer) {
  const Graph graph = quantized(asked(kDense), ranges(kDenseRanges));
  EXPECT_FALSE(value(graph, "h").quantizer.has_value());
  expect_codes(graph, "x/int8", {-1, 1});
  expect_codes(graph, "y/int8", {0, 4});
  EXPECT_EQ(ops(compiled(graph)), (std::vector<Op>{Op::kQuantize, Op::kDense, Op::kDequantize}));
}

TEST(quantize_static, a_value_that_others_read_keeps_its_codes_before_the_clamp) {
  const Graph graph = quantized(asked(kDense + "output \"h\" %h\n"), ranges(kDenseRanges));
  expect_codes(graph, "h/int8", {-5, 4});
}

TEST(quantize_static, weights_are_coded_per_output_and_the_bias_by_both_scales) {
  const Graph graph = quantized(asked(kDense), ranges(kDenseRanges));
  const Value &w = value(graph, "w"), &b = value(graph, "b");
  EXPECT_EQ(w.stored, ElementType::kInt8);
  EXPECT_EQ(w.quantizer->scale, (std::vector<float>{float(2.0 / 127), float(double(0.04f) / 127)}));
  EXPECT_EQ(integers(w), (std::vector<int64_t>{70, -127, 32, 16, 32, 95, -127, 0}));  // 69.85, 31.75, 15.875, 95.25
  EXPECT_EQ(b.stored, ElementType::kInt32);
  const double x_scale = quantizer_of_range({-1, 1}).scale[0];
  for (size_t k = 0; k < 2; ++k) {
    const double unit = x_scale * double(w.quantizer->scale[k]);
    EXPECT_FLOAT_EQ(b.quantizer->scale[k], float(unit));
    EXPECT_EQ(integers(b)[k], std::llround(double(k == 0 ? 0.3f : -0.1f) / unit));
  }
}

TEST(quantize_static, dense_weights_have_one_scale_where_asked_for) {
  const Graph graph = quantized(asked(kDense), ranges(kDenseRanges), {.dense_per_channel = false});
  EXPECT_EQ(value(graph, "w").quantizer->scale, std::vector<float>{float(2.0 / 127)});
  EXPECT_EQ(value(graph, "b").quantizer->scale.size(), 1u);
}

// |b| = 3 in units of s_x s_w = (2 / 255) (5e-7 / 127) would be 9.7e10. The scale s_w is widened so far that the bias
// code is half of int32.
TEST(quantize_static, a_bias_beyond_int32_widens_its_channel) {
  std::string text = kDense;
  text.replace(text.find("{1.1, -2, 0.5, 0.25, 0.01, 0.03, -0.04, 0}"), 42, "{1, -2, 0.5, 0.25, 0, 0, 0, 1e-20}");
  text.replace(text.find("{0.3, -0.1}"), 11, "{0.3, -3}");
  const Graph graph = quantized(asked(text), ranges(kDenseRanges));
  const double x_scale = quantizer_of_range({-1, 1}).scale[0];
  EXPECT_FLOAT_EQ(value(graph, "w").quantizer->scale[1], float(6 / (x_scale * 2147483647.0)));
  EXPECT_NEAR(double(integers(value(graph, "b"))[1]), -double(1 << 30), 256);  // s_w is rounded to 2^-24 of itself
  EXPECT_FLOAT_EQ(value(graph, "w").quantizer->scale[0], 2.0f / 127);
}

// A value that is in [-1, 1] and rounded to a step s: each factor of a product is off by half a step,
//
//   |y' - y| <= sum_j (|w_j| s_x + |x_j| s_w + s_x s_w / 2) / 2 + s_b / 2 + s_y
//
// with s_y, not s_y / 2, for the fixed-point multiplier.
TEST(quantize_static, a_dense_layer_stays_within_half_steps) {
  const Graph real = parse(kDense);
  const Graph program = compiled(quantized(asked(kDense), ranges(kDenseRanges)));
  const Graph static_graph = quantized(asked(kDense), ranges(kDenseRanges));
  const double s_x = value(static_graph, "x/int8").quantizer->scale[0],
               s_y = value(static_graph, "y/int8").quantizer->scale[0];
  const std::vector<float> w = reals(value(real, "w"));
  std::mt19937 rng(1);
  for (int run = 0; run < 200; ++run) {
    const std::vector<std::vector<uint8_t>> inputs = random_inputs(real, rng);
    const std::vector<float> a = reals(value(run_graph(real, inputs), "y")),
                             b = reals(value(run_graph(program, inputs), "y"));
    for (size_t k = 0; k < 2; ++k) {
      const double s_w = value(static_graph, "w").quantizer->scale[k];
      double bound = s_x * s_w / 2 + s_y;
      for (size_t j = 0; j < 4; ++j) bound += (std::abs(double(w[4 * k + j])) * s_x + s_w + s_x * s_w / 2) / 2;
      EXPECT_LE(std::abs(double(a[k]) - double(b[k])), bound) << "run " << run << " output " << k;
    }
  }
}

TEST(quantize_static, weights_that_a_real_layer_reads_too_are_copied) {
  std::string text = kDense + "%z = dense(%x, %w, %b) name=\"real\" layer=\"real\"\noutput \"z\" %z\n";
  text.insert(text.find("value %x"), activation("z", "[1, 2]"));
  text.insert(text.find("layer \"act\""), "layer \"real\" source=\"FULLY_CONNECTED\"\n");
  const Graph graph = quantized(asked(text, {"real"}), ranges(kDenseRanges));
  EXPECT_EQ(value(graph, "w").stored, ElementType::kFloat32);
  EXPECT_EQ(value(graph, "w/int8").stored, ElementType::kInt8);
  compiled(graph);
}

TEST(quantize_static, a_missing_range_names_the_layer_and_the_remedy) {
  EXPECT_EQ(refusal(asked(kDense), nullptr),
            "net: fc (FULLY_CONNECTED): policy int8/static needs a range for its input\n"
            "    give samples with --calibrate FILE, or a policy with dynamic scales, int8_from_float32");
  const Calibration other = ranges({{"x", {-1, 1}}});
  EXPECT_NE(refusal(asked(kDense), &other).find("no range was recorded for y"), std::string::npos);
}

TEST(quantize_static, weights_that_are_not_finite_are_refused_by_name) {
  const Calibration c = ranges(kDenseRanges);
  for (const auto& [name, at] : {std::pair{"w", size_t{5}}, std::pair{"b", size_t{1}}}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Graph graph = asked(kDense);
      for (Value& v : graph.values) {
        if (v.name != name) continue;
        std::vector<uint8_t> bytes = *v.data;
        std::memcpy(&bytes[at * sizeof bad], &bad, sizeof bad);
        v.data = std::make_shared<const std::vector<uint8_t>>(bytes);
      }
      const std::string told = refusal(graph, &c);
      EXPECT_NE(told.find(std::string("net: fc (FULLY_CONNECTED): ") + name + " has "), std::string::npos) << told;
      EXPECT_NE(told.find(" at element " + std::to_string(at)), std::string::npos) << told;
    }
  }
}

TEST(quantize_static, a_quantized_network_keeps_its_quantizers_and_needs_no_data) {
  const std::string text = kHead + R"(layer "fc" source="FULLY_CONNECTED"
value %x float32 [1, 4] codes=int8 axis=0 scale=[0.05] zero=[-5]
value %w float32 [3, 4] codes=int8 axis=0 scale=[0.01] zero=[0] data=int8 {1, 2, 3, -4, 127, 0, 0, 0, 1, 1, 1, 1}
value %b float32 [3] codes=int32 axis=0 scale=[0.0005] zero=[0] data=int32 {100, -200, 0}
value %y float32 [1, 3] codes=int8 axis=0 scale=[0.1] zero=[3]
input "x" %x
output "y" %y
%y = dense(%x, %w, %b) name="fc" layer="fc"
)";
  Graph graph = asked(text);
  const std::string before = dump(graph);
  quantize_static(graph, nullptr);
  EXPECT_EQ(dump(graph), before);
}

TEST(quantize_static, layers_that_did_not_ask_stay_as_they_are) {
  Graph graph = parse(kDense);
  for (Layer& layer : graph.layers)
    layer.policy.quantization = Quantization::kInt8Static;  // set by a source, without asked
  const std::string before = dump(graph);
  quantize_static(graph, nullptr);
  EXPECT_EQ(dump(graph), before);
}

TEST(quantize_static, float8_layers_get_the_amaxes_of_their_inputs) {
  Graph graph = parse(kDense);
  graph.layers[0].policy.quantization = Quantization::kFloat8;
  graph.layers[0].asked = true;
  const Calibration c = ranges(kDenseRanges);
  quantize_static(graph, &c);
  EXPECT_EQ(value(graph, "x").amaxes, (std::vector<float>{1, 2}));
  EXPECT_TRUE(value(graph, "h").amaxes.empty());
  EXPECT_TRUE(value(graph, "w").amaxes.empty());
  EXPECT_FALSE(has_value(graph, "x/int8"));
}

}  // namespace
}  // namespace nacre::tools
