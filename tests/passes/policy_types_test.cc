// Tests which type apply_policy gives each step, the casts between steps, and the weights that it stores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/kernels/reference.h"
#include "tests/passes/graph_text.h"
#include "tests/passes/policy_graphs.h"
#include "tools/base/error.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using policy_graphs::kBfloat16, policy_graphs::kFloat32, policy_graphs::kMixed, policy_graphs::network;

Graph resolved(const std::string& text, const PolicyOptions& options = {}) {
  Graph graph = parse(text);
  check(graph);
  apply_policy(graph, options);
  check(graph);
  return graph;
}

TEST(apply_policy_types, a_layer_nobody_asked_about_runs_in_float32) {
  const Graph graph = resolved(network("", "", ""));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%h = dense(%x, %w, %b)\n%r = clamp(%h) clamp=1 high=inf\n%y = softmax(%r) axis=1 beta=1\n");
}

TEST(apply_policy_types, inputs_are_cast_once_and_the_output_keeps_the_source_s_type) {
  const Graph graph = resolved(network(kBfloat16, kBfloat16, kBfloat16));
  EXPECT_EQ(
      steps(graph, StepText::kWithoutNames),
      "%x/bfloat16 = cast(%x)\n%h = dense(%x/bfloat16, %w/bfloat16, %b/bfloat16)\n%r = clamp(%h) clamp=1 high=inf\n"
      "%y/bfloat16 = softmax(%r) axis=1 beta=1\n%y = cast(%y/bfloat16)\n");
  EXPECT_EQ(value(graph, "h").type, ElementType::kBfloat16);
  EXPECT_EQ(value(graph, "w/bfloat16").type, ElementType::kBfloat16);
  EXPECT_EQ(reals(value(graph, "w/bfloat16"))[5], -6.0f);  // the neighbours are 1/32 apart
  EXPECT_TRUE(graph.fallbacks.empty());
}

TEST(apply_policy_types, casts_of_the_source_keep_their_types) {
  const std::string text = R"(graph "t" batch=1
layer "i" source="Cast" POLICY
layer "r" source="Cast" POLICY
value %x float32 [1, 2]
value %i int32 [1, 2]
value %y float32 [1, 2]
input "x" %x
output "y" %y
%i = cast(%x) name="i" layer="i"
%y = cast(%i) name="r" layer="r"
)";
  for (const std::string& policy : {std::string(), kFloat32, kBfloat16, kMixed}) {
    std::string with = text;
    for (size_t at; (at = with.find("POLICY")) != std::string::npos;) with.replace(at, 6, policy);
    const Graph graph = resolved(with);
    EXPECT_EQ(value(graph, "i").type, ElementType::kInt32) << policy;
    EXPECT_EQ(value(graph, "y").type, ElementType::kFloat32) << policy;
    for (const Node& node : graph.nodes) {  // there are no kernels between integers and 16-bit floats
      const ElementType from = graph.values[size_t(node.inputs[0])].type,
                        to = graph.values[size_t(node.outputs[0])].type;
      EXPECT_TRUE(from == ElementType::kFloat32 || to == ElementType::kFloat32) << policy;
    }
  }
}

TEST(apply_policy_types, layers_of_other_types_meet_in_visible_casts) {
  const Graph graph = resolved(network(kMixed, kFloat32, kMixed));
  EXPECT_EQ(
      steps(graph, StepText::kWithoutNames),
      "%x/float16 = cast(%x)\n%h = dense(%x/float16, %w/float16, %b/float16)\n%h/float32 = cast(%h)\n"
      "%r = clamp(%h/float32) clamp=1 high=inf\n%r/float16 = cast(%r)\n%y/float16 = softmax(%r/float16) axis=1 beta=1\n"
      "%y = cast(%y/float16)\n");
}

