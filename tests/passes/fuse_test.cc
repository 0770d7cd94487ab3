// Tests the pass fuse on graphs as text: steps that it must merge, and steps that it must leave as they are.
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/graph_text.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

std::string fused(const std::string& text) {
  Graph graph = parse(text);
  check(graph);
  fuse(graph);
  check(graph);
  return steps(graph);
}

const std::string kAddThenClamp = R"(graph "t" batch=1
value %a float32 [2]
value %b float32 [2]
value %s float32 [2]
value %y float32 [2]
value %z float32 [2]
input "a" %a
input "b" %b
)";

TEST(fuse, a_clamp_melts_into_the_step_before_it) {
  EXPECT_EQ(fused(kAddThenClamp + R"(output "y" %y
%s = add(%a, %b) name="sum"
%y = clamp(%s) clamp=1 low=0 high=6 name="relu6"
)"),
            "%y = add(%a, %b) clamp=1 high=6 name=\"sum\"\n");
}

TEST(fuse, clamps_in_a_row_are_one) {
  // clamp(-1, 4), clamp(0, 6) and clamp(-inf, 3) one after another are the interval [0, 3].
  EXPECT_EQ(fused(kAddThenClamp + R"(output "y" %y
%s = clamp(%a) clamp=1 low=-1 high=4 name="c1"
%z = clamp(%s) clamp=1 low=0 high=6 name="c2"
%y = clamp(%z) clamp=1 low=-inf high=3 name="c3"
)"),
            "%y = clamp(%a) clamp=1 high=3 name=\"c1\"\n");
}

TEST(fuse, disjoint_clamps_leave_one_value) {
  EXPECT_EQ(fused(kAddThenClamp + R"(output "y" %y
%s = clamp(%a) clamp=1 low=5 high=6 name="c1"
%y = clamp(%s) clamp=1 low=1 high=2 name="c2"
)"),
            "%y = clamp(%a) clamp=1 low=2 high=2 name=\"c1\"\n");
}

TEST(fuse, a_value_with_two_readers_keeps_its_clamp_apart) {
  const std::string nodes = R"(%s = add(%a, %b) name="sum"
%y = clamp(%s) clamp=1 high=6 name="relu6"
%z = add(%s, %y) name="both"
)";
  EXPECT_EQ(fused(kAddThenClamp + "output \"z\" %z\n" + nodes), nodes);
}

TEST(fuse, an_output_of_the_graph_keeps_its_value) {
  const std::string nodes = R"(%s = add(%a, %b) name="sum"
%y = clamp(%s) clamp=1 high=6 name="relu6"
)";
  EXPECT_EQ(fused(kAddThenClamp + "output \"s\" %s\noutput \"y\" %y\n" + nodes), nodes);
}

TEST(fuse, an_op_without_a_clamp_keeps_it_apart) {
  const std::string nodes = R"(%s = tanh(%a) name="tanh"
%y = clamp(%s) clamp=1 high=6 name="relu6"
)";
  EXPECT_EQ(fused(kAddThenClamp + "output \"y\" %y\n" + nodes), nodes);
}

TEST(fuse, a_clamp_that_lets_all_pass_is_dropped) {
  EXPECT_EQ(fused(kAddThenClamp + R"(output "z" %z
%s = clamp(%a) clamp=1 low=-inf high=inf name="idle"
%z = add(%s, %s) clamp=1 low=-inf high=inf name="twice"
)"),
            "%z = add(%a, %a) name=\"twice\"\n");
}

// A kernel rounds to its operands' type and then to one more type. A third rounding needs a step of its own.
TEST(fuse, of_two_casts_one_after_the_other_the_first_melts) {
  EXPECT_EQ(fused(R"(graph "t" batch=1
value %x float32 [1, 2]
value %w float32 [3, 2] data=float32 {1, 2, 3, 4, 5, 6}
value %h float32 [1, 3]
value %r bfloat16 [1, 3]
value %y float32 [1, 3]
input "x" %x
output "y" %y
%h = dense(%x, %w) name="fc"
%r = cast(%h) name="down"
%y = cast(%r) name="up"
)"),
            "%r = dense(%x, %w) name=\"fc\"\n%y = cast(%r) name=\"up\"\n");
}

// The operands are codes. Nothing in their types says that the separate step rounds to float16.
TEST(fuse, a_cast_of_what_is_made_of_float8_stays) {
  const std::string nodes = "%h = dense(%x, %w, none, %s, %t) name=\"fc\"\n%y = cast(%h) name=\"up\"\n";
  EXPECT_EQ(fused(R"(graph "t" batch=1
value %x float8_e4m3 [1, 2]
value %w float8_e4m3 [3, 2] data=float8_e4m3 hex 383838383838
value %s float32 [1] data=float32 {0.3}
value %t float32 [1] data=float32 {0.7}
value %h float16 [1, 3]
value %y float32 [1, 3]
input "x" %x
output "y" %y
)" + nodes),
            nodes);
}

const std::string kInt8 = R"(graph "t" batch=1
layer "l" source="ADD"
value %a int8 [2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %s int8 [2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %y int8 [2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %r3 int32 [3, 2] region=weights data=int32 {1073741824, 0, 1073741824, 0, 1073741824, -18}
value %r1 int32 [1, 2] region=weights data=int32 {1073741824, 0}
input "a" %a
output "y" %y
)";

TEST(fuse, an_int8_clamp_of_the_same_codes_melts) {
  EXPECT_EQ(fused(kInt8 + R"(%s = add(%a, %a, %r3) clamp=1 low=-100 high=50 a_zero=3 b_zero=3 y_zero=3 left_shift=20 )"
                          R"(rounding=double name="sum" layer="l"
%y = clamp(%s) clamp=1 low=3 high=127 x_zero=3 y_zero=3 name="relu" layer="l"
)"),
            "%y = add(%a, %a, %r3) clamp=1 low=3 high=50 a_zero=3 b_zero=3 y_zero=3 left_shift=20 rounding=double "
            "name=\"sum\" layer=\"l\"\n");
}

TEST(fuse, an_int8_clamp_of_all_codes_is_dropped) {
  EXPECT_EQ(
      fused(kInt8 + R"(%s = add(%a, %a, %r3) clamp=1 low=-128 high=127 a_zero=3 b_zero=3 y_zero=3 left_shift=20 )"
                    R"(rounding=double name="sum" layer="l"
%y = clamp(%s) clamp=1 low=-128 high=127 x_zero=3 y_zero=3 name="relu" layer="l"
)"),
      "%y = add(%a, %a, %r3) a_zero=3 b_zero=3 y_zero=3 left_shift=20 rounding=double name=\"sum\" layer=\"l\"\n");
}

TEST(fuse, a_clamp_that_requantizes_stays) {
  const std::string nodes =
      R"(%s = add(%a, %a, %r3) a_zero=3 b_zero=3 y_zero=3 left_shift=20 rounding=double name="sum" layer="l"
%y = clamp(%s, %r1) clamp=1 low=3 high=127 x_zero=3 y_zero=3 rounding=double name="relu" layer="l"
)";
  EXPECT_EQ(fused(kInt8 + nodes), nodes);
}

}  // namespace
}  // namespace nacre::tools
