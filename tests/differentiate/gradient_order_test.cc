// Tests that a gradient to which several layers add is read only after all additions, even if one of the layers reads
// the parameter in another shape.
#include <gtest/gtest.h>

#include <map>

#include "tests/importers/onnx_builder.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/graph/operands.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// An ordinary and a depthwise convolution share the kernel [4, 1, 3, 3]; the depthwise one stores it in another
// order. A dense layer follows.
Graph two_convolutions(int64_t size, int batch) {
  OnnxBuilder b;
  b.input("x", {1, 1, size, size}, {"batch", "", "", ""});
  b.counted("w", {4, 1, 3, 3});
  b.counted("b", {4});
  b.counted("v", {3, 4});
  b.filled("c", {3}, 0);
  b.node("Conv", {"x", "w", "b"}, {"h"}).ints("pads", {1, 1, 1, 1});
  b.node("Tanh", {"h"}, {"t"});
  b.node("Conv", {"t", "w", "b"}, {"i"}).integer("group", 4);
  b.node("Tanh", {"i"}, {"u"});
  b.node("ReduceMean", {"u"}, {"m"}).ints("axes", {2, 3}).integer("keepdims", 0);
  b.node("Gemm", {"m", "v", "c"}, {"y"}).integer("transB", 1);
  b.output("y");
  Graph graph = import_onnx(b.finish(), "test.onnx", {.batch = batch, .train = true});
  simplify(graph, kSimplifyToTrain);
  return graph;
}

// Returns how often a gradient program reads a sum before its last addition.
int early_reads(const Graph& graph) {
  const auto root = [&](ValueId v) {
    return graph.values[size_t(v)].alias_of == kNone ? v : graph.values[size_t(v)].alias_of;
  };
  std::map<ValueId, size_t> last_update;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i)
      if (graph.nodes[n].inputs[i] != kNone && is_updated(*find_rule(graph.nodes[n].op), i))
        last_update[root(graph.nodes[n].inputs[i])] = n;
  int early = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      const ValueId v = graph.nodes[n].inputs[i];
      if (v == kNone || is_updated(*find_rule(graph.nodes[n].op), i)) continue;
      const auto found = last_update.find(root(v));
      early += found != last_update.end() && found->second > n;
    }
  return early;
}

TEST(gradient_order, no_sum_is_read_before_its_last_addition) {
  for (const char* policy : {"float32", "float64"})
    for (const int batch : {1, 3, 6, 8})
      for (const int64_t size : {4, 5, 6, 8, 12}) {
        CompileOptions compiling;
        compiling.policies = parse_policy_options({.policy = policy});
        const TrainingModel made = compile_training(two_convolutions(size, batch), {}, compiling);
        EXPECT_EQ(early_reads(made.gradients), 0) << policy << ", " << batch << " rows of " << size;
      }
}

// The gradient of a fused step would leave out the fused operation, so the pass refuses.
TEST(gradient_order, a_fused_step_is_refused) {
  for (const char* step : {"%y = dense(%x, %w, none, %x)", "%y = dense(%x, %w) clamp=6"}) {
    Graph graph = parse(std::string(R"(graph "t" batch=1
layer "fc" source="Gemm"
value %x float32 [1, 2]
value %w float32 [2, 2] data=float32 {1, 2, 3, 4}
value %y float32 [1, 2]
input "x" %x
output "y" %y
)") + step + " name=\"fc\" layer=\"fc\"\n");
    TrainingOptions options;
    options.loss.kind = Loss::kSquaredError;
    try {
      compile_training(graph, options, {});
      FAIL() << "not refused: " << step;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is fused with what followed it"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nacre::tools
