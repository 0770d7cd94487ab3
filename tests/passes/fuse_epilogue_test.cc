// Tests that fuse merges activations and residual sums into the float matmul before them, and which steps stay
// separate.
#include <gtest/gtest.h>

#include <string>

#include "engine/kernels/reference.h"
#include "tests/graph/run_graph.h"
#include "tests/passes/graph_text.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// Declares the values of two matmuls, and an input r of their output shape.
const std::string kTwoMatmuls = R"(graph "t" batch=1
value %x float32 [2, 3]
value %r float32 [2, 4]
value %w float32 [4, 3] data=float32 {1, 2, -3, 4, 5, 6, 0.5, -1, 2, 3, 0.25, -2}
value %u float32 [4, 3] data=float32 {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, -0.9, 1, 1.1, 1.2}
value %b float32 [4] data=float32 {1, -1, 0.5, 2}
value %c float32 [4] data=float32 {1, 2, 3, 4}
value %h float32 [2, 4]
value %g float32 [2, 4]
value %s float32 [2, 4]
value %y float32 [2, 4]
input "x" %x
input "r" %r
)";
const std::string kOutY = "output \"y\" %y\n";
const std::string kFirst = "%h = dense(%x, %w, %b) name=\"fc\"\n";

// Returns the steps after fuse. All outputs must have the values that they had before it.
std::string melted(const std::string& text, const Target& target = {}) {
  Graph graph = parse(text);
  check(graph);
  const Graph before = graph;
  fuse(graph, target);
  check(graph);
  std::mt19937 rng(1);
  const std::vector<std::vector<uint8_t>> inputs = random_inputs(before, rng);
  const Graph a = run_graph(before, inputs), b = run_graph(graph, inputs);
  for (size_t i = 0; i < a.outputs.size(); ++i)
    EXPECT_EQ(*a.values[size_t(a.outputs[i].value)].data, *b.values[size_t(b.outputs[i].value)].data) << dump(graph);
  return steps(graph, StepText::kWithoutNames);
}

void expect_apart(const std::string& values, const std::string& nodes) {
  Graph graph = parse(values + nodes);
  const std::string apart = steps(graph, StepText::kWithoutNames);
  EXPECT_EQ(melted(values + nodes), apart);
}

TEST(fuse_epilogue, every_activation_melts_into_its_matmul) {
  const std::pair<const char*, const char*> kActivations[] = {
      {"leaky_relu(%h) alpha=0.5", "clamp=2 low=0.5"},
      {"sigmoid(%h)", "clamp=3"},
      {"tanh(%h)", "clamp=4"},
      {"hard_swish(%h)", "clamp=5"},
      {"silu(%h)", "clamp=6"},
      {"gelu(%h)", "clamp=7"},
      {"gelu(%h) tanh=1", "clamp=8"},
  };
  for (const auto& [node, words] : kActivations)
    EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + "%y = " + node + " name=\"act\"\n"),
              std::string("%y = dense(%x, %w, %b) ") + words + "\n");
}

TEST(fuse_epilogue, a_sum_melts_both_ways_round_and_keeps_its_clamp) {
  for (const char* operands : {"%h, %r", "%r, %h"}) {
    const std::string sum = std::string("%y = add(") + operands + ")";
    EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + sum + " name=\"sum\"\n"), "%y = dense(%x, %w, %b, %r)\n");
    EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + sum + " clamp=1 low=-1 high=6 name=\"sum\"\n"),
              "%y = dense(%x, %w, %b, %r) clamp=1 low=-1 high=6\n");
  }
  EXPECT_EQ(melted(kTwoMatmuls + kOutY + "%h = dense(%x, %w) name=\"fc\"\n%y = add(%h, %r) name=\"sum\"\n"),
            "%y = dense(%x, %w, none, %r)\n");
}

