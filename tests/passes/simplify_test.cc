#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/run_graph.h"
#include "tools/graph/graph.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

Graph simplified(const std::string& text, const SimplifyOptions& options = {}) {
  Graph g = parse(text);
  check(g);
  simplify(g, options);
  check(g);
  return g;
}

// The simplified graph as text, without its banks and log.
std::string after(const std::string& text, const SimplifyOptions& options = {}) {
  Graph g = simplified(text, options);
  g.log.clear();
  std::string out = dump(g);
  out.erase(out.find("bank"), out.find('\n', out.find("bank")) - out.find("bank") + 1);
  return out;
}

int count(const Graph& g, Op op) {
  return int(std::count_if(g.nodes.begin(), g.nodes.end(), [op](const Node& n) { return n.op == op; }));
}

TEST(simplify, nodes_that_nothing_reads_are_removed_with_their_values) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2]
value %c float32 [2] data=float32 {1, 2}
value %u float32 [2]
value %t float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%u = add(%x, %c)
%t = tanh(%u)
%y = tanh(%x)
)"),
            R"(graph "" batch=1
value %x float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%y = tanh(%x)
)");
}

TEST(simplify, every_change_is_one_line_of_the_log) {
  const Graph g = simplified(R"(graph "net" batch=1
value %x float32 [2]
value %u float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%u = tanh(%x) name="dead"
%y = tanh(%x)
)");
  EXPECT_EQ(g.log, std::vector<std::string>{"simplify: removed dead (tanh): nothing reads it"});
}

TEST(simplify, constants_are_folded) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2]
value %a float32 [2] data=float32 {1, 2}
value %b float32 [1] data=float32 {10}
value %c float32 [2]
value %d float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%c = mul(%a, %b)
%d = add(%c, %a)
%y = mul(%x, %d)
)"),
            R"(graph "" batch=1
value %x float32 [2]
value %d float32 [2] region=weights data=float32 {11, 22}
value %y float32 [2]
input "x" %x
output "y" %y
%y = mul(%x, %d)
)");
}

TEST(simplify, a_constant_output_stays_a_step) {
  const Graph g = simplified(R"(graph "" batch=1
value %a float32 [2] data=float32 {1, 2}
value %y float32 [2]
output "y" %y
%y = tanh(%a)
)");
  EXPECT_EQ(g.nodes.size(), 1u);
}

TEST(simplify, a_constant_that_would_enlarge_the_file_is_not_folded) {
  const char text[] = R"(graph "" batch=1
value %x float32 [1, 300000]
value %a float32 [1, 1] data=float32 {1}
value %b float32 [1, 300000]
value %y float32 [1, 300000]
input "x" %x
output "y" %y
%b = pad(%a) after=[0, 299999]
%y = add(%x, %b)
)";
  EXPECT_EQ(count(simplified(text), Op::kPad), 1);
}

TEST(simplify, codes_are_moved_and_never_evaluated) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 3]
value %w float32 [3, 2] codes=int8 axis=1 scale=[0.5, 2] zero=[0, 0] data=int8 {1, 2, 3, 4, 5, 6}
value %t float32 [2, 3]
value %y float32 [1, 2]
input "x" %x
output "y" %y
%t = transpose(%w) perm=[1, 0]
%y = dense(%x, %t)
)"),
            R"(graph "" batch=1
value %x float32 [1, 3]
value %y float32 [1, 2]
value %w float32 [2, 3] codes=int8 axis=0 scale=[0.5, 2] zero=[0, 0] data=int8 {1, 3, 5, 2, 4, 6}
input "x" %x
output "y" %y
%y = dense(%x, %w)
)");
}

TEST(simplify, reshapes_of_reshapes_merge_and_identities_go) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2, 6]
value %a float32 [3, 4]
value %b float32 [2, 6]
value %c float32 [12]
value %y float32 [12]
input "x" %x
output "y" %y
%a = reshape(%x) rank=2 dims=[3, 4]
%b = reshape(%a) rank=2 dims=[2, 6]
%c = reshape(%b) rank=1 dims=[12]
%y = tanh(%c)
)"),
            R"(graph "" batch=1
