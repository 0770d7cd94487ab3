// Graphs as text for the tests of apply_policy, and what it makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/passes/passes.h"

namespace nacre::tools::policy_graphs {

inline Graph resolved(const std::string& text, Rounding rounding = Rounding::kDouble) {
  Graph graph = parse(text);
  check(graph);
  apply_policy(graph, {.rounding = rounding});
  check(graph);
  return graph;
}

using Codes = std::vector<int64_t>;

inline const std::string kTwo = R"(graph "t" batch=1
layer "l" source="OP"
value %a float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[3]
value %b float32 [1, 4] codes=int8 axis=0 scale=[0.25] zero=[-7]
value %y float32 [1, 4] codes=int8 axis=0 scale=[1] zero=[1]
input "a" %a
input "b" %b
output "y" %y
)";

}  // namespace nacre::tools::policy_graphs
