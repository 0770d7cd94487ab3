// Which nodes a static int8 quantization takes, and which values become codes. Private to quantize_static.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/calibration/softmax_masks.h"
#include "tools/graph/op_facts.h"

namespace nacre::tools {

std::optional<Quantizer> fixed_quantizer(Op op);

class StaticPlan {
 public:
  // Adds to graph.fallbacks what stays real against its policy.
  explicit StaticPlan(Graph& graph);

  bool any() const { return any_; }
  bool coded(size_t node) const { return coded_[node]; }
  // Between an op and a clamp that melts into it: no codes of its own.
  bool bare(ValueId id) const { return bare_[size_t(id)]; }

  int writer(ValueId id) const { return writer_[size_t(id)]; }  // index of a node, or -1
  const std::vector<int>& readers(ValueId id) const { return readers_[size_t(id)]; }
  bool is_output(ValueId id) const { return output_[size_t(id)]; }

 private:
  bool wanted(const Node& node) const;
  bool follows_codes(const Node& node) const;
  std::string refusal(const Node& node) const;
  bool melts(const Node& clamp) const;

  const Graph& graph_;
  const SoftmaxMasks masks_;
  std::vector<int> writer_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> output_, coded_, bare_;
  bool any_ = false;
};

// Float32 in the program and no constant.
bool is_activation(const Graph& graph, ValueId id);

// The place of a node's layer for errors: "ad01.tflite: dense_1 (FULLY_CONNECTED)".
std::string layer_place(const Graph& graph, const Node& node);

}  // namespace nacre::tools
