// Tests apply_policy on graphs as text. The numbers come from ../shared/facts/policies.md 7.8 and from exact
// arithmetic by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/passes/graph_text.h"
#include "tests/passes/policy_graphs.h"
#include "tools/base/error.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using namespace policy_graphs;

// policies.md 7.8, "FC int8 (relu)": s_x 0.05, zero -5; s_w per channel; s_y 0.1, zero 3.
const std::string kDense = R"(graph "t" batch=1
layer "fc" source="FULLY_CONNECTED"
value %x float32 [1, 4] codes=int8 axis=0 scale=[0.05] zero=[-5]
value %w float32 [3, 4] codes=int8 axis=0 scale=[0.01, 0.002, 0.03] zero=[0, 0, 0] )"
                           R"(data=int8 {1, 2, 3, -4, 127, -127, 64, 0, -7, 9, -11, 13}
value %b float32 [3] codes=int32 axis=0 scale=[0.0005, 0.0001, 0.0015] zero=[0, 0, 0] data=int32 {100, -200, 0}
value %y float32 [1, 3] codes=int8 axis=0 scale=[0.1] zero=[3]
input "x" %x
output "y" %y
)";

TEST(apply_policy, dense_takes_codes_verbatim_and_tflite_multipliers) {
  const Graph graph = resolved(kDense + "%y = dense(%x, %w, %b) clamp=1 high=inf name=\"fc\" layer=\"fc\"\n");
  EXPECT_EQ(steps(graph),
            "%y = dense(%x, %w, %b, %y/requant) clamp=1 low=3 high=127 x_zero=-5 y_zero=3 rounding=double name=\"fc\" "
            "layer=\"fc\"\n");
  EXPECT_EQ(integers(value(graph, "y/requant")), (Codes{1374389504, -7, 1099511680, -9, 2061584256, -6}));
  EXPECT_EQ(integers(value(graph, "w")), (Codes{1, 2, 3, -4, 127, -127, 64, 0, -7, 9, -11, 13}));
  EXPECT_EQ(integers(value(graph, "b")), (Codes{100, -200, 0}));
  EXPECT_EQ(value(graph, "x").type, ElementType::kInt8);
  EXPECT_EQ(value(graph, "w").type, ElementType::kInt8);
  EXPECT_EQ(value(graph, "b").type, ElementType::kInt32);
}

TEST(apply_policy, a_layer_s_record_says_what_its_steps_do) {
  const Graph graph = resolved(kDense + "%y = dense(%x, %w, %b) name=\"fc\" layer=\"fc\"\n");
  const Policy& policy = graph.layers[0].policy;
  EXPECT_EQ(policy.variable, ElementType::kInt8);
  EXPECT_EQ(policy.compute, ElementType::kInt8);
  EXPECT_EQ(policy.output, ElementType::kInt8);
  EXPECT_EQ(policy.quantization, Quantization::kInt8Static);
  EXPECT_EQ(Rounding(policy.rounding), Rounding::kDouble);
}

// policies.md 7.8, float_requant_585: the float32 product and quotient of the three scales has the bits 0x3c360b61.
TEST(apply_policy, float_even_scales_are_float32_products) {
  const Graph graph = resolved(R"(graph "t" batch=1
layer "fc" source="FULLY_CONNECTED"
value %x float32 [1, 1] codes=int8 axis=0 scale=[0.05296124517917633] zero=[0]
value %w float32 [1, 1] codes=int8 axis=0 scale=[0.024093778803944588] zero=[0] data=int8 {5}
value %y float32 [1, 1] codes=int8 axis=0 scale=[0.11484327912330627] zero=[0]
input "x" %x
output "y" %y
%y = dense(%x, %w) name="fc" layer="fc"
)",
                               Rounding::kFloatEven);
  EXPECT_EQ(steps(graph), "%y = dense(%x, %w, none, %y/requant) rounding=float_even name=\"fc\" layer=\"fc\"\n");
  EXPECT_EQ(std::bit_cast<uint32_t>(reals(value(graph, "y/requant"))[0]), 0x3c360b61u);
}

