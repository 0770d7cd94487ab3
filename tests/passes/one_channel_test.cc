// Tests use_convolutions on micro_speech's network, which begins with a depthwise convolution of one channel into
// eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "tests/graph/run_graph.h"
#include "tests/project_path.h"
#include "tools/compile/compile.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

bool has_op(const Graph& graph, Op op) {
  return std::ranges::any_of(graph.nodes, [op](const Node& node) { return node.op == op; });
}

TEST(use_convolutions, one_channel_is_a_convolution_where_that_is_faster_with_the_same_codes) {
  const std::string path = shared_path("models/tflm/micro_speech_quantized.tflite");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  Graph typed = load_network(path);
  resolve_policies(typed, {});
  apply_policy(typed, {});
  ASSERT_TRUE(has_op(typed, Op::kDepthwiseConv2d));
  Graph made = typed, kept = typed;
  use_convolutions(made, {.name = "arm/m4", .kernels = kernels_of_target("arm/m4")});
  use_convolutions(kept, {.name = "x86/portable", .kernels = kernels_of_target("x86/portable")});
  check(made);
  EXPECT_TRUE(has_op(made, Op::kConv2d));
  EXPECT_FALSE(has_op(made, Op::kDepthwiseConv2d));
  EXPECT_TRUE(has_op(kept, Op::kDepthwiseConv2d));
  std::mt19937 rng(1);
  for (int run = 0; run < 5; ++run) {
    const auto inputs = random_inputs(typed, rng);
    const Graph expected = run_graph(typed, inputs), found = run_graph(made, inputs);
    for (size_t i = 0; i < typed.nodes.size(); ++i)
      EXPECT_EQ(*expected.values[size_t(typed.nodes[i].outputs[0])].data,
                *found.values[size_t(made.nodes[i].outputs[0])].data)
          << typed.nodes[i].name;
  }
}

}  // namespace
}  // namespace nacre::tools
