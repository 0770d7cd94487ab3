// Functions that plan_quantizers.cc, training_quantizers.cc and trained_ranges.cc share.
#pragma once

#include <string>

#include "tools/differentiate/training_quantizers.h"
#include "tools/graph/graph.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/source_training.h"

namespace nacre::tools {

// Returns the policy that the user asked for the node's layer. Null if there is none.
inline const Policy* policy_of(const Graph& graph, const Node& node) {
  if (node.layer == kNone || !graph.layers[size_t(node.layer)].asked) return nullptr;
  return &graph.layers[size_t(node.layer)].policy;
}

// Return the names of the values that a quantizer keeps, from the name of the value that it rounds.
inline std::string range_name(const std::string& value) { return value + "/range"; }
inline std::string scale_name(const std::string& value) { return value + "/float8_scale"; }
inline std::string history_name(const std::string& value) { return value + "/amax_history"; }

// Returns the float8 state that the source's file holds under this name. Null if it has none of this size.
inline const std::vector<float>* of_source(const Graph& graph, const std::string& name, int64_t elements) {
  if (graph.training == nullptr) return nullptr;
  const auto found = graph.training->float8.find(name);
  return found != graph.training->float8.end() && int64_t(found->second.size()) == elements ? &found->second : nullptr;
}

// Returns the ranges of the network's static quantizers. They start as calibration measured them, or from 0.
QuantizerPlan plan_ranges(const Graph& simplified, const Calibration* calibration, const QuantizerTraining& options);

}  // namespace nacre::tools
