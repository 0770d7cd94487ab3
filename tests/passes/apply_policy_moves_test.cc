// Tests apply_policy on ops without integer arithmetic: tables, pools, moves of codes and conversions between codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/passes/graph_text.h"
#include "tests/passes/policy_graphs.h"

namespace nacre::tools {
namespace {

using namespace policy_graphs;

TEST(apply_policy, an_op_without_integer_form_runs_between_dequantize_and_quantize) {
  const Graph graph = resolved(kTwo + "%y = softmax(%a) axis=1 beta=1 name=\"s\" layer=\"l\"\n");
  EXPECT_EQ(steps(graph),
            "%a/real = dequantize(%a, %a/real/dequantize/scale, %a/real/dequantize/zero) name=\"a/real/dequantize\" "
            "layer=\"l\"\n"
            "%y/real = softmax(%a/real) axis=1 beta=1 name=\"s\" layer=\"l\"\n"
            "%y = quantize(%y/real, %y/quantize/scale, %y/quantize/zero) rounding=half_away name=\"y/quantize\" "
            "layer=\"l\"\n");
  ASSERT_EQ(graph.log.size(), 1u);
  EXPECT_EQ(
      graph.log[0],
      "apply_policy: l: softmax runs in float32 between dequantize and quantize: its output is not coded as TFLite's "
      "softmax codes it (scale 1/256, zero -128)");
  EXPECT_EQ(graph.layers[0].policy.compute, ElementType::kFloat32);
}

TEST(apply_policy, one_dequantize_serves_all_float_readers) {
  const Graph graph = resolved(R"(graph "t" batch=1
value %a float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[3]
value %p float32 [1, 4]
value %q float32 [1, 4]
input "a" %a
output "p" %p
output "q" %q
%p = tanh(%a) name="p"
%q = sigmoid(%a) name="q"
)");
  const std::string text = steps(graph);
  EXPECT_EQ(text.find("dequantize("), text.rfind("dequantize("));
  EXPECT_NE(text.find("%q = sigmoid(%a/real)"), std::string::npos) << text;
}

TEST(apply_policy, unary_ops_become_tables) {
  std::string text = kTwo;
  text.replace(text.find("scale=[1] zero=[1]"), 18, "scale=[0.00390625] zero=[-128]");
  const Graph graph = resolved(text + "%y = sigmoid(%a) name=\"s\" layer=\"l\"\n");
  EXPECT_EQ(steps(graph), "%y = lookup(%a, %y/table) name=\"s\" layer=\"l\"\n");
  const Codes table = integers(value(graph, "y/table"));
  ASSERT_EQ(table.size(), 256u);
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end()));
  EXPECT_EQ(table[128 + 3], 0);  // code 3 is real 0: sigmoid 1/2, code 256/2 - 128
}

TEST(apply_policy, a_pool_keeps_the_codes_of_its_input) {
  const std::string text = R"(graph "t" batch=1
value %x float32 [1, 2, 2, 1] codes=int8 axis=0 scale=[0.5] zero=[3]
value %y float32 [1, 1, 1, 1] codes=int8 axis=0 scale=[Y] zero=[3]
input "x" %x
output "y" %y
%y = average_pool(%x) kernel_h=2 kernel_w=2 name="p"
)";
  const auto with = [&](const std::string& scale) {
    std::string t = text;
    return t.replace(t.find('Y'), 1, scale);
  };
  EXPECT_EQ(steps(resolved(with("0.5"))), "%y = average_pool(%x) kernel_h=2 kernel_w=2 name=\"p\"\n");
  EXPECT_EQ(steps(resolved(with("1"))),
            "%y/codes = average_pool(%x) kernel_h=2 kernel_w=2 name=\"p\"\n"
            "%y = requantize(%y/codes, %y/requant) x_zero=3 y_zero=3 rounding=double name=\"y/requantize\"\n");
  // The mean of four codes of x is a multiple of a quarter step, for which a y with a finer scale has codes.
  const Graph finer = resolved(with("0.125"));
  EXPECT_EQ(steps(finer),
            "%x/real = dequantize(%x, %x/real/dequantize/scale, %x/real/dequantize/zero) name=\"x/real/dequantize\"\n"
            "%y/real = average_pool(%x/real) kernel_h=2 kernel_w=2 name=\"p\"\n"
            "%y = quantize(%y/real, %y/quantize/scale, %y/quantize/zero) rounding=half_away name=\"y/quantize\"\n");
}