value %x float32 [2, 6]
value %c float32 [12]
value %y float32 [12]
input "x" %x
output "y" %y
%c = reshape(%x) rank=1 dims=[12]
%y = tanh(%c)
)");
}

TEST(simplify, an_identity_before_an_output_keeps_the_outputs_value) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [2, 6]
value %a float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%a = tanh(%x)
%y = reshape(%a) rank=2 dims=[2, 6]
)"),
            R"(graph "" batch=1
value %x float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%y = tanh(%x)
)");
}

TEST(simplify, an_identity_from_input_to_output_stays) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [2, 6]
value %y float32 [2, 6]
input "x" %x
output "y" %y
%y = transpose(%x) perm=[0, 1]
)");
  EXPECT_EQ(count(g, Op::kReshape), 1);
}

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

TEST(simplify, twins_become_one) {
  const Graph g = simplified(R"(graph "" batch=1
value %x float32 [2, 3]
value %a float32 [3, 2]
value %b float32 [3, 2]
value %r float32 [6]
value %s float32 [6]
value %c float32 [3, 2]
value %d float32 [6]
input "x" %x
output "c" %c
output "d" %d
%a = transpose(%x) perm=[1, 0]
%b = transpose(%x) perm=[1, 0]
%r = reshape(%x) rank=1 dims=[6]
%s = reshape(%x) rank=1 dims=[6]
%c = softmax(%a) axis=1 beta=1
%d = mul(%r, %s)
)");
  EXPECT_EQ(count(g, Op::kReshape), 1);
  EXPECT_LE(count(g, Op::kTranspose), 1);
}

const char kBatchNorm[] = R"(graph "" batch=1
value %x float32 [1, 1, 1, 1]
value %w float32 [2, 1, 1, 1] data=float32 {3, 5}
value %b float32 [2] data=float32 {1, 2}
value %scale float32 [2] data=float32 {2, 4}
value %shift float32 [2] data=float32 {10, 20}
value %mean float32 [2] data=float32 {0.5, 1}
value %variance float32 [2] data=float32 {3, 15}
value %u float32 [1, 1, 1, 2]
value %y float32 [1, 1, 1, 2]
input "x" %x
output "y" %y
%u = conv2d(%x, %w, %b)
%y = batch_norm(%u, %scale, %shift, %mean, %variance) epsilon=1
)";

// s = {2 / sqrt(4), 4 / sqrt(16)} = {1, 1};  b' = (b - mean) s + shift = {10.5, 21}
TEST(simplify, batch_norm_goes_into_the_convolution_before_it) {
  EXPECT_EQ(after(kBatchNorm), R"(graph "" batch=1
value %x float32 [1, 1, 1, 1]
value %y float32 [1, 1, 1, 2]
value %w float32 [2, 1, 1, 1] region=weights data=float32 {3, 5}
value %b float32 [2] region=weights data=float32 {10.5, 21}
input "x" %x
output "y" %y
%y = conv2d(%x, %w, %b)
)");
}

TEST(simplify, batch_norm_stays_where_it_must) {
  EXPECT_EQ(count(simplified(kBatchNorm, {.fold_batch_norm = false}), Op::kBatchNorm), 1);
  const std::string text = kBatchNorm;
  EXPECT_EQ(count(simplified(text + "output \"u\" %u\n"), Op::kBatchNorm), 1) << "the sum is an output";
  std::string quantized = text;
  quantized.insert(quantized.find("%u float32 [1, 1, 1, 2]") + 23, " codes=int8 axis=0 scale=[1] zero=[0]");
  EXPECT_EQ(count(simplified(quantized), Op::kBatchNorm), 1) << "the sum has codes";
  std::string negative = text;
  negative.replace(negative.find("{3, 15}"), 7, "{3, -5}");
  EXPECT_EQ(count(simplified(negative), Op::kBatchNorm), 1) << "the standard deviation is not a number";
}

