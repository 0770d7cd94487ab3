// Tests that simplify cancels and merges transposes, and moves them out of regions of pointwise ops and past
// reshapes.
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/simplified_text.h"
#include "tools/graph/graph.h"

namespace nacre::tools {
namespace {

using namespace simplified_text;

TEST(simplify, transposes_that_are_inverse_cancel) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 2, 3, 4]
value %a float32 [1, 3, 4, 2]
value %b float32 [1, 2, 3, 4]
value %y float32 [1, 2, 3, 4]
input "x" %x
output "y" %y
%a = transpose(%x) perm=[0, 2, 3, 1]
%b = transpose(%a) perm=[0, 3, 1, 2]
%y = tanh(%b)
)"),
            R"(graph "" batch=1
value %x float32 [1, 2, 3, 4]
value %y float32 [1, 2, 3, 4]
input "x" %x
output "y" %y
%y = tanh(%x)
)");
}

TEST(simplify, transposes_in_a_row_merge) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2, 3, 4]
value %a float32 [3, 4, 2]
value %y float32 [4, 3, 2]
input "x" %x
output "y" %y
%a = transpose(%x) perm=[1, 2, 0]
%y = transpose(%a) perm=[1, 0, 2]
)"),
            R"(graph "" batch=1
value %x float32 [2, 3, 4]
value %y float32 [4, 3, 2]
input "x" %x
output "y" %y
%y = transpose(%x) perm=[2, 1, 0]
)");
}

TEST(simplify, transposes_that_move_nothing_are_reshapes) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 1, 5, 4]
value %y float32 [1, 5, 4, 1]
input "x" %x
output "y" %y
%y = transpose(%x) perm=[0, 2, 3, 1]
)"),
            R"(graph "" batch=1
value %x float32 [1, 1, 5, 4]
value %y float32 [1, 5, 4, 1]
input "x" %x
output "y" %y
%y = reshape(%x) rank=4 dims=[1, 5, 4, 1]
)");
}

TEST(simplify, a_quantizer_behind_a_transpose_is_that_of_the_value_before_it) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [1, 2, 2, 3]
value %a float32 [1, 2, 2, 3]
value %b float32 [1, 3, 2, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %c float32 [1, 2, 2, 3]
value %y float32 [1, 2, 2, 3]
input "x" %x
output "y" %y
%a = tanh(%x)
%b = transpose(%a) perm=[0, 3, 1, 2]
%c = transpose(%b) perm=[0, 2, 3, 1]
%y = sigmoid(%c)
)");
  EXPECT_EQ(g.nodes.size(), 2u);
  ASSERT_TRUE(g.values[size_t(g.nodes[0].outputs[0])].quantizer.has_value());
  EXPECT_EQ(g.values[size_t(g.nodes[0].outputs[0])].quantizer->zero, std::vector<int64_t>{3});
}

TEST(simplify, a_transpose_that_also_requantizes_stays) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [1, 2, 2, 3]
value %a float32 [1, 2, 2, 3] codes=int8 axis=0 scale=[0.25] zero=[0]
value %b float32 [1, 3, 2, 2] codes=int8 axis=0 scale=[0.5] zero=[3]
value %y float32 [1, 2, 2, 3]
input "x" %x
output "y" %y
%a = tanh(%x)
%b = transpose(%a) perm=[0, 3, 1, 2]
%y = transpose(%b) perm=[0, 2, 3, 1]
)");
  EXPECT_EQ(count(g, Op::kTranspose), 2);
}

// The graph is conv - relu - add of a per-channel constant - softmax over channels, in the layout of an NCHW file.
// All of it becomes NHWC, the constant is permuted, and only the output's transpose remains.
TEST(simplify, transposes_leave_a_region_of_pointwise_ops) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 2, 2, 1]
value %w float32 [2, 1, 1, 1] data=float32 {1, 2}
value %c float32 [2, 1, 1] data=float32 {10, 20}
value %u float32 [1, 2, 2, 2] batched
value %t float32 [1, 2, 2, 2] batched
value %r float32 [1, 2, 2, 2] batched
value %a float32 [1, 2, 2, 2] batched
value %y float32 [1, 2, 2, 2] batched
input "x" %x
output "y" %y
%u = conv2d(%x, %w)
%t = transpose(%u) perm=[0, 3, 1, 2]
%r = clamp(%t) clamp=1 high=6
%a = add(%r, %c)
%y = softmax(%a) axis=1 beta=1
)"),
            R"(graph "" batch=1
