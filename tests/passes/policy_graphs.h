// Graphs as text for the tests of apply_policy, and the graphs that it makes of them.
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

// Returns x -> fc (dense) -> act (relu) -> sm (softmax) -> y. Each is a layer of its own with the given policy.
inline std::string network(const std::string& fc, const std::string& act, const std::string& sm) {
  return "graph \"t\" batch=1\n"
         "layer \"fc\" source=\"Gemm\" " +
         fc + "\nlayer \"act\" source=\"Relu\" " + act + "\nlayer \"sm\" source=\"Softmax\" " + sm + R"(
value %x float32 [1, 2]
value %w float32 [3, 2] data=float32 {1, 2, 3, 4, 5, -6.003}
value %b float32 [3] data=float32 {0.1, 0.2, 0.3}
value %h float32 [1, 3]
value %r float32 [1, 3]
value %y float32 [1, 3]
input "x" %x
output "y" %y
%h = dense(%x, %w, %b) name="fc" layer="fc"
%r = clamp(%h) clamp=1 high=inf name="act" layer="act"
%y = softmax(%r) axis=1 beta=1 name="sm" layer="sm"
)";
}
inline const std::string kBfloat16 = "asked=1 variable=bfloat16 compute=bfloat16 output=bfloat16";
inline const std::string kMixed = "asked=1 compute=float16 output=float16";
inline const std::string kFloat32 = "asked=1";

}  // namespace nacre::tools::policy_graphs