TEST(apply_policy, a_bias_of_another_scale_is_quantized_anew) {
  std::string text = kDense;
  text.replace(text.find("scale=[0.0005, 0.0001, 0.0015]"), 30, "scale=[0.5, 0.5, 0.5]");  // 50, -100, 0 in real
  const Graph graph = resolved(text + "%y = dense(%x, %w, %b) name=\"fc\" layer=\"fc\"\n");
  // 50 / (0.05 * 0.01) and -100 / (0.05 * 0.002), up to the float32 rounding of the scales: 2^-24 * 3 relative.
  const Codes bias = integers(value(graph, "b/codes"));
  EXPECT_NEAR(double(bias[0]), 100000, 1);
  EXPECT_NEAR(double(bias[1]), -1000000, 1);
  EXPECT_EQ(bias[2], 0);
  EXPECT_FALSE(graph.log.empty());
}

// With one scale per tensor, TFLite's dense multiplies s_x s_w in float32 (GetQuantizedConvolutionMultipler), and its
// convolution in float64 (PopulateConvolutionQuantizationParams). With these scales the products have different
// multipliers.
TEST(apply_policy, per_tensor_scales_multiply_in_float32_for_dense_and_float64_for_conv) {
  const auto requant = [](const std::string& shapes, const std::string& node) {
    return integers(
        value(resolved("graph \"t\" batch=1\n" + shapes + "input \"x\" %x\noutput \"y\" %y\n" + node), "y/requant"));
  };
  const float s_x = 0.3910152316093445f, s_w = 0.0072474274784326553f, s_y = 0.36449846625328064f;
  const std::string x = " codes=int8 axis=0 scale=[0.39101523] zero=[0]\n",
                    y = " codes=int8 axis=0 scale=[0.36449847] zero=[0]\n";
  const std::string w = " codes=int8 axis=0 scale=[0.0072474275] zero=[0] data=int8 {1}\n";
  const Codes dense =
      requant("value %x float32 [1, 1]" + x + "value %w float32 [1, 1]" + w + "value %y float32 [1, 1]" + y,
              "%y = dense(%x, %w)\n");
  const Codes conv = requant(
      "value %x float32 [1, 1, 1, 1]" + x + "value %w float32 [1, 1, 1, 1]" + w + "value %y float32 [1, 1, 1, 1]" + y,
      "%y = conv2d(%x, %w)\n");
  // m = round(M 2^(31 - shift)), M in [2^-8, 2^-7).
  EXPECT_EQ(dense, (Codes{std::llround(std::ldexp(double(s_x * s_w) / double(s_y), 38)), -7}));
  EXPECT_EQ(conv, (Codes{std::llround(std::ldexp(double(s_x) * double(s_w) / double(s_y), 38)), -7}));
  EXPECT_NE(dense, conv);
}

TEST(apply_policy, add_and_sub_scale_by_twice_the_larger_scale) {
  // twice = 1: M_a = 0.5, M_b = 0.25, M_y = 1 / 2^20.
  for (const std::string op : {"add", "sub"}) {
    const Graph graph = resolved(kTwo + "%y = " + op + "(%a, %b) clamp=1 high=6 name=\"n\" layer=\"l\"\n");
    EXPECT_EQ(steps(graph), "%y = " + op +
                                "(%a, %b, %y/requant) clamp=1 low=1 high=7 a_zero=3 b_zero=-7 y_zero=1 left_shift=20 "
                                "rounding=double name=\"n\" layer=\"l\"\n");
    EXPECT_EQ(integers(value(graph, "y/requant")), (Codes{1 << 30, 0, 1 << 30, -1, 1 << 30, -19}));
  }
}

TEST(apply_policy, mul_has_one_multiplier) {
  const Graph graph = resolved(kTwo + "%y = mul(%a, %b) name=\"n\" layer=\"l\"\n");
  EXPECT_EQ(steps(graph),
            "%y = mul(%a, %b, %y/requant) a_zero=3 b_zero=-7 y_zero=1 rounding=double name=\"n\" layer=\"l\"\n");
  EXPECT_EQ(integers(value(graph, "y/requant")), (Codes{1 << 30, -2}));  // 0.125 = 0.5 2^-2
}