TEST(simplify, arithmetic_per_channel_goes_into_the_layer_before_it) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [3, 2]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %k float32 [1, 2] data=float32 {10, 100}
value %c float32 [2] data=float32 {5, 6}
value %one float32 [] data=float32 {1}
value %a float32 [3, 2]
value %b float32 [3, 2]
value %d float32 [3, 2]
value %y float32 [3, 2]
input "x" %x
output "y" %y
%a = dense(%x, %w)
%b = mul(%k, %a)
%d = add(%c, %b)
%y = sub(%d, %one) clamp=1 high=6
)"),
            R"(graph "" batch=1
value %x float32 [3, 2]
value %y float32 [3, 2]
value %w float32 [2, 2] region=weights data=float32 {10, 20, 300, 400}
value %b/bias float32 [2] region=weights data=float32 {4, 5}
input "x" %x
output "y" %y
%y = dense(%x, %w, %b/bias) clamp=1 high=6
)");
}

TEST(simplify, arithmetic_that_is_not_per_channel_stays) {
  const char text[] = R"(graph "" batch=1
value %x float32 [2, 2]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %c float32 [2, 1] data=float32 {10, 100}
value %a float32 [2, 2]
value %b float32 [2, 2]
value %one float32 [] data=float32 {1}
value %y float32 [2, 2]
input "x" %x
output "y" %y
%a = dense(%x, %w)
%b = add(%a, %c)
%y = sub(%one, %b)
)";
  EXPECT_EQ(simplified(text).nodes.size(), 3u);
}

