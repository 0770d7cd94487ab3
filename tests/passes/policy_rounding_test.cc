// Tests which numbers of a layer a policy's fields change: where its operations round, and the range of its int4
// groups.
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/graph_text.h"
#include "tests/passes/policy_graphs.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using policy_graphs::kFloat32, policy_graphs::kMixed, policy_graphs::network;

// x = 1 1 1 1, w = 1 1.1 1.2 1.3, with the sum 4.6. In Keras 3.15 a group whose weights have one sign saturates.
TEST(policy_rounding, int4_in_blocks_has_a_code_for_0_or_keras_s_range) {
  const auto y = [](const std::string& fields) {
    const Graph graph = policy_graphs::resolved(
        "graph \"t\" batch=1\nlayer \"fc\" source=\"Gemm\" asked=1 quantization=int4 block=4" + fields + R"(
value %x float32 [1, 4]
value %w float32 [1, 4] data=float32 {1, 1.1, 1.2, 1.3}
value %y float32 [1, 1]
input "x" %x
output "y" %y
%y = dense(%x, %w) name="fc" layer="fc"
)");
    const std::vector<float> scale = reals(value(graph, "y/w_scale"));
    const std::vector<uint8_t>& bytes = *value(graph, "w/int4").data;
    const int64_t zero = integers(value(graph, "y/w_zero"))[0];
    float sum = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int nibble = bytes[i / 2] >> (4 * (i % 2)) & 15;
      sum += scale[0] * float((nibble ^ 8) - 8 - zero);
    }
    return sum;
  };
  EXPECT_FLOAT_EQ(y(""), 4.68f);
  EXPECT_FLOAT_EQ(y(" group_range=keras"), 1.2f);
}

// A group longer than the sum is filled with zeros, as the last group is, even if 0 has no code.
TEST(policy_rounding, groups_longer_than_the_sum_are_filled_with_zeros) {
  const auto text = [](const std::string& fields) {
    return network("asked=1 quantization=int4 " + fields, kFloat32, kFloat32);
  };
  const Graph with_zero = policy_graphs::resolved(text("block=8")),
              keras = policy_graphs::resolved(text("block=8 group_range=keras"));
  EXPECT_EQ(reals(value(with_zero, "h/w_scale")), reals(value(keras, "h/w_scale")));
  EXPECT_NE(reals(value(policy_graphs::resolved(text("block=2 group_range=keras")), "h/w_scale")),
            reals(value(keras, "h/w_scale")));
}

// In Keras matmul, bias and activation are separate operations, and each rounds.
TEST(policy_rounding, each_operation_of_a_layer_rounds_where_the_policy_says_so) {
  const std::string each = kMixed + " operation_rounding=each";
  const Graph graph = policy_graphs::resolved(network(each, kMixed, kFloat32));
  EXPECT_EQ(steps(graph, StepText::kWithoutNames).substr(0, 112),
            "%x/float16 = cast(%x)\n%h/product = dense(%x/float16, %w/float16)\n%h = add(%h/product, %b/float16)\n"
            "%r = clamp(%h)");
  EXPECT_EQ(value(graph, "h/product").type, ElementType::kFloat16);
  // In float32 each operation rounds anyway.
  EXPECT_EQ(steps(policy_graphs::resolved(network(kFloat32 + " operation_rounding=each", kFloat32, kFloat32)),
                  StepText::kWithoutNames),
            steps(policy_graphs::resolved(network(kFloat32, kFloat32, kFloat32)), StepText::kWithoutNames));
}

TEST(policy_rounding, scales_in_the_compute_type_make_a_quantized_layer_round_each_operation) {
  const auto scale_type = [](const std::string& policy) {
    return value(policy_graphs::resolved(
                     network("asked=1 compute=bfloat16 output=bfloat16 " + policy, kFloat32, kFloat32)),
                 policy.find("each") == std::string::npos ? "h/w_scale" : "h/w_scale/bfloat16")
        .type;
  };
  for (const std::string policy :
       {"quantization=int8/weights", "quantization=int4 scale_form=reciprocal", "quantization=int4 block=1"}) {
    EXPECT_EQ(scale_type(policy), ElementType::kFloat32) << policy;
    EXPECT_EQ(scale_type(policy + " operation_rounding=each"), ElementType::kBfloat16) << policy;
  }
}

// Keras casts scales and weights to the compute type before it divides.
TEST(policy_rounding, float8_that_rounds_each_operation_has_scales_in_the_compute_type) {
  std::string text = network(
      "asked=1 compute=bfloat16 output=bfloat16 quantization=float8 amax_history_length=4 update_order=keras "
      "operation_rounding=each",
      kFloat32, kFloat32);
  text.replace(text.find("value %x float32 [1, 2]"), 23, "value %x float32 [1, 2] amaxes=[3.497]");
  const Graph graph = policy_graphs::resolved(text);
  EXPECT_EQ(
      steps(graph, StepText::kWithoutNames).substr(0, 175),
      "%x/bfloat16 = cast(%x)\n%x/bfloat16/float8 = quantize(%x/bfloat16, %h/x_scale/bfloat16) rounding=half_even\n"
      "%h = dense(%x/bfloat16/float8, %w/float8_e4m3, %b/bfloat16, %h/w_scal");
  EXPECT_EQ(reals(value(graph, "h/x_scale/bfloat16"))[0], 1 / (448.0f / 3.5f));  // 3.497 in bfloat16
}

// Codes of the source file stay as they are. Their scales are in the compute type.
TEST(policy_rounding, codes_of_the_source_round_each_operation_too) {
  const auto scale_type = [](const std::string& fields) {
    const Graph graph = policy_graphs::resolved(
        "graph \"t\" batch=1\nlayer \"fc\" source=\"OP\" asked=1 compute=bfloat16 output=bfloat16 "
        "quantization=int8/weights" +
        fields + R"(
value %x float32 [1, 1]
value %w float32 [1, 1] codes=int8 axis=0 scale=[0.25] zero=[0] data=int8 {5}
value %y float32 [1, 1]
input "x" %x
output "y" %y
%y = dense(%x, %w) name="fc" layer="fc"
)");
    for (const Node& node : graph.nodes)
      if (node.op == Op::kDense) return graph.values[size_t(node.inputs[3])].type;
    return ElementType::kNone;
  };
  EXPECT_EQ(scale_type(""), ElementType::kFloat32);
  EXPECT_EQ(scale_type(" operation_rounding=each"), ElementType::kBfloat16);
}

}  // namespace
}  // namespace nacre::tools
