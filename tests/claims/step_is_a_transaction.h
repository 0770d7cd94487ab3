// Counts and networks compiled to train, which the parts of the claim step_is_a_transaction share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/differentiate/networks.h"
#include "tools/base/json.h"
#include "tools/compile/training.h"

namespace nacre::test::step_is_a_transaction {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                       kNan = std::numeric_limits<float>::quiet_NaN();

inline tools::TrainingModel compiled(const tools::Graph& graph, const tools::TrainingOptions& training,
                                     const std::string& policy, const std::vector<std::string>& layers = {}) {
  tools::CompileOptions compiling;
  compiling.policies =
      tools::parse_policy_options({.policy = policy, .set = layers, .file = {}, .only = {}, .except = {}});
  return tools::compile_training(graph, training, compiling);
}

struct Count {
  int64_t right = 0, all = 0;
  void note(bool is_right) { right += is_right ? 1 : 0, ++all; }
  bool shown() const { return all > 0 && right == all; }
};
inline std::string text(const Count& count) { return std::to_string(count.right) + "/" + std::to_string(count.all); }

struct Scales {
  Count steps;
  int sequences = 0, refused_against_rule = 0, left_out = 0;
};
// Runs the sequences of the golden tables, each with infinite gradients and with an infinite loss.
Scales compare_scales(const PeerNetwork& network, const tools::Json& golden);

struct Float8 {
  Count states;
  int moved = 0;  // states whose scale differs from the step before
};
// Trains 50 steps. Inputs move over 2^-6 .. 2^6 and are all 0 for five steps. An infinity among them is saturated by
// the quantizer, and the step is applied, as the history shows; a NaN is refused. In step `wrong_step` the amaxes are
// twice as large.
Float8 follow_scales(const PeerNetwork& network, const std::string& policy, int wrong_step = -1);

}  // namespace nacre::test::step_is_a_transaction