TEST(fuse_epilogue, what_follows_the_sum_melts_too) {
  const std::string sum = kTwoMatmuls + kOutY + kFirst + "%s = add(%h, %r) name=\"sum\"\n";
  EXPECT_EQ(melted(sum + "%y = silu(%s) name=\"act\"\n"), "%y = dense(%x, %w, %b, %r) clamp=6\n");
  EXPECT_EQ(melted(sum + "%y = clamp(%s) clamp=1 high=6 name=\"relu6\"\n"),
            "%y = dense(%x, %w, %b, %r) clamp=1 high=6\n");
  // These stay separate steps: a clamp or a sum after a function, and a function after a clamp.
  EXPECT_EQ(melted(sum + "%g = tanh(%s) name=\"act\"\n%y = clamp(%g) clamp=1 high=0.5 name=\"clip\"\n"),
            "%g = dense(%x, %w, %b, %r) clamp=4\n%y = clamp(%g) clamp=1 high=0.5\n");
  EXPECT_EQ(melted(sum + "%g = clamp(%s) clamp=1 high=0.5 name=\"clip\"\n%y = tanh(%g) name=\"act\"\n"),
            "%g = dense(%x, %w, %b, %r) clamp=1 high=0.5\n%y = tanh(%g)\n");
  EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + "%g = tanh(%h) name=\"act\"\n%y = add(%g, %r) name=\"sum\"\n"),
            "%g = dense(%x, %w, %b) clamp=4\n%y = add(%g, %r)\n");
  EXPECT_EQ(melted(sum + "%y = add(%s, %r) name=\"again\"\n"), "%s = dense(%x, %w, %b, %r)\n%y = add(%s, %r)\n");
  EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + "%g = silu(%h) name=\"a\"\n%y = silu(%g) name=\"b\"\n"),
            "%g = dense(%x, %w, %b) clamp=6\n%y = silu(%g)\n");
}

TEST(fuse_epilogue, of_two_matmuls_the_later_carries_the_sum) {
  for (const char* operands : {"%h, %g", "%g, %h"})
    EXPECT_EQ(melted(kTwoMatmuls + kOutY + kFirst + "%g = dense(%x, %u) name=\"other\"\n%y = add(" + operands +
                     ") name=\"sum\"\n"),
              "%h = dense(%x, %w, %b)\n%y = dense(%x, %u, none, %h)\n");
  // The later matmul has a clamp already, and the earlier one runs before the sum's other operand exists.
  expect_apart(kTwoMatmuls + kOutY, kFirst +
                                        "%g = dense(%x, %u) clamp=1 high=6 name=\"other\"\n"
                                        "%y = add(%h, %g) name=\"sum\"\n");
  // A value that another step makes after the matmul does not exist when the matmul runs.
  expect_apart(kTwoMatmuls + kOutY, kFirst + "%g = tanh(%r) name=\"late\"\n%y = add(%h, %g) name=\"sum\"\n");
  EXPECT_EQ(melted(kTwoMatmuls + kOutY + "%g = tanh(%r) name=\"early\"\n" + kFirst + "%y = add(%h, %g) name=\"sum\"\n"),
            "%g = tanh(%r)\n%y = dense(%x, %w, %b, %g)\n");
}

TEST(fuse_epilogue, a_value_that_others_need_keeps_its_step) {
  expect_apart(kTwoMatmuls + kOutY, kFirst + "%g = tanh(%h) name=\"act\"\n%y = sub(%h, %g) name=\"both\"\n");
  expect_apart(kTwoMatmuls + kOutY + "output \"h\" %h\n", kFirst + "%y = tanh(%h) name=\"act\"\n");
  expect_apart(kTwoMatmuls + kOutY + "output \"h\" %h\n", kFirst + "%y = add(%h, %r) name=\"sum\"\n");
  expect_apart(kTwoMatmuls + kOutY, kFirst + "%y = add(%h, %h) name=\"twice\"\n");
}

TEST(fuse_epilogue, a_sum_that_broadcasts_stays) {
  expect_apart(kTwoMatmuls + kOutY, kFirst + "%y = add(%h, %c) name=\"sum\"\n");
  expect_apart(
      kTwoMatmuls + "value %t float32 [3, 2, 4]\nvalue %z float32 [3, 2, 4]\ninput \"t\" %t\noutput \"z\" %z\n",
      kFirst + "%z = add(%h, %t) name=\"sum\"\n");
  expect_apart(
      kTwoMatmuls + "value %t float32 [1, 2, 4]\nvalue %z float32 [1, 2, 4]\ninput \"t\" %t\noutput \"z\" %z\n",
      kFirst + "%z = add(%h, %t) name=\"sum\"\n");
}

TEST(fuse_epilogue, constants_and_inputs_are_there_before) {
  const std::string constant = "value %k float32 [2, 4] data=float32 {1, 2, 3, 4, 5, 6, 7, 8}\n";
  EXPECT_EQ(melted(kTwoMatmuls + constant + kOutY + kFirst + "%y = add(%k, %h) name=\"sum\"\n"),
            "%y = dense(%x, %w, %b, %k)\n");
}

// The matmul is square, and its input is also the residual.
TEST(fuse_epilogue, the_input_of_a_matmul_may_be_its_residual) {
  EXPECT_EQ(melted(R"(graph "t" batch=1
value %x float32 [2, 2]
value %w float32 [2, 2] data=float32 {1, 2, -3, 4}
value %h float32 [2, 2]
value %y float32 [2, 2]
input "x" %x
output "y" %y
%h = dense(%x, %w) name="fc"
%y = add(%h, %x) name="sum"
)"),
            "%y = dense(%x, %w, none, %x)\n");
}

