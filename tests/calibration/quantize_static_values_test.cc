// Tests which values quantize_static gives a quantizer: inputs and outputs, and values around moves, pools and
// constants.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/calibration/static_int8_graphs.h"

namespace nacre::tools {
namespace {

using namespace static_int8_graphs;

const std::string kThree = kHead + R"(layer "a" source="RELU"
layer "b" source="RELU"
layer "c" source="RELU"
)" + activation("x") + activation("p") +
                           activation("q") + activation("y") +
                           R"(input "x" %x
output "y" %y
%p = leaky_relu(%x) alpha=0.5 name="a" layer="a"
%q = leaky_relu(%p) alpha=0.5 name="b" layer="b"
%y = leaky_relu(%q) alpha=0.5 name="c" layer="c"
)";
const std::vector<std::pair<std::string, Range>> kThreeRanges = {
    {"x", {-1, 1}}, {"p", {-1, 2}}, {"q", {-1, 3}}, {"y", {-1, 4}}};

TEST(quantize_static, only_the_int8_side_of_a_border_is_rounded) {
  const Graph graph = quantized(asked(kThree, {"a", "c"}), ranges(kThreeRanges));
  for (const char* real : {"x", "p", "q", "y"}) EXPECT_FALSE(value(graph, real).quantizer.has_value()) << real;
  expect_codes(graph, "p/int8", {-1, 2});
  expect_codes(graph, "q/int8", {-1, 3});
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kLeakyRelu, Op::kCopy, Op::kLeakyRelu, Op::kCopy, Op::kLeakyRelu}));
  EXPECT_EQ(ops(compiled(graph)),
            (std::vector<Op>{Op::kLeakyRelu, Op::kQuantize, Op::kLookup, Op::kDequantize, Op::kLeakyRelu}));
}

TEST(quantize_static, a_value_read_by_both_sides_is_rounded_for_one) {
  std::string text = kThree;
  text.replace(text.find("%y = leaky_relu(%q)"), 19, "%y = leaky_relu(%p)");
  text += "output \"q\" %q\n";
  const Graph graph = quantized(asked(text, {"a", "c"}), ranges(kThreeRanges));
  EXPECT_EQ(graph.nodes.back().inputs[0], graph.nodes[0].outputs[0]);  // c reads what a wrote
  expect_codes(graph, "p/int8", {-1, 2});
}

TEST(quantize_static, inputs_and_outputs_stay_real) {
  const Graph real = quantized(asked(kThree), ranges(kThreeRanges));
  EXPECT_EQ(ops(real), (std::vector<Op>{Op::kCopy, Op::kLeakyRelu, Op::kLeakyRelu, Op::kLeakyRelu, Op::kCopy}));
  EXPECT_EQ(ops(compiled(real)),
            (std::vector<Op>{Op::kQuantize, Op::kLookup, Op::kLookup, Op::kLookup, Op::kDequantize}));
}

TEST(quantize_static, moves_and_pools_share_one_quantizer) {
  const std::string text = kHead + "layer \"l\" source=\"X\"\n" + activation("x", "[1, 4, 4, 2]") +
                           activation("a", "[1, 4, 4, 2]") + activation("b", "[1, 4, 4, 2]") +
                           activation("p", "[1, 2, 2, 2]") + activation("r", "[1, 8]") + activation("s", "[1, 8]") +
                           activation("c", "[1, 16]") + activation("y", "[1, 16]") +
                           R"(input "x" %x
output "y" %y
%a = leaky_relu(%x) alpha=0.1 name="a" layer="l"
%b = hard_swish(%x) name="b" layer="l"
%p = max_pool(%a) kernel_h=2 kernel_w=2 stride_h=2 stride_w=2 name="p" layer="l"
%r = reshape(%p) rank=2 dims=[1, 8] name="r" layer="l"
)";
  const std::string tail = R"(value %t float32 [1, 2, 2, 2] batched
%t = average_pool(%b) kernel_h=2 kernel_w=2 stride_h=2 stride_w=2 name="t" layer="l"
%s = reshape(%t) rank=2 dims=[1, 8] name="s" layer="l"
%c = concat(%r, %s) axis=1 name="c" layer="l"
%y = hard_swish(%c) name="y" layer="l"
)";
  const Calibration c = ranges({{"x", {-3, 3}},
                                {"a", {-1, 3}},
                                {"b", {-2, 2}},
                                {"p", {-0.5, 3}},
                                {"t", {-1, 1}},
                                {"r", {-9, 9}},
                                {"s", {-9, 9}},
                                {"c", {-0.5, 3}},
                                {"y", {-1, 3}}});
  const Graph graph = quantized(asked(text + tail), c);
  for (const char* name : {"a", "b", "p", "r", "t", "s", "c"})
    expect_codes(graph, name, {-2, 3});  // the range that spans those of a and b
  expect_codes(graph, "x/int8", {-3, 3});
  const Graph program = compiled(graph);
  EXPECT_EQ(std::ranges::count(ops(program), Op::kRequantize), 0);
}

