#include "engine/ops/all.h"

#include <cstring>

namespace nacre {

std::span<const OpRule* const> all_rules() { return kAllRules; }

const OpRule* find_rule(Op op) {
  for (const OpRule* rule : kAllRules)
    if (rule->op == op) return rule;
  return nullptr;
}

const OpRule* find_rule(const char* name) {
  for (const OpRule* rule : kAllRules)
    if (std::strcmp(rule->name, name) == 0) return rule;
  return nullptr;
}

}  // namespace nacre