TEST(apply_policy, clamp_requantizes_only_between_quantizers) {
  const Graph other = resolved(kTwo + "%y = clamp(%a) clamp=1 high=inf name=\"relu\" layer=\"l\"\n");
  EXPECT_EQ(steps(other),
            "%y = clamp(%a, %y/requant) clamp=1 low=1 high=127 x_zero=3 y_zero=1 rounding=double name=\"relu\" "
            "layer=\"l\"\n");
  std::string same = kTwo;
  same.replace(same.find("scale=[1] zero=[1]"), 18, "scale=[0.5] zero=[3]");
  EXPECT_EQ(steps(resolved(same + "%y = clamp(%a) clamp=1 low=-1 high=1 name=\"c\" layer=\"l\"\n")),
            "%y = clamp(%a) clamp=1 low=1 high=5 x_zero=3 y_zero=3 rounding=double name=\"c\" layer=\"l\"\n");
}

// The rows are act_range of policies.md 7.8.
TEST(apply_policy, clamp_codes_follow_tflite_s_activation_range) {
  struct Row {
    const char *scale, *zero, *bounds, *codes;
  };
  constexpr Row kRows[] = {
      {"0.1", "0", "", ""},
      {"0.1", "-10", "clamp=1 high=inf ", "clamp=1 low=-10 high=127 "},
      {"0.1", "-10", "clamp=1 high=6 ", "clamp=1 low=-10 high=50 "},
      {"0.0235294118", "-128", "clamp=1 high=6 ", ""},
      {"0.02", "0", "clamp=1 high=6 ", "clamp=1 high=127 "},
      {"0.0078125", "0", "clamp=1 low=-1 high=1 ", ""},
      {"0.1", "-128", "clamp=1 high=inf ", ""},
  };
  for (const Row& row : kRows) {
    std::string text = kTwo;
    text.replace(text.find("scale=[1] zero=[1]"), 18, std::string("scale=[") + row.scale + "] zero=[" + row.zero + "]");
    const std::string line = steps(resolved(text + "%y = mul(%a, %b) " + row.bounds + "name=\"n\" layer=\"l\"\n"));
    EXPECT_NE(line.find(std::string("(%a, %b, %y/requant) ") + row.codes + "a_zero"), std::string::npos)
        << line << "scale " << row.scale << " zero " << row.zero << " " << row.bounds;
  }
}

TEST(apply_policy, softmax_has_tflite_s_scaling) {
  std::string text = kTwo;
  text.replace(text.find("scale=[1] zero=[1]"), 18, "scale=[0.00390625] zero=[-128]");
  // M = 0.5 2^26 = 2^25: m = 2^30, shift 26; diff_min = -floor(31 2^26 / 2^26).
  EXPECT_EQ(steps(resolved(text + "%y = softmax(%a) axis=1 beta=1 name=\"s\" layer=\"l\"\n")),
            "%y = softmax(%a) axis=1 beta=1 multiplier=1073741824 shift=26 diff_min=-31 rounding=double name=\"s\" "
            "layer=\"l\"\n");
}

const std::string kFloatWithCodes = R"(graph "t" batch=1
layer "fc" source="FULLY_CONNECTED" POLICY
value %x float32 [2, 2]
value %w float32 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[0] data=int8 {4, -2}
value %b float32 [1] data=float32 {1}
value %y float32 [2, 1]
input "x" %x
output "y" %y
%y = dense(%x, %w, %b) name="fc" layer="fc"
)";
std::string float_with_codes(const std::string& policy) {
  std::string text = kFloatWithCodes;
  return text.replace(text.find("POLICY"), 6, policy);
}

