// Tests that apply_policy computes some nodes in float32 although the layer's policy names a 16-bit type.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/passes/graph_text.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

std::string root_of_squares(const std::string& wide, const std::string& policy) {
  std::string text = R"(graph "t" batch=1
layer "n" source="RMSNormalization" POLICY
layer "f" source="Dense" POLICY
value %x float32 [1, 4]
value %s float32 [1, 4]
value %m float32 [1, 1]
value %e float32 [] region=weights data=float32 {1e-12}
value %k float32 [1, 1]
value %r float32 [1, 1]
value %n float32 [1, 4]
value %y float32 [1, 4]
input "x" %x
output "y" %y
%s = mul(%x, %x) layer="n" WIDE
%m = mean(%s) axes=2 keep_dims=1 layer="n" WIDE
%k = add(%m, %e) layer="n" WIDE
%r = unary(%k) function=4 layer="n" WIDE
%n = mul(%x, %r) layer="n" WIDE
%y = clamp(%n) clamp=1 high=inf layer="f"
)";
  for (size_t at; (at = text.find("POLICY")) != std::string::npos;) text.replace(at, 6, policy);
  for (size_t at; (at = text.find("WIDE")) != std::string::npos;) text.replace(at, 4, wide);
  return text;
}

const std::string kHalf = "asked=1 variable=float16 compute=float16 output=float16";

Graph policed(const std::string& text) {
  Graph graph = parse(text);
  check(graph);
  EXPECT_EQ(dump(parse(dump(graph))), dump(graph));
  apply_policy(graph);
  check(graph);
  return graph;
}

TEST(wide_nodes, compute_in_float32_and_give_out_what_the_policy_says) {
  const Graph graph = policed(root_of_squares("wide=1", kHalf));
  for (const char* inside : {"s", "m", "k", "r"}) EXPECT_EQ(value(graph, inside).type, ElementType::kFloat32) << inside;
  EXPECT_EQ(value(graph, "n").type, ElementType::kFloat16);
  EXPECT_EQ(value(graph, "y/float16").type, ElementType::kFloat16);
}

TEST(wide_nodes, an_epsilon_below_float16_stays) {
  const Graph graph = policed(root_of_squares("wide=1", kHalf));
  const auto add = std::ranges::find(graph.nodes, Op::kAdd, &Node::op);
  ASSERT_NE(add, graph.nodes.end());
  EXPECT_EQ(reals(graph.values[size_t(add->inputs[1])])[0], 1e-12f);
}

TEST(wide_nodes, are_as_others_under_float32_and_without_a_policy) {
  const std::string asked = "asked=1 variable=float32 compute=float32 output=float32";
  for (const std::string& policy : {std::string(), asked})
    EXPECT_EQ(policed(root_of_squares("wide=1", policy)).nodes.size(),
              policed(root_of_squares("", policy)).nodes.size());
}

TEST(wide_nodes, others_round_at_every_step) {
  const Graph graph = policed(root_of_squares("", kHalf));
  EXPECT_EQ(value(graph, "s").type, ElementType::kFloat16);
}

}  // namespace
}  // namespace nacre::tools