value %x float32 [1, 2, 2, 1]
value %w float32 [2, 1, 1, 1] data=float32 {1, 2}
value %u float32 [1, 2, 2, 2] batched
value %r float32 [1, 2, 2, 2] batched
value %a float32 [1, 2, 2, 2] batched
value %y float32 [1, 2, 2, 2] batched
value %c float32 [1, 1, 1, 2] data=float32 {10, 20}
value %y_2 float32 [1, 2, 2, 2] batched
input "x" %x
output "y" %y
%u = conv2d(%x, %w)
%r = clamp(%u) clamp=1 high=6
%a = add(%r, %c)
%y_2 = softmax(%a) axis=3 beta=1
%y = transpose(%y_2) perm=[0, 3, 1, 2]
)");
}

TEST(simplify, attributes_follow_their_axes) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [1, 4, 5, 3]
value %t float32 [1, 3, 4, 5]
value %p float32 [1, 3, 6, 6]
value %s float32 [1, 2, 3, 6]
value %c float32 [1, 4, 3, 6]
value %m float32 [1, 4]
input "x" %x
output "m" %m
%t = transpose(%x) perm=[0, 3, 1, 2]
%p = pad(%t) before=[0, 0, 1, 0] after=[0, 0, 1, 1] value=0
%s = slice(%p) begin=[0, 1, 5, 0] size=[1, 2, 3, 6] step=[1, 1, -2, 1]
%c = concat(%s, %s) axis=1
%m = mean(%c) axes=12
)");
  ASSERT_EQ(count(g, Op::kTranspose), 0) << dump(g);
  EXPECT_EQ(get_integer(g.nodes[0], "before", 1), 1);
  EXPECT_EQ(get_integer(g.nodes[0], "after", 2), 1);
  EXPECT_EQ(get_integer(g.nodes[1], "begin", 3), 1);
  EXPECT_EQ(get_integer(g.nodes[1], "step", 1), -2);
  EXPECT_EQ(get_integer(g.nodes[2], "axis"), 3);
  EXPECT_EQ(get_integer(g.nodes[3], "axes"), 6);
}

// A residual block of an NCHW file: every conv, pool and batch_norm has a transpose before and after it.
TEST(simplify, a_residual_nchw_network_keeps_transposes_at_its_border_only) {
  const std::string text = R"(graph "" batch=1
value %x float32 [1, 3, 8, 8] batched
value %w1 float32 [3, 1, 1, 3] data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9}
value %w2 float32 [3, 1, 1, 3] data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9}
value %k float32 [3] data=float32 {1, 2, 3}
value %f float32 [2, 48] data=float32 hex )" +
                           std::string(2 * 48 * 8, '0') + R"(
value %x1 float32 [1, 8, 8, 3] batched
value %c1 float32 [1, 8, 8, 3] batched
value %t1 float32 [1, 3, 8, 8] batched
value %n0 float32 [1, 8, 8, 3] batched
value %n1 float32 [1, 8, 8, 3] batched
value %n2 float32 [1, 3, 8, 8] batched
value %r1 float32 [1, 3, 8, 8] batched
value %x2 float32 [1, 8, 8, 3] batched
value %c2 float32 [1, 8, 8, 3] batched
value %t2 float32 [1, 3, 8, 8] batched
value %a float32 [1, 3, 8, 8] batched
value %r2 float32 [1, 3, 8, 8] batched
value %x3 float32 [1, 8, 8, 3] batched
value %p float32 [1, 4, 4, 3] batched
value %t3 float32 [1, 3, 4, 4] batched
value %h float32 [1, 3, 4, 4] batched
value %flat float32 [1, 48] batched
value %y float32 [1, 2] batched
input "x" %x
output "y" %y
%x1 = transpose(%x) perm=[0, 2, 3, 1]
%c1 = conv2d(%x1, %w1)
%t1 = transpose(%c1) perm=[0, 3, 1, 2]
%n0 = transpose(%t1) perm=[0, 2, 3, 1]
%n1 = batch_norm(%n0, %k, %k, %k, %k) epsilon=0.5
%n2 = transpose(%n1) perm=[0, 3, 1, 2]
%r1 = clamp(%n2) clamp=1 high=inf
%x2 = transpose(%r1) perm=[0, 2, 3, 1]
%c2 = conv2d(%x2, %w2)
%t2 = transpose(%c2) perm=[0, 3, 1, 2]
%a = add(%t2, %r1)
%r2 = clamp(%a) clamp=1 high=inf
%x3 = transpose(%r2) perm=[0, 2, 3, 1]
%p = max_pool(%x3) kernel_h=2 kernel_w=2 stride_h=2 stride_w=2
%t3 = transpose(%p) perm=[0, 3, 1, 2]
%h = hard_swish(%t3)
%flat = reshape(%h) rank=2 dims=[1, 48]
%y = dense(%flat, %f)
)";
  const Graph g = simplified(text);
  EXPECT_EQ(count(g, Op::kTranspose), 1) << dump(g);
  EXPECT_EQ(g.nodes[0].op, Op::kTranspose);
  EXPECT_EQ(count(g, Op::kBatchNorm), 0);
  EXPECT_EQ(g.nodes.size(), 10u);  // transpose, conv, relu, conv, add, relu, pool, hard_swish, reshape, dense
}