TEST(apply_policy, weights_are_decoded_where_no_policy_says_otherwise) {
  const Graph graph = resolved(float_with_codes(""));
  EXPECT_EQ(steps(graph), "%y = dense(%x, %w/real, %b) name=\"fc\" layer=\"fc\"\n");
  EXPECT_EQ(reals(value(graph, "w/real")), (std::vector<float>{2, -1}));
  EXPECT_EQ(graph.log.size(), 1u);
}

TEST(apply_policy, weight_only_keeps_codes_and_float_arithmetic) {
  const Graph graph = resolved(float_with_codes("quantization=int8/weights"));
  EXPECT_EQ(steps(graph), "%y = dense(%x, %w, %b, %y/w_scale) name=\"fc\" layer=\"fc\"\n");
  EXPECT_EQ(graph.layers[0].policy.variable, ElementType::kInt8);
  EXPECT_EQ(graph.layers[0].policy.compute, ElementType::kFloat32);
}

TEST(apply_policy, hybrid_quantizes_each_row_at_run_time) {
  const Graph graph = resolved(float_with_codes("quantization=int8"));
  EXPECT_EQ(steps(graph),
            "%x/codes, %x/scale, %x/zero = dynamic_quantize(%x) axis=1 symmetric=1 name=\"fc/quantize\" layer=\"fc\"\n"
            "%y = dense(%x/codes, %w, %b, %y/w_scale, %x/scale, %x/zero) name=\"fc\" layer=\"fc\"\n");
  EXPECT_EQ(value(graph, "x/scale").dims, (std::vector<int64_t>{2}));
  EXPECT_EQ(graph.layers[0].policy.quantization, Quantization::kInt8Dynamic);
}

TEST(apply_policy, a_constant_operand_keeps_its_codes) {
  const Graph graph =
      resolved(kTwo + R"(value %k float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[0] data=int8 {1, 2, 3, -4}
%y = mul(%a, %k) name="n" layer="l"
)");
  EXPECT_EQ(steps(graph), "%y = mul(%a, %k, %y/requant) a_zero=3 y_zero=1 rounding=double name=\"n\" layer=\"l\"\n");
  EXPECT_EQ(value(graph, "k").type, ElementType::kInt8);
  EXPECT_EQ(integers(value(graph, "k")), (Codes{1, 2, 3, -4}));
}