TEST(quantize_static, fixed_outputs_have_fixed_codes_through_moves) {
  const std::string text = kHead + "layer \"l\" source=\"X\"\n" + activation("x") + activation("s") + activation("t") +
                           activation("g") + activation("r", "[1, 2, 2]") + activation("c", "[1, 12]") +
                           R"(input "x" %x
output "r" %r
output "c" %c
%s = softmax(%x) beta=1 axis=1 name="s" layer="l"
%t = tanh(%x) name="t" layer="l"
%g = sigmoid(%x) name="g" layer="l"
%r = reshape(%s) rank=3 dims=[1, 2, 2] name="r" layer="l"
%c = concat(%s, %t, %g) axis=1 name="c" layer="l"
)";
  const Calibration c = ranges({{"x", {-3, 3}},
                                {"s", {0, 0.7f}},
                                {"t", {-0.9f, 0.9f}},
                                {"g", {0.1f, 0.9f}},
                                {"r", {0, 0.7f}},
                                {"c", {-0.9f, 0.9f}}});
  const Graph graph = quantized(asked(text), c);
  for (const char* name : {"s", "g", "r/int8"}) {
    EXPECT_EQ(value(graph, name).quantizer->scale[0], 1.0f / 256) << name;
    EXPECT_EQ(value(graph, name).quantizer->zero[0], -128) << name;
  }
  EXPECT_EQ(value(graph, "t").quantizer->scale[0], 1.0f / 128);
  EXPECT_EQ(value(graph, "t").quantizer->zero[0], 0);
  expect_codes(graph, "c/int8", {-0.9f, 0.9f});  // inputs of several codes take those of the output
  const Graph program = compiled(graph);
  for (const Node& node : program.nodes) EXPECT_NE(node.op, Op::kSigmoid);
}

TEST(quantize_static, a_pad_with_what_fixed_codes_do_not_reach_has_its_own) {
  for (const char* number : {"1.5", "0.5"}) {
    const std::string text = kHead + "layer \"l\" source=\"X\"\n" + activation("x") + activation("g") +
                             activation("y", "[1, 5]") +
                             "input \"x\" %x\noutput \"y\" %y\n%g = sigmoid(%x) name=\"g\" layer=\"l\"\n"
                             "%y = pad(%g) before=[0, 1] after=[0, 0] value=" +
                             number + " name=\"p\" layer=\"l\"\n";
    const Calibration c = ranges({{"x", {-3, 3}}, {"g", {0.1f, 0.9f}}, {"y", {0.1f, std::stof(number)}}});
    const Graph graph = quantized(asked(text), c);
    if (std::stof(number) > 1) expect_codes(graph, "y/int8", {0, 1.5f});
    else EXPECT_EQ(value(graph, "y/int8").quantizer->scale[0], 1.0f / 256);
    EXPECT_NO_THROW(compiled(graph));
  }
}

TEST(quantize_static, constant_operands_are_coded) {
  const std::string text = kHead + "layer \"l\" source=\"ADD\"\n" + activation("x") + activation("y") +
                           R"(value %k float32 [4] region=weights data=float32 {-1, 0, 2, 4}
input "x" %x
output "y" %y
%y = add(%x, %k) name="l" layer="l"
)";
  const Graph graph = quantized(asked(text), ranges({{"x", {-1, 1}}, {"y", {-2, 5}}}));
  expect_codes(graph, "k", {-1, 4});
  EXPECT_EQ(integers(value(graph, "k")), (std::vector<int64_t>{-128, -77, 25, 127}));
  EXPECT_EQ(ops(compiled(graph)), (std::vector<Op>{Op::kQuantize, Op::kAdd, Op::kDequantize}));
}

TEST(quantize_static, an_op_without_integer_form_stays_real_and_is_listed) {
  const std::string text = kHead + "layer \"bn\" source=\"BatchNorm\"\nlayer \"r\" source=\"RELU\"\n" +
                           activation("x") + activation("h") + activation("y") +
                           R"(value %g float32 [4] region=weights data=float32 {1, 1, 1, 1}
value %z float32 [4] region=weights data=float32 {0, 0, 0, 0}
value %m float32 [4] region=weights data=float32 {0, 0, 0, 0}
value %v float32 [4] region=weights data=float32 {1, 1, 1, 1}
input "x" %x
output "y" %y
%h = batch_norm(%x, %g, %z, %m, %v) epsilon=0.001 name="bn" layer="bn"
%y = leaky_relu(%h) alpha=0.1 name="r" layer="r"
)";
  const Graph graph = quantized(asked(text), ranges({{"x", {-1, 1}}, {"h", {-2, 2}}, {"y", {-1, 1}}}));
  EXPECT_EQ(graph.fallbacks,
            std::vector<std::string>{"bn (batch_norm): wants int8/static, runs in float32: it has no integer form"});
  EXPECT_FALSE(value(graph, "h").quantizer.has_value());
  expect_codes(graph, "h/int8", {-2, 2});
}

}  // namespace
}  // namespace nacre::tools