TEST(apply_policy_types, an_output_type_of_its_own_is_a_cast_that_readers_see) {
  const std::string jmp = "asked=1 variable=float32 compute=float32 output=bfloat16";
  const Graph graph = resolved(network(jmp, kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%h/float32 = dense(%x, %w, %b)\n%h = cast(%h/float32)\n%h/float32_2 = cast(%h)\n"
            "%r = clamp(%h/float32_2) clamp=1 high=inf\n%y = softmax(%r) axis=1 beta=1\n");
}

// The cast to a wider output rounds nothing, so a reader in the narrow type reads the value before the cast.
TEST(apply_policy_types, a_reader_skips_a_cast_that_rounds_nothing) {
  const std::string jmp = "asked=1 variable=float32 compute=bfloat16 output=float32";
  const Graph graph = resolved(network(jmp, jmp, jmp));
  EXPECT_EQ(
      steps(graph, StepText::kWithoutNames),
      "%x/bfloat16 = cast(%x)\n%h/bfloat16 = dense(%x/bfloat16, %w/bfloat16, %b/bfloat16)\n%h = cast(%h/bfloat16)\n"
      "%r/bfloat16 = clamp(%h/bfloat16) clamp=1 high=inf\n%r = cast(%r/bfloat16)\n"
      "%y/bfloat16 = softmax(%r/bfloat16) axis=1 beta=1\n%y = cast(%y/bfloat16)\n");
}

TEST(apply_policy_types, variables_are_rounded_to_the_type_that_keeps_them) {
  const Graph graph = resolved(network("asked=1 variable=bfloat16 compute=float32 output=float32", kFloat32, kFloat32));
  EXPECT_EQ(reals(value(graph, "w/real"))[5], -6.0f);
  EXPECT_EQ(value(graph, "w/real").type, ElementType::kFloat32);
}

TEST(apply_policy_types, borders_take_the_steps_types_when_asked) {
  const Graph graph = resolved(network(kMixed, kMixed, kMixed), {.io_types = IoTypes::kPolicy});
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%h = dense(%x/float16, %w/float16, %b/float16)\n%r = clamp(%h) clamp=1 high=inf\n"
            "%y/float16 = softmax(%r) axis=1 beta=1\n");
  EXPECT_EQ(graph.values[size_t(graph.inputs[0].value)].type, ElementType::kFloat16);
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].type, ElementType::kFloat16);
}

// Returns a dense whose codes begin at their zero point. The quantizer may have dropped the Relu after it.
std::string saturating(int zero) {
  return R"(graph "t" batch=1
layer "fc" source="Gemm" asked=1
layer "out" source="Gemm" asked=1
value %x float32 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[1]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %h float32 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[)" +
         std::to_string(zero) + R"(]
value %y float32 [1, 2]
input "x" %x
output "y" %y
%h = dense(%x, %w) name="fc" layer="fc"
%y = dense(%h, %w) name="out" layer="out"
)";
}

TEST(apply_policy_types, codes_that_saturate_at_0_leave_a_clamp_behind) {
  EXPECT_NE(steps(resolved(saturating(-128)), StepText::kWithoutNames)
                .find("%h/unsaturated = dense(%x/real, %w)\n%h = clamp(%h/unsaturated) clamp=1 high=127.5\n"),
            std::string::npos);
  EXPECT_EQ(steps(resolved(saturating(-127)), StepText::kWithoutNames).find("clamp"), std::string::npos);
}

