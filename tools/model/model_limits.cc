#include "tools/model/model_limits.h"

#include <fmt/format.h>

#include "engine/model/model.h"
#include "tools/base/error.h"
#include "tools/base/format.h"

namespace nacre::tools {
namespace {

constexpr Limits kLimits;
constexpr size_t kMostOperands = 24, kMostWords = 255;

void require_name(const Graph& graph, const std::string& what, const std::string& name) {
  if (name.size() <= kLimits.string_bytes) return;
  throw Error(kUnsupported, fmt::format("{}: {} '{}...'", graph.source, what, name.substr(0, 32)),
              fmt::format("its name has {} bytes, a model holds at most {}", grouped(name.size()),
                          grouped(kLimits.string_bytes)),
              "shorten the name in the network's file");
}

void require_count(const Graph& graph, size_t count, size_t limit, const char* what) {
  if (count <= limit) return;
  throw Error(kUnsupported, graph.source,
              fmt::format("has {} {}, a model holds at most {}", grouped(count), what, grouped(limit)),
              "split the network into several");
}

}  // namespace

void require_bindings(const Graph& graph, size_t inputs, size_t outputs) {
  require_count(graph, inputs, kLimits.tensors, "inputs");
  require_count(graph, outputs, kLimits.tensors, "outputs");
}

void require_names(const Graph& graph) {
  for (const Binding& b : graph.inputs) require_name(graph, "input", b.name);
  for (const Binding& b : graph.outputs) require_name(graph, "output", b.name);
  for (const Layer& layer : graph.layers) {
    require_name(graph, "layer", layer.name);
    require_name(graph, "the operator of layer " + layer.name.substr(0, 32) + ",", layer.source_op);
  }
  for (const Value& v : graph.values) require_value_name(graph, v.name);
}

void require_value_name(const Graph& graph, const std::string& name) { require_name(graph, "value", name); }

void require_operators(const Graph& graph) {
  constexpr size_t kMost = 4 * size_t{kLimits.steps};
  if (graph.nodes.size() <= kMost) return;
  throw Error(kUnsupported, graph.source,
              fmt::format("has more than {} steps, a model holds at most {}", grouped(kMost), grouped(kLimits.steps)),
              "split the network into several");
}

void require_steps(const Graph& graph) {
  require_count(graph, graph.nodes.size(), kLimits.steps, "steps");
  require_count(graph, graph.layers.size(), kMaxLayers, "layers");
  for (const Node& node : graph.nodes)
    if (node.inputs.size() + node.outputs.size() > kMostOperands || node.words.size() > kMostWords)
      throw Error(kUnsupported, (graph.source.empty() ? "" : graph.source + ": ") + node.name,
                  fmt::format("has {} operands and {} attribute words in one step, at most {} and {} are supported",
                              node.inputs.size() + node.outputs.size(), node.words.size(), kMostOperands, kMostWords),
                  "split the operator");
}

void require_tensors(const Graph& graph, size_t tensors) { require_count(graph, tensors, kLimits.tensors, "tensors"); }

}  // namespace nacre::tools
