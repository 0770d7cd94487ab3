// use_convolutions: makes a convolution of a depthwise convolution of one channel. It computes the same sums in the
// same order:
//
//   w [kernel_h, kernel_w, out_c] becomes [out_c, kernel_h, kernel_w, 1]
//
// Only int8 layers are changed, and only if conv2d has a kernel in an earlier set of those that bind tries.
// ports/cortex_m has no depthwise kernel of several outputs per channel, and keyword spotting begins with such a layer
// (micro_speech: 8 outputs of one channel).
#include "engine/ops/conv.h"
#include "tools/graph/operands.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

bool of_one_channel(const Graph& graph, const Node& node) {
  if (node.op != Op::kDepthwiseConv2d) return false;
  const Value& x = graph.values[size_t(node.inputs[Conv2d::kX])];
  const Value& w = graph.values[size_t(node.inputs[Conv2d::kW])];
  return x.dims.back() == 1 && w.constant() && w.dims.size() == 3 && x.type == ElementType::kInt8 &&
         w.type == ElementType::kInt8 && w.layout == Layout::kRowMajor;
}

ValueId channels_first(Graph& graph, const Node& near, ValueId id) {
  Value made = graph.values[size_t(id)];
  const std::vector<int64_t> dims = {made.dims[2], made.dims[0], made.dims[1]};
  made.name += "/channels_first";
  made.data = nullptr;
  made.dims = dims;
  if (made.quantizer) made.quantizer->axis = 0;
  const std::string name = made.name;
  const ValueId y = graph.add(std::move(made));
  Node transpose = make_step(Op::kTranspose, near, name, {id}, {y});
  for (int i = 0; i < 3; ++i) set_integer(transpose, "perm", (i + 2) % 3, i);
  Value& w = graph.values[size_t(y)];
  w.data = std::make_shared<const std::vector<uint8_t>>(std::move(evaluate(graph, transpose)[0]));
  w.dims = {dims[0], dims[1], dims[2], 1};
  return y;
}

}  // namespace

void use_convolutions(Graph& graph, const Target& target) {
  const KernelSets kernels = kernels_of(target);
  for (Node& node : graph.nodes) {
    if (!of_one_channel(graph, node)) continue;
    const size_t depthwise = set_for(graph, node, kernels);
    if (depthwise == 0) continue;
    Node conv = node;
    conv.op = Op::kConv2d;
    conv.inputs[Conv2d::kW] = channels_first(graph, node, node.inputs[Conv2d::kW]);
    if (set_for(graph, conv, kernels) >= depthwise) continue;
    graph.log.push_back("use_convolutions: " + node.name + " (depthwise_conv2d) of one channel as conv2d");
    node = std::move(conv);
  }
}

}  // namespace nacre::tools