// Returns the refusal of `policy` for the layer of the weights if w[5] is `last`, or "" if it is accepted.
std::string refusal(const std::string& policy, const std::string& last) {
  std::string text = network(policy, kFloat32, kFloat32);
  text.replace(text.find("-6.003"), 6, last);
  try {
    resolved(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Returns the log's line about numbers beyond a type, and the largest stored weight.
std::pair<std::string, float> saturated(const std::string& policy, const std::string& last) {
  std::string text = network(policy, kFloat32, kFloat32);
  text.replace(text.find("-6.003"), 6, last);
  const Graph graph = resolved(text);
  std::string said;
  for (const std::string& line : graph.log)
    if (line.find(" beyond ") != std::string::npos) said += line + "\n";
  float largest = 0;
  for (const Value& v : graph.values)
    if (v.constant() && v.name.starts_with("w") && v.stored != ElementType::kInt8)
      for (const float x : reals(v)) largest = std::max(largest, std::fabs(x));
  return {said, largest};
}

// 65520 is the first number that rounds to float16's infinity; bfloat16's lies beyond 3.39e38. Frameworks accept such
// a weight when they cast, and so does the pass. But it stores the largest number of the type, and tells the user.
TEST(apply_policy_types, a_weight_beyond_the_type_that_keeps_it_becomes_its_largest) {
  const std::string in_float16 = "asked=1 variable=float16 compute=float32 output=float32";
  for (const std::string& policy : {kMixed, in_float16, in_float16 + " quantization=int8/weights"}) {
    EXPECT_EQ(saturated(policy, "65519").first, "") << policy;
    EXPECT_EQ(saturated(policy, "65520").first,
              "policy: fc: w has 1 number beyond float16, the first 65520 at element 5: they become 65504\n")
        << policy;
  }
  EXPECT_EQ(saturated(kMixed, "-65520").second, 65504);
  EXPECT_EQ(saturated(kBfloat16, "3.3e38").first, "");
  EXPECT_NE(saturated(kBfloat16, "3.4e38").first.find("beyond bfloat16"), std::string::npos);
  EXPECT_EQ(saturated(kBfloat16, "-3.4e38").second, 0x1.FEp127f);
}

// A float type represents infinity, but no code does.
TEST(apply_policy_types, a_weight_that_is_nan_is_refused_in_every_type_and_an_infinite_one_as_codes) {
  for (const std::string& policy :
       {std::string(), kFloat32, kMixed, kBfloat16, kFloat32 + " quantization=int8/weights"})
    for (const std::string last : {"inf", "-inf", "nan"}) {
      const bool refused = last == "nan" || policy.ends_with("int8/weights");
      EXPECT_EQ(refusal(policy, last).find("fc: w has " + last + " at element 5") != std::string::npos, refused)
          << policy << last;
    }
}

// Keras uses scale = 127 / (amax + 1e-7) per output channel, half to even; activations are quantized per row.
TEST(apply_policy_types, int8_quantizes_weights_by_abs_max_and_activations_at_run_time) {
  const Graph graph = resolved(network("asked=1 quantization=int8 scale_form=reciprocal", kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%x/codes, %x/scale = dynamic_quantize(%x) axis=1\n"
            "%h = dense(%x/codes, %w/int8, %b, %h/w_scale, %x/scale)\n%r = clamp(%h) clamp=1 high=inf\n"
            "%y = softmax(%r) axis=1 beta=1\n");
  EXPECT_EQ(integers(value(graph, "w/int8")), (std::vector<int64_t>{64, 127, 95, 127, 106, -127}));
  EXPECT_EQ(value(graph, "x/scale").dims, (std::vector<int64_t>{1}));
}

// For float64 the codes are computed in float64. In float32 127 / (2 + 1e-7) would be 63.5, which rounds half to even
// to 64.
TEST(apply_policy_types, int8_from_float64_quantizes_weights_in_float64) {
  const auto codes = [](const std::string& type) {
    const std::string fc =
        "asked=1 quantization=int8 scale_form=reciprocal variable=" + type + " compute=" + type + " output=" + type;
    const Graph graph = resolved("graph \"t\" batch=1\nlayer \"fc\" source=\"Gemm\" " + fc + R"(
value %x float32 [1, 2]
value %w float32 [1, 2] data=float32 {2, 1}
value %y float32 [1, 1]
input "x" %x
output "y" %y
%y = dense(%x, %w) name="fc" layer="fc"
)");
    for (const Value& v : graph.values)
      if (v.constant() && v.type == ElementType::kInt8) return integers(v);
    return std::vector<int64_t>{};
  };
  EXPECT_EQ(codes("float32"), (std::vector<int64_t>{127, 64}));
  EXPECT_EQ(codes("float64"), (std::vector<int64_t>{127, 63}));
}

TEST(apply_policy_types, weight_only_stores_codes_and_computes_in_float) {
  const Graph graph = resolved(network("asked=1 quantization=int8/weights", kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames).substr(0, 43), "%h = dense(%x, %w/int8, %b, %h/w_scale)\n%r ");
  EXPECT_EQ(value(graph, "w/int8").data->size(), 6u);
}

TEST(apply_policy_types, int4_packs_two_codes_a_byte) {
  const Graph graph = resolved(network("asked=1 quantization=int4 scale_form=reciprocal", kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames).substr(0, 47), "%h = dense(%x, %w/int4, %b, %h/w_scale) form=1\n");
  // 3.5 and 7, 5.25 and 7, 5.83 and -7
  EXPECT_EQ(*value(graph, "w/int4").data, (std::vector<uint8_t>{0x74, 0x75, 0x96}));
}

TEST(apply_policy_types, int4_in_blocks_has_a_scale_and_a_zero_point_per_group) {
  const Graph graph = resolved(network("asked=1 quantization=int4 block=1", kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames).substr(0, 57),
            "%h = dense(%x, %w/int4, %b, %h/w_scale, %h/w_zero) block=");
  EXPECT_EQ(value(graph, "h/w_scale").dims, (std::vector<int64_t>{3, 2}));
}

TEST(apply_policy_types, float8_needs_a_range_for_its_input) {
  try {
    resolved(network("asked=1 quantization=float8 amax_history_length=4 update_order=keras", kFloat32, kFloat32));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--calibrate"), std::string::npos) << error.what();
  }
}

// Keras's step is 1 / (448 / amax) over the last 4 samples. The 8 is no longer in the history.
TEST(apply_policy_types, float8_scales_come_from_the_history_that_calibration_fills) {
  std::string text =
      network("asked=1 quantization=float8 amax_history_length=4 update_order=keras", kFloat32, kFloat32);
  text.replace(text.find("value %x float32 [1, 2]"), 23, "value %x float32 [1, 2] amaxes=[8, 1, 2, 3.5, 0]");
  const Graph graph = resolved(text);
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%x/float8 = quantize(%x, %h/x_scale) rounding=half_even\n"
            "%h = dense(%x/float8, %w/float8_e4m3, %b/rounded, %h/w_scale, %h/x_step)\n"
            "%r = clamp(%h) clamp=1 high=inf\n%y = softmax(%r) axis=1 beta=1\n");
  EXPECT_EQ(reals(value(graph, "h/x_scale"))[0], 1 / (448.0f / 3.5f));
  EXPECT_EQ(value(graph, "w/float8_e4m3").data->size(), 6u);
  EXPECT_EQ(reals(value(graph, "b/rounded"))[0], 0.10009765625f);  // Keras rounds the bias through bfloat16
}

TEST(apply_policy_types, float8_current_finds_both_scales_itself) {
  const Graph graph = resolved(network("asked=1 quantization=float8/current", kFloat32, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames).substr(0, 49), "%x/codes, %x/scale = dynamic_quantize(%x) axis=1\n");
  EXPECT_TRUE(graph.fallbacks.empty());
}

TEST(apply_policy_types, a_quantized_layer_that_is_asked_for_floats_gives_up_its_codes) {
  const Graph graph = resolved(R"(graph "t" batch=1
layer "fc" source="FULLY_CONNECTED" asked=1 compute=bfloat16 output=bfloat16
value %x float32 [1, 1] codes=int8 axis=0 scale=[0.5] zero=[1]
value %w float32 [1, 1] codes=int8 axis=0 scale=[0.25] zero=[0] data=int8 {5}
value %y float32 [1, 1] codes=int8 axis=0 scale=[0.5] zero=[0]
input "x" %x
output "y" %y
%y = dense(%x, %w) name="fc" layer="fc"
)");
  EXPECT_EQ(
      steps(graph, StepText::kWithoutNames),
      "%x/real = dequantize(%x, %x/real/dequantize/scale, %x/real/dequantize/zero)\n%x/real/bfloat16 = cast(%x/real)\n"
      "%y/real = dense(%x/real/bfloat16, %w/bfloat16)\n%y/real/float32 = cast(%y/real)\n"
      "%y = quantize(%y/real/float32, %y/quantize/scale, %y/quantize/zero) rounding=half_away\n");
  EXPECT_EQ(value(graph, "x").type, ElementType::kInt8);
  EXPECT_EQ(value(graph, "y").type, ElementType::kInt8);
}

TEST(fuse, melts_casts_into_the_matmul_that_they_follow) {
  Graph graph = resolved(network(kMixed, kFloat32, kFloat32));
  fuse(graph);
  check(graph);
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%x/float16 = cast(%x)\n%r = dense(%x/float16, %w/float16, %b/float16) clamp=1 high=inf\n"
            "%y = softmax(%r) axis=1 beta=1\n");
  EXPECT_EQ(value(graph, "r").type, ElementType::kFloat32);
}

// If a port has the plain step but not the fused one, there are two steps, and the first is the port's.
TEST(fuse, leaves_a_port_the_steps_that_it_has) {
  const KernelEntry* const plain_entries[] = {&reference::kDenseF16};
  const KernelEntry* const both_entries[] = {&reference::kDenseF16, &reference::kDenseF16ToF32};
  const KernelSet plain{"plain", plain_entries}, both{"both", both_entries};
  const auto fused = [](const KernelSet& port) {
    Graph graph = resolved(network(kMixed, kFloat32, kFloat32));
    fuse(graph, {.kernels = {&port, &reference::kernels()}});
    check(graph);
    return steps(graph, StepText::kWithoutNames);
  };
  EXPECT_EQ(fused(plain),
            "%x/float16 = cast(%x)\n%h = dense(%x/float16, %w/float16, %b/float16)\n%h/float32 = cast(%h)\n"
            "%r = clamp(%h/float32) clamp=1 high=inf\n%y = softmax(%r) axis=1 beta=1\n");
  EXPECT_EQ(fused(both),
            "%x/float16 = cast(%x)\n%r = dense(%x/float16, %w/float16, %b/float16) clamp=1 high=inf\n"
            "%y = softmax(%r) axis=1 beta=1\n");
}

// float16 does not represent 0.1. If the clamp came before the rounding, the bound would become 0.099976.
TEST(fuse, leaves_a_bound_that_the_inner_type_does_not_have) {
  std::string text = network(kMixed, kFloat32, kFloat32);
  text.replace(text.find("high=inf"), 8, "high=0.1");
  Graph graph = resolved(text);
  fuse(graph);
  EXPECT_EQ(steps(graph, StepText::kWithoutNames),
            "%x/float16 = cast(%x)\n%h/float32 = dense(%x/float16, %w/float16, %b/float16)\n"
            "%r = clamp(%h/float32) clamp=1 high=0.1\n%y = softmax(%r) axis=1 beta=1\n");
}

}  // namespace
}  // namespace nacre::tools
