// Checks that policy names resolve as in Keras.
#include "tests/claims/golden_topics.h"
#include "tools/policies/keras_policy.h"

namespace nacre::test {
namespace {

json resolved(const std::string& name) {
  try {
    const tools::KerasPolicy policy = tools::parse_keras_policy(name);
    json row = {{"name", name},
                {"cls", policy.class_name},
                {"canonical", policy.name},
                {"compute", policy.compute},
                {"variable", policy.variable},
                {"mode", policy.mode.empty() ? json() : json(policy.mode)}};
    if (policy.block_size != 0) row["block_size"] = policy.block_size;
    if (policy.weight_bits != 0) row["weight_bits"] = policy.weight_bits;
    if (policy.group_size != 0) row["group_size"] = policy.group_size;
    if (policy.amax_history_length != 0) row["amax_history_length"] = policy.amax_history_length;
    return row;
  } catch (const tools::PolicyError& error) {
    return {{"name", name}, {"error", error.label}};
  }
}

void policy_names(const json& table, Rows& rows) {
  for (const json& row : table) {
    const json computed = resolved(row["name"]);
    rows.row(computed == row, row, computed);
  }
}

constexpr Topic kTopics[] = {{"policy_names", policy_names}};

}  // namespace

std::span<const Topic> name_topics() { return kTopics; }

}  // namespace nacre::test