TEST(fuse_epilogue, matmuls_of_codes_and_of_other_types_stay_apart) {
  // Matmuls of int8 weights, int4 weights, float8 and dynamic int8 have no fused form.
  const std::string head =
      "graph \"t\" batch=1\nvalue %h float32 [1, 2]\nvalue %y float32 [1, 2]\n"
      "value %r float32 [1, 2]\ninput \"r\" %r\noutput \"y\" %y\n";
  const std::pair<const char*, const char*> kForms[] = {
      {"value %x float32 [1, 2]\nvalue %w int8 [2, 2] data=int8 {1, 2, 3, 4}\n"
       "value %s float32 [2] data=float32 {0.5, 0.25}\ninput \"x\" %x\n",
       "%h = dense(%x, %w, none, %s) name=\"fc\"\n"},
      {"value %x float8_e4m3 [1, 2]\nvalue %w float8_e4m3 [2, 2] data=float8_e4m3 hex 38383838\n"
       "value %s float32 [1] data=float32 {0.3}\nvalue %t float32 [1] data=float32 {0.7}\ninput \"x\" %x\n",
       "%h = dense(%x, %w, none, %s, %t) name=\"fc\"\n"},
      {"value %x int8 [1, 2]\nvalue %w int8 [2, 2] data=int8 {1, 2, 3, 4}\n"
       "value %s float32 [2] data=float32 {50, 25}\nvalue %t float32 [1] data=float32 {30}\ninput \"x\" %x\n",
       "%h = dense(%x, %w, none, %s, %t) name=\"fc\"\n"},
  };
  for (const auto& [values, node] : kForms)
    for (const char* step : {"%y = tanh(%h) name=\"act\"\n", "%y = add(%h, %r) name=\"sum\"\n"})
      expect_apart(head + values, std::string(node) + step);
  const std::string codes = R"(graph "t" batch=1
layer "l" source="ADD"
value %x int8 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %w int8 [2, 2] codes=int8 axis=0 scale=[0.5] zero=[0] data=int8 {1, 2, 3, 4}
value %m int32 [1, 2] region=weights data=int32 {1073741824, 0}
value %q int32 [3, 2] region=weights data=int32 {1073741824, 0, 1073741824, 0, 1073741824, -18}
value %h int8 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %y int8 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
input "x" %x
output "y" %y
)";
  expect_apart(codes, R"(%h = dense(%x, %w, none, %m) x_zero=3 y_zero=3 rounding=double name="fc" layer="l"
%y = add(%h, %x, %q) a_zero=3 b_zero=3 y_zero=3 left_shift=20 rounding=double name="sum" layer="l"
)");
}

// A fused cast rounds twice. No kernel has such a cast together with an activation.
TEST(fuse_epilogue, a_cast_and_an_activation_do_not_melt_both) {
  const std::string values = R"(graph "t" batch=1
value %x float32 [1, 2]
value %w float32 [3, 2] data=float32 {1, 2, 3, 4, 5, 6}
value %h float32 [1, 3]
value %a float32 [1, 3]
value %c bfloat16 [1, 3]
value %y bfloat16 [1, 3]
input "x" %x
output "y" %y
)";
  EXPECT_EQ(melted(values + "%h = dense(%x, %w) name=\"fc\"\n%a = tanh(%h) name=\"t\"\n%y = cast(%a) name=\"down\"\n"),
            "%a = dense(%x, %w) clamp=4\n%y = cast(%a)\n");
  EXPECT_EQ(melted(values + "%h = dense(%x, %w) name=\"fc\"\n%c = cast(%h) name=\"down\"\n%y = tanh(%c) name=\"t\"\n"),
            "%c = dense(%x, %w)\n%y = tanh(%c)\n");
}

TEST(fuse_epilogue, a_port_keeps_the_matmuls_that_it_has) {
  const KernelEntry* const plain_entries[] = {&reference::kDenseF32};
  const KernelEntry* const both_entries[] = {&reference::kDenseF32, &reference::kDenseFusedF32};
  const KernelSet plain{"plain", plain_entries}, both{"both", both_entries};
  const std::string text = kTwoMatmuls + kOutY + kFirst + "%s = add(%h, %r) name=\"sum\"\n%y = silu(%s) name=\"act\"\n";
  EXPECT_EQ(melted(text, {.kernels = {&plain, &reference::kernels()}}),
            "%h = dense(%x, %w, %b)\n%s = add(%h, %r)\n%y = silu(%s)\n");
  EXPECT_EQ(melted(text, {.kernels = {&both, &reference::kernels()}}), "%y = dense(%x, %w, %b, %r) clamp=6\n");
}

}  // namespace
}  // namespace nacre::tools
