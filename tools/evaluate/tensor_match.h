// Pairs the tensors of two models that come from the same value of the network. The remaining tensors are paired if
// they are the results of layers of the same name.
//
// Policies add tensors: the value x of the network may be stored as x/codes and x/real, or as x/bfloat16 and x. Only
// the layer's result counts: the last tensor made by the layer that made the first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

struct TensorPair {
  uint32_t a, b;            // tensor ids
  uint32_t step_a, step_b;  // the steps of the programs that complete them
};

struct Unmatched {
  bool in_a;
  uint32_t tensor, step;  // the step completes it
  std::string why;        // the reason, if a tensor of the same name exists
};

struct TensorMatch {
  std::vector<TensorPair> pairs;  // in A's order of execution
  std::vector<Unmatched> unmatched;
};

// Matches tensors that steps make. Skips inputs, views of such tensors, and tensors that policies add. A tensor whose
// name was stripped matches only by its layer.
TensorMatch match_tensors(const ProgramReport& a, const ProgramReport& b);

// Returns the name of the network's value that a tensor holds: "x" for "x", "x/bfloat16", "x/codes/real".
std::string source_name(std::string_view tensor_name);

// Returns whether both have equal shapes. Axes of size 1 are ignored.
bool same_shape(const TensorRecord& a, const TensorRecord& b);

}  // namespace nacre::tools