// PyTorch joins the two directions of a recurrence, [batch, time, direction, h], between two transposes of batch and
// time.
TEST(simplify, a_transpose_meets_its_inverse_behind_a_reshape_that_joins_axes) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [4, 5, 2, 3]
value %t float32 [5, 4, 2, 3]
value %r float32 [5, 4, 6]
value %u float32 [4, 5, 6]
value %y float32 [4, 5, 6]
input "x" %x
output "y" %y
%t = transpose(%x) perm=[1, 0, 2, 3]
%r = reshape(%t) rank=3 dims=[5, 4, 6] name="join"
%u = transpose(%r) perm=[1, 0, 2]
%y = tanh(%u)
)"),
            R"(graph "" batch=1
value %x float32 [4, 5, 2, 3]
value %y float32 [4, 5, 6]
value %r float32 [4, 5, 6]
input "x" %x
output "y" %y
%r = reshape(%x) rank=3 dims=[4, 5, 6] name="join"
%y = tanh(%r)
)");
}

// A first axis of 1, such as a batch of 1, stays first. An axis of 1 that the reshape drops stays dropped. The axis
// that was last before the transpose is last again.
TEST(simplify, a_delayed_transpose_leaves_axes_of_1_where_they_are) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [1, 4, 5, 1, 3]
value %t float32 [1, 3, 4, 1, 5]
value %r float32 [1, 3, 20]
value %u float32 [1, 20, 3]
value %y float32 [1, 20, 3]
input "x" %x
output "y" %y
%t = transpose(%x) perm=[0, 4, 1, 3, 2]
%r = reshape(%t) rank=3 dims=[1, 3, 20]
%u = transpose(%r) perm=[0, 2, 1]
%y = tanh(%u)
)");
  EXPECT_EQ(count(g, Op::kTranspose), 0);
  EXPECT_EQ(count(g, Op::kReshape), 1);
}

// The transpose stays if joined axes do not follow each other in x, if an axis is split, or if there is another
// reader.
TEST(simplify, a_transpose_stays_before_a_reshape_that_needs_it) {
  const char* const kRest[] = {
      "value %r float32 [5, 12]\nvalue %y float32 [5, 12]\ninput \"x\" %x\noutput \"y\" %y\n"
      "%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[5, 12]\n%y = tanh(%r)\n",
      "value %r float32 [10, 6]\nvalue %y float32 [10, 6]\ninput \"x\" %x\noutput \"y\" %y\n"
      "%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[10, 6]\n%y = tanh(%r)\n",
      "value %r float32 [15, 4]\nvalue %y float32 [15, 4]\nvalue %z float32 [5, 3, 4]\ninput \"x\" %x\noutput \"y\" "
      "%y\n"
      "output \"z\" %t\n%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[15, 4]\n%y = tanh(%r)\n"};
  for (const char* rest : kRest) {
    const Graph g =
        simplified(std::string("graph \"\" batch=1\nvalue %x float32 [4, 5, 3]\nvalue %t float32 [5, 3, 4]\n") + rest);
    ASSERT_FALSE(g.nodes.empty());
    EXPECT_EQ(g.nodes[0].op, Op::kTranspose) << rest;
    EXPECT_EQ(count(g, Op::kReshape), 1) << rest;
  }
}

}  // namespace
}  // namespace nacre::tools