TEST(apply_policy, a_real_constant_operand_keeps_the_step_real) {
  const std::string text = steps(resolved(kTwo + R"(value %k float32 [1, 4] data=float32 {1, 2, 3, -4}
%y = mul(%a, %k) name="n" layer="l"
)"));
  EXPECT_NE(text.find("%y/real = mul(%a/real, %k) name=\"n\""), std::string::npos) << text;
}

// In files that quantize after the activation, the value between conv and relu has no codes of its own.
TEST(apply_policy, a_step_takes_the_clamp_behind_it_before_codes_are_made) {
  std::string text = kDense;
  text.replace(text.find("input"), 0, "value %r float32 [1, 3]\n");
  EXPECT_EQ(steps(resolved(text + R"(%r = dense(%x, %w, %b) name="fc" layer="fc"
%y = clamp(%r) clamp=1 high=inf name="relu" layer="fc"
)")),
            "%y = dense(%x, %w, %b, %y/requant) clamp=1 low=3 high=127 x_zero=-5 y_zero=3 rounding=double name=\"fc\" "
            "layer=\"fc\"\n");
}

TEST(apply_policy, quantize_steps_round_as_the_source_does) {
  Graph graph = parse(R"(graph "t" batch=1
value %x float32 [4]
value %y float32 [4] codes=int8 axis=0 scale=[0.5] zero=[3]
input "x" %x
output "y" %y
%y = copy(%x) name="q"
)");
  graph.quantize_rounding = Rounding::kHalfEven;
  apply_policy(graph);
  check(graph);
  EXPECT_EQ(graph.nodes[0].rounding, Rounding::kHalfEven);
}

TEST(apply_policy, ops_without_the_rounding_asked_for_round_as_tflite_and_say_so) {
  const Graph graph = resolved(kTwo + "%y = mul(%a, %b) name=\"n\" layer=\"l\"\n", Rounding::kFloatEven);
  EXPECT_EQ(graph.nodes[0].rounding, Rounding::kDouble);
  ASSERT_EQ(graph.log.size(), 1u);
  EXPECT_EQ(graph.log[0], "apply_policy: l: mul has no kernel with the rounding asked for: rounds as TFLite");
}

TEST(apply_policy, a_layer_s_own_rounding_comes_before_that_of_the_conversion) {
  const std::string asked = "layer \"l\" source=\"OP\" asked=1 quantization=int8/static rounding=single";
  std::string text = kTwo + "%y = add(%a, %b) name=\"y\" layer=\"l\"\n";
  text.replace(text.find("layer \"l\" source=\"OP\""), 21, asked);
  EXPECT_EQ(resolved(text).nodes[0].rounding, Rounding::kSingle);
  EXPECT_EQ(resolved(kTwo + "%y = add(%a, %b) name=\"y\" layer=\"l\"\n").nodes[0].rounding, Rounding::kDouble);
}

TEST(apply_policy, weights_with_a_zero_point_are_decoded) {
  std::string text = kDense;
  text.replace(text.find("zero=[0, 0, 0] data=int8"), 14, "zero=[0, 1, 0]");
  const Graph graph = resolved(text + "%y = dense(%x, %w, %b) name=\"fc\" layer=\"fc\"\n");
  EXPECT_NE(steps(graph).find("%y/real = dense(%x/real, %w/real, %b/real)"), std::string::npos) << steps(graph);
  EXPECT_EQ(graph.log[0],
            "apply_policy: fc: dense runs in float32 between dequantize and quantize: its weights have a zero point");
}

TEST(apply_policy, a_real_constant_input_is_computed_in_real_numbers) {
  EXPECT_EQ(steps(resolved(R"(graph "t" batch=1
value %x float32 [1, 1, 1, 1]
value %k float32 [4] data=float32 {1, 2, 3, -4}
value %y float32 [2, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
input "x" %x
output "y" %y
%y = reshape(%k) rank=2 dims=[2, 2] name="r"
)")),
            "%y/real = reshape(%k) rank=2 dims=[2, 2] name=\"r\"\n"
            "%y = quantize(%y/real, %y/quantize/scale, %y/quantize/zero) rounding=half_away name=\"y/quantize\"\n");
}

TEST(apply_policy, a_multiplier_that_is_not_finite_is_refused) {
  std::string text = kTwo;  // in TFLite's float32 arithmetic of sub, 2 * 1e38 overflows
  text.replace(text.find("scale=[0.5]"), 11, "scale=[3e+38]");
  EXPECT_THROW(resolved(text + "%y = sub(%a, %b) name=\"n\" layer=\"l\"\n"), Error);
}

TEST(apply_policy, activations_of_other_codes_are_refused) {
  Graph graph = parse(R"(graph "t.tflite" batch=1
value %x float32 [4] codes=uint4 axis=0 scale=[0.5] zero=[0]
value %y float32 [4] codes=uint4 axis=0 scale=[0.5] zero=[0]
input "x" %x
output "y" %y
%y = tanh(%x) name="t"
)");
  try {
    apply_policy(graph);
    FAIL() << "uint4 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kUnsupported);
    EXPECT_EQ(std::string(error.what()),
              "t.tflite: 2 things are not supported:\n"
              "  x: activations quantized to uint4\n"
              "    quantize activations to int8, uint8 or int16\n"
              "  y: activations quantized to uint4\n"
              "    quantize activations to int8, uint8 or int16");
  }
}

TEST(apply_policy, float_graphs_stay_as_they_are) {
  const std::string text = R"(graph "t" batch=1
value %x float32 [4]
value %y float32 [4]
input "x" %x
output "y" %y
%y = tanh(%x) name="t"
)";
  EXPECT_EQ(steps(resolved(text)), "%y = tanh(%x) name=\"t\"\n");
}

}  // namespace
}  // namespace nacre::tools
