// Tests that simplify folds batch norms, arithmetic per channel and flattenings into the parameters of layers.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/graph/run_graph.h"
#include "tests/passes/simplified_text.h"
#include "tools/graph/graph.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using namespace simplified_text;

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
value %one float32 [] data=float32 {1}
value %d float32 [3, 2]
value %y float32 [3, 2]
value %w float32 [2, 2] region=weights data=float32 {10, 20, 300, 400}
value %b/bias float32 [2] region=weights data=float32 {5, 6}
input "x" %x
output "y" %y
%d = dense(%x, %w, %b/bias)
%y = sub(%d, %one) clamp=1 high=6
)") << "a second sum keeps its place: (u + b) - 1 is not u + (b - 1)";
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

// In a graph to train, two steps read one constant. No rule may fold a changed copy of it into one of them.
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

// A bias or other constant that the pass computes from constants trains if they train.
TEST(simplify, made_constants_are_to_training_what_they_are_made_of) {
  const std::string text = R"(graph "" batch=1
value %x float32 [3, 2]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %c float32 [2] data=float32 {5, 6}
value %d float32 [3, 2]
value %y float32 [3, 2]
input "x" %x
output "y" %y
%d = dense(%x, %w)
%y = add(%d, %c)
)";
  const auto bias = [&](const char* flag) {
    std::string of = text;
    of.insert(of.find('\n', of.find("{5, 6}")), flag);
    const Graph graph = simplified(of, kSimplifyToTrain);
    EXPECT_EQ(graph.nodes.size(), 1u);
    return graph.values[size_t(graph.nodes.at(0).inputs.at(2))];
  };
  EXPECT_FALSE(bias("").fixed || bias("").frozen || bias("").variable);
  EXPECT_TRUE(bias(" fixed").fixed);
  EXPECT_TRUE(bias(" frozen").frozen);
  EXPECT_TRUE(bias(" variable").variable);
  const std::string sum = R"(graph "" batch=1
value %x float32 [2]
value %a float32 [2] data=float32 {1, 2}
value %b float32 [2] data=float32 {3, 4}
value %c float32 [2]
value %y float32 [2]
input "x" %x
output "y" %y
%c = mul(%a, %b)
%y = mul(%x, %c)
)";
  const auto product = [&](const char* a, const char* b) {
    std::string of = sum;
    of.insert(of.find('\n', of.find("{3, 4}")), b);
    of.insert(of.find('\n', of.find("{1, 2}")), a);
    return simplified(of, kSimplifyToTrain);
  };
  const auto made = [](const Graph& graph) { return graph.values[size_t(graph.nodes.at(0).inputs.at(1))]; };
  EXPECT_FALSE(made(product("", " fixed")).fixed || made(product("", " frozen")).frozen);
  EXPECT_TRUE(made(product(" fixed", " fixed")).fixed);
  EXPECT_TRUE(made(product(" frozen", " fixed")).frozen);
  EXPECT_EQ(product(" variable", " fixed").nodes.size(), 2u) << "a parameter of the source stays apart";
}

}  // namespace
}  // namespace nacre::tools