TEST(apply_policy, concat_requantizes_inputs_of_other_codes_and_pad_fills_with_the_zero_point) {
  EXPECT_EQ(steps(resolved(R"(graph "t" batch=1
value %a float32 [1, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %b float32 [1, 2] codes=int8 axis=0 scale=[0.25] zero=[3]
value %c float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[3]
value %y float32 [1, 6] codes=int8 axis=0 scale=[0.5] zero=[3]
input "a" %a
input "b" %b
output "y" %y
%c = concat(%a, %b) axis=1 name="c"
%y = pad(%c) before=[0, 1] after=[0, 1] name="p"
)")),
            "%b/requantized = requantize(%b, %b/requantized/requant) x_zero=3 y_zero=3 rounding=double "
            "name=\"b/requantized/requantize\"\n"
            "%c = concat(%a, %b/requantized) axis=1 name=\"c\"\n"
            "%y = pad(%c) before=[0, 1] after=[0, 1] value=3 name=\"p\"\n");
}

TEST(apply_policy, pad_fills_with_a_number_that_its_input_has_no_code_for) {
  EXPECT_EQ(steps(resolved(R"(graph "t" batch=1
value %x float32 [1, 4] codes=int8 axis=0 scale=[0.001] zero=[31]
value %y float32 [1, 6] codes=int8 axis=0 scale=[0.5] zero=[3]
input "x" %x
output "y" %y
%y = pad(%x) before=[0, 1] after=[0, 1] value=20 name="p"
)")),
            "%x/requantized = requantize(%x, %x/requantized/requant) x_zero=31 y_zero=3 rounding=double "
            "name=\"x/requantized/requantize\"\n"
            "%y = pad(%x/requantized) before=[0, 1] after=[0, 1] value=43 name=\"p\"\n");
}

TEST(apply_policy, quantizers_travel_with_moved_bytes) {
  EXPECT_EQ(steps(resolved(R"(graph "t" batch=1
value %a float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[3]
value %r float32 [1, 2, 2]
value %y float32 [1, 2, 2]
input "a" %a
output "y" %y
%r = reshape(%a) rank=3 dims=[1, 2, 2] name="r"
%y = tanh(%r) name="t"
)")),
            "%r = reshape(%a) rank=3 dims=[1, 2, 2] name=\"r\"\n"
            "%r/real = dequantize(%r, %r/real/dequantize/scale, %r/real/dequantize/zero) name=\"r/real/dequantize\"\n"
            "%y = tanh(%r/real) name=\"t\"\n");
}

TEST(apply_policy, copies_between_forms_become_conversions) {
  const std::string text = steps(resolved(R"(graph "t" batch=1
value %x float32 [4]
value %a float32 [4] codes=int8 axis=0 scale=[0.5] zero=[3]
value %b float32 [4] codes=int8 axis=0 scale=[0.25] zero=[-1]
value %y float32 [4]
input "x" %x
output "y" %y
%a = copy(%x) name="q"
%b = copy(%a) name="r"
%y = copy(%b) name="d"
)"));
  EXPECT_EQ(text,
            "%a = quantize(%x, %a/quantize/scale, %a/quantize/zero) rounding=half_away name=\"a/quantize\"\n"
            "%b = requantize(%a, %b/requant) x_zero=3 y_zero=-1 rounding=double name=\"b/requantize\"\n"
            "%y = dequantize(%b, %y/dequantize/scale, %y/dequantize/zero) name=\"y/dequantize\"\n");
}

TEST(apply_policy, uint8_stays_at_the_borders_and_is_int8_inside) {
  const Graph graph = resolved(R"(graph "t" batch=1
value %x float32 [4] codes=uint8 axis=0 scale=[0.5] zero=[128]
value %m float32 [4] codes=uint8 axis=0 scale=[0.5] zero=[128]
value %y float32 [4] codes=uint8 axis=0 scale=[0.5] zero=[128]
input "x" %x
output "y" %y
%m = clamp(%x) clamp=1 high=inf name="relu"
%y = clamp(%m) clamp=1 high=6 name="relu6"
)");
  EXPECT_EQ(steps(graph),
            "%x/int8 = requantize(%x, %x/int8/requant) x_zero=128 rounding=double name=\"x/int8/requantize\"\n"
            "%m = clamp(%x/int8) clamp=1 high=127 rounding=double name=\"relu\"\n"
            "%y/int8 = clamp(%m) clamp=1 high=12 rounding=double name=\"relu6\"\n"
            "%y = requantize(%y/int8, %y/requant) y_zero=128 rounding=double name=\"y/requantize\"\n");
  EXPECT_EQ(integers(value(graph, "x/int8/requant")), (Codes{1 << 30, 1}));  // M = 1
  EXPECT_EQ(value(graph, "x").type, ElementType::kUint8);
  EXPECT_EQ(value(graph, "m").type, ElementType::kInt8);
}

}  // namespace
}  // namespace nacre::tools
