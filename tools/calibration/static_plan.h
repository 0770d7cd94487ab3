// StaticPlan decides which nodes a static int8 quantization takes, and which values become codes. Private to
// quantize_static.
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
  // Adds to graph.fallbacks each node that stays real although its policy asks for int8/static.
  explicit StaticPlan(Graph& graph);

  bool any() const { return any_; }
  bool coded(size_t node) const { return coded_[node]; }
  // Returns whether `id` lies between an op and the clamp that is fused into it. Such a value gets no codes.
  bool bare(ValueId id) const { return bare_[size_t(id)]; }

  int writer(ValueId id) const { return writer_[size_t(id)]; }  // index of the node that writes the value, or -1
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

// Returns whether the value is float32 in the program and not a constant.
bool is_activation(const Graph& graph, ValueId id);

// Returns the name of a node's layer for errors: "ad01.tflite: dense_1 (FULLY_CONNECTED)".
std::string layer_place(const Graph& graph, const Node& node);

}  // namespace nacre::tools