TEST(simplify, a_flattening_after_a_transpose_reorders_the_weights) {
  EXPECT_EQ(after(R"(graph "" batch=1
value %x float32 [1, 2, 1, 2]
value %t float32 [1, 2, 2, 1]
value %f float32 [1, 4]
value %w float32 [2, 4] codes=int8 axis=0 scale=[1, 2] zero=[0, 0] data=int8 {1, 2, 3, 4, 5, 6, 7, 8}
value %y float32 [1, 2]
input "x" %x
output "y" %y
%t = transpose(%x) perm=[0, 3, 1, 2]
%f = reshape(%t) rank=2 dims=[1, 4]
%y = dense(%f, %w)
)"),
            R"(graph "" batch=1
value %x float32 [1, 2, 1, 2]
value %f float32 [1, 4]
value %y float32 [1, 2]
value %w float32 [2, 4] codes=int8 axis=0 scale=[1, 2] zero=[0, 0] data=int8 {1, 3, 2, 4, 5, 7, 6, 8}
input "x" %x
output "y" %y
%f = reshape(%x) rank=2 dims=[1, 4]
%y = dense(%f, %w)
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

// conv - relu - add of a per-channel constant - softmax over channels, as an NCHW file has it: NHWC as a whole, the
// constant follows, and what is left is the transpose of the output.
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

// A residual block of an NCHW file: every conv, pool and batch_norm stands between transposes.
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

TEST(simplify, inputs_and_outputs_keep_names_order_and_shapes) {
  const Graph before = parse(kBatchNorm), g = simplified(kBatchNorm);
  for (const auto& [a, b] : {std::pair(&before.inputs, &g.inputs), std::pair(&before.outputs, &g.outputs)}) {
    ASSERT_EQ(a->size(), b->size());
    for (size_t i = 0; i < a->size(); ++i) {
      EXPECT_EQ((*a)[i].name, (*b)[i].name);
      EXPECT_EQ(before.values[size_t((*a)[i].value)].name, g.values[size_t((*b)[i].value)].name);
      EXPECT_EQ(before.values[size_t((*a)[i].value)].dims, g.values[size_t((*b)[i].value)].dims);
    }
  }
}

// Two directions of a recurrence, [batch, time, direction, h], as PyTorch joins them: between two changes of batch and time.
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

// An axis of 1 in front, as that of a batch of 1, stays in front; one that the reshape drops is gone; what was the last axis is it again.
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

// Joined axes that do not follow each other in x, an axis that is split, another reader.
TEST(simplify, a_transpose_stays_before_a_reshape_that_needs_it) {
  const char* const kRest[] = {"value %r float32 [5, 12]\nvalue %y float32 [5, 12]\ninput \"x\" %x\noutput \"y\" %y\n"
                               "%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[5, 12]\n%y = tanh(%r)\n",
                               "value %r float32 [10, 6]\nvalue %y float32 [10, 6]\ninput \"x\" %x\noutput \"y\" %y\n"
                               "%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[10, 6]\n%y = tanh(%r)\n",
                               "value %r float32 [15, 4]\nvalue %y float32 [15, 4]\nvalue %z float32 [5, 3, 4]\ninput \"x\" %x\noutput \"y\" %y\n"
                               "output \"z\" %t\n%t = transpose(%x) perm=[1, 2, 0]\n%r = reshape(%t) rank=2 dims=[15, 4]\n%y = tanh(%r)\n"};
  for (const char* rest : kRest) {
    const Graph g = simplified(std::string("graph \"\" batch=1\nvalue %x float32 [4, 5, 3]\nvalue %t float32 [5, 3, 4]\n") + rest);
    ASSERT_FALSE(g.nodes.empty());
    EXPECT_EQ(g.nodes[0].op, Op::kTranspose) << rest;
    EXPECT_EQ(count(g, Op::kReshape), 1) << rest;
  }
}

// To train: a constant that two steps read. No rule puts a changed copy of it into one of them.
TEST(simplify, what_is_to_be_trained_stays_one) {
  const char* const kTwoBiases = R"(graph "" batch=1
value %x float32 [1, 2]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %b float32 [2] data=float32 {5, 6}
value %t float32 [2, 2]
value %u float32 [1, 2]
value %v float32 [1, 2]
value %z float32 [1, 2]
value %y float32 [1, 2]
input "x" %x
output "y" %y
%t = transpose(%w) perm=[1, 0]
%u = dense(%x, %w)
%v = add(%u, %b)
%z = dense(%v, %t)
%y = add(%z, %b)
)";
  const Graph run = simplified(kTwoBiases);
  EXPECT_EQ(count(run, Op::kTranspose), 0);
  EXPECT_EQ(count(run, Op::kAdd), 0);
  const Graph trained = simplified(kTwoBiases, kSimplifyToTrain);
  EXPECT_EQ(count(trained, Op::kTranspose), 1);
  EXPECT_EQ(count(trained, Op::kAdd), 0);
  std::vector<ValueId> biases;
  for (const Node& node : trained.nodes)
    if (node.op == Op::kDense) biases.push_back(node.inputs.at(2));
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0], biases[1]);
  const std::vector<float> x = {1, -1};
  const auto result = [&](const Graph& g) {
    const Graph done = run_graph(g, {bytes_of(x)});
    return reals(done.values[size_t(done.outputs[0].value)]);
  };
  EXPECT_EQ(result(trained), result(run));
}

TEST(simplify, a_shared_constant_keeps_a_flattened_image_in_its_order) {
  const char* const kFlattened = R"(graph "" batch=1
value %x float32 [1, 2, 1, 2]
value %t float32 [1, 2, 2, 1]
value %f float32 [1, 4]
value %w float32 [4, 4] data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
value %h float32 [1, 4]
value %y float32 [1, 4]
input "x" %x
output "y" %y
%t = transpose(%x) perm=[0, 3, 1, 2]
%f = reshape(%t) rank=2 dims=[1, 4]
%h = dense(%f, %w)
%y = dense(%h, %w)
)";
  EXPECT_EQ(count(simplified(kFlattened), Op::kTranspose), 0);
  const Graph trained = simplified(kFlattened, kSimplifyToTrain);
  EXPECT_EQ(count(trained, Op::kTranspose), 1);
  EXPECT_EQ(trained.nodes.back().inputs[1], std::prev(trained.nodes.end(), 2)->inputs[1]);
}

}  // namespace
}  // namespace nacre::tools
