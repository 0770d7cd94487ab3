// Graphs whose decisions are written by hand, one or more for every step of the rewrite: the oracle of rewrite_test
// and of the claim.
//
// Each is the text of the graph's nodes; kValues declares the values around them. The comment after a node is its
// decision, or paint, and the step that makes it: A is ALLOW, D is DENY, - is neither. The number is that of
// tools/passes/rewrite/rewrite.h. `after` lists the decisions under the options, one letter and number per node, if
// they differ from the comments.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {

struct HandPainted {
  const char* name;
  const char* nodes;
  RewriteOptions options = {};
  const char* after = "";  // replaces the decisions of the comments
};

// Declares rows of 4 numbers %a .. %l, images of 4 channels %ia .. %if, and other operands that ops need.
inline constexpr char kValues[] = R"(
value %x float32 [1, 4]
value %z float32 [1, 4]
value %i float32 [1, 1, 1, 4]
value %n int32 [1, 4]
input "x" %x
input "z" %z
input "i" %i
input "n" %n
value %w float32 [4, 4] data=float32 {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}
value %bias float32 [4] data=float32 {1, 2, 3, 4}
value %f float32 [4, 1, 1, 4] data=float32 {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}
value %g float32 [1, 1, 4] data=float32 {1, 2, 3, 4}
value %p float32 [4] data=float32 {1, 1, 1, 1}
value %a float32 [1, 4]
value %b float32 [1, 4]
value %c float32 [1, 4]
value %d float32 [1, 4]
value %e float32 [1, 4]
value %h float32 [1, 4]
value %j float32 [1, 4]
value %k float32 [1, 4]
value %l float32 [1, 4]
value %m float32 [1, 1]
value %s float32 [4]
value %cc float32 [1, 8]
value %r int32 [4]
value %t int32 [1, 4]
value %q float32 [1, 4] codes=int8 axis=0 scale=[0.5] zero=[0]
value %ia float32 [1, 1, 1, 4]
value %ib float32 [1, 1, 1, 4]
value %ic float32 [1, 1, 1, 4]
value %id float32 [1, 1, 1, 4]
value %ie float32 [1, 1, 1, 4]
)";

inline RewriteOptions tf2(ElementType type = ElementType::kFloat16) { return {.type = type, .tf2_lists = true}; }

inline RewriteOptions at_level(RewriteLevel level) { return {.level = level}; }

inline RewriteOptions with_edits(ListEdits edits) { return {.edits = std::move(edits)}; }

inline RewriteOptions preserving(std::vector<std::string> names) { return {.preserve = std::move(names)}; }

inline const std::vector<HandPainted>& hand_painted() {
  static const char kBatchNorm[] = R"(
%a = dense(%z, %w, none)                                # A2
%s = reshape(%a) rank=1 dims=[4]                        # A6 clear, next to a
%b = batch_norm(%x, %s, %p, %p, %p) epsilon=0.001       # -0 its scale is no path: parameters stay float32
%c = dense(%b, %w, none)                                # A2
%d = batch_norm(%c, %p, %p, %p, %p) epsilon=0.001       # A4
%e = dense(%d, %w, %bias)                               # A2
output "y" %e
)";
  static const char kForward[] = R"(
%a = softmax(%x) axis=1 beta=1                          # D3 deny
%b = tanh(%a)                                           # D3 infer
%c = clamp(%b) clamp=1 high=6                           # D3 clear that reaches the next infer
%d = sigmoid(%c)                                        # D3 infer
%e = clamp(%d) clamp=1 high=6                           # A6 clear: step 3 leaves it, step 6 takes it
%h = dense(%e, %w, none)                                # A2 allow
%j = tanh(%h)                                           # -0 infer
output "y" %j
)";
  static const char kBetween[] = R"(
%a = dense(%x, %w, none)                                # A2
%b = tanh(%a)                                           # A4
%c = clamp(%b) clamp=1 high=inf                         # A4
%d = tanh(%z)                                           # -0 no allow op before it
%e = add(%c, %d)                                        # A4
%h = dense(%e, %w, none)                                # A2
%j = sigmoid(%h)                                        # -0 no allow op after it
output "y" %j
)";
  static const char kDepthwise[] = R"(
%ia = conv2d(%i, %f, none)                              # A2
%ib = clamp(%ia) clamp=1 high=inf                       # A6
%ic = depthwise_conv2d(%ib, %g, none)                   # -0 on no list in 1.15
%id = sigmoid(%ic)                                      # -0
%ie = conv2d(%id, %f, none)                             # A2
output "y" %ie
)";
  static const char kChain[] = R"(
%a = dense(%x, %w, none)                                # A2
%b = tanh(%a)                                           # A5
%c = sigmoid(%b)                                        # A5 one pass in the graph's order: chains are followed
%d = softmax(%c) axis=1 beta=1                          # A5
%e = clamp(%a) clamp=1 high=6                           # A6
%h = tanh(%e)                                           # -0 at step 5 its input was not ALLOW yet
%j = tanh(%z)                                           # -0
%k = add(%a, %j)                                        # A5 one ALLOW input is enough
output "y" %d
output "u" %h
output "v" %k
)";
  static const char kSoftmaxBetween[] = R"(
%a = dense(%x, %w, none)                                # A2
%b = softmax(%a) axis=1 beta=1                          # D3
%c = dense(%b, %w, none)                                # A2
%d = softmax(%c) axis=1 beta=1                          # D3
output "y" %d
)";
  static const char kMean[] = R"(
%a = dense(%x, %w, none)                                # A2
%m = mean(%a) axes=2 keep_dims=1                        # D3
%b = sub(%a, %m)                                        # D3
%c = dense(%b, %w, none)                                # A2
output "y" %c
)";
  static const char kLevels[] = R"(
%a = softmax(%x) axis=1 beta=1                          # D3
%b = clamp(%a) clamp=1 high=6                           # D3
%c = tanh(%b)                                           # D3
%d = clamp(%c) clamp=1 high=6                           # A6
%e = dense(%d, %w, none)                                # A2
%h = clamp(%e) clamp=1 high=6                           # A4
%j = sigmoid(%h)                                        # A4
%k = clamp(%j) clamp=1 high=6                           # A4
%l = dense(%k, %w, none)                                # A2
%ia = conv2d(%i, %f, none)                              # A2
%ib = tanh(%ia)                                         # -0
%t = reshape(%n) rank=2 dims=[1, 4]                     # -0 integers
output "y" %l
output "u" %ib
output "v" %t
)";
  static const std::vector<HandPainted> kAll = {
      {"step 1: parameters of a batch norm have a type of their own", kBatchNorm},
      {"step 2: without an allow op nothing is painted", R"(
%a = softmax(%x) axis=1 beta=1                          # -0
%b = clamp(%a) clamp=1 high=6                           # -0
%c = tanh(%b)                                           # -0
output "y" %c
)"},
      {"step 2: an allow op is ALLOW whatever feeds it, its bias and clamp with it", R"(
%a = softmax(%x) axis=1 beta=1                          # D3
%b = dense(%a, %w, %bias) clamp=1 high=6                # A2
output "y" %b
)"},
      {"step 3: deny, infer, clear, infer, clear, allow, infer", kForward},
      {"step 3: nothing is painted DENY backward", R"(
%a = dense(%x, %w, none)                                # A2
%b = tanh(%a)                                           # -0
%c = softmax(%b) axis=1 beta=1                          # D3
%d = clamp(%a) clamp=1 high=6                           # A6
%e = softmax(%d) axis=1 beta=1                          # D3
output "y" %c
output "u" %e
)"},
      {"step 3: a clear tail that reaches no infer or deny op stays clear", R"(
%a = softmax(%x) axis=1 beta=1                          # D3
%b = clamp(%a) clamp=1 high=6                           # -0
%c = reshape(%b) rank=2 dims=[1, 4]                     # -0
%d = dense(%z, %w, none)                                # A2
output "y" %c
output "u" %d
)"},
      {"step 3: a clear op on the way to an infer op is DENY for its allow reader too", R"(
%a = softmax(%x) axis=1 beta=1                          # D3
%b = clamp(%a) clamp=1 high=6                           # D3
%c = tanh(%b)                                           # D3
%d = dense(%b, %w, none)                                # A2
output "y" %c
output "u" %d
)"},
      {"step 3: an op on no list stops DENY", R"(
%ia = softmax(%i) axis=3 beta=1                         # D3
%ib = depthwise_conv2d(%ia, %g, none)                   # -0
%ic = tanh(%ib)                                         # -0
%id = conv2d(%ic, %f, none)                             # A2
output "y" %id
)"},
      {"step 4: infer and clear ops between allow ops", kBetween},
      {"step 4: no path through DENY", R"(
%a = dense(%x, %w, none)                                # A2
%b = softmax(%a) axis=1 beta=1                          # D3
%c = tanh(%b)                                           # D3
%d = add(%a, %c)                                        # D3
%e = clamp(%d) clamp=1 high=6                           # A6
%h = dense(%e, %w, none)                                # A2
output "y" %h
)"},
      {"step 4: no path through an op on no list", kDepthwise},
      {"step 4: depthwise convolutions are allow ops today", kDepthwise, tf2(), "A2 A4 A2 A4 A2"},
      {"step 5: bfloat16, infer ops right after ALLOW", kChain, tf2(ElementType::kBfloat16)},
      {"step 5: not with float16", kChain, tf2(), "A2 -0 -0 -0 A6 -0 -0 -0"},
      {"step 5: with float16 too, as release 2.21 does",
       kChain,
       {.tf2_lists = true, .infer_after_allow = true},
       "A2 A5 A5 A5 A6 -0 -0 A5"},
      {"step 5: not in 1.15", kChain, {.type = ElementType::kBfloat16}, "A2 -0 -0 D3 A6 -0 -0 -0"},
      {"step 6: clear ops in both directions", R"(
%a = clamp(%x) clamp=1 high=6                           # A6 before the allow op
%b = clamp(%z) clamp=1 high=6                           # A6 by way of cc
%cc = concat(%a, %b) axis=1                             # A6
%d = dense(%a, %w, none)                                # A2
%e = clamp(%b) clamp=1 high=6                           # A6
%h = tanh(%e)                                           # -0 an infer op ends it
%j = clamp(%h) clamp=1 high=6                           # -0
output "y" %cc
output "u" %d
output "v" %j
)"},
      {"step 7: int8 codes and integers are left alone", R"(
%q = dense(%x, %w, none)                                # -0 its output is int8 codes
%a = copy(%q)                                           # -0 dequantizes
%b = tanh(%a)                                           # -0 no allow op before it
%c = dense(%b, %w, none)                                # A2
%d = clamp(%c) clamp=1 high=6                           # A6
%t = reshape(%n) rank=2 dims=[1, 4]                     # -0 integers
output "y" %d
output "v" %t
)"},
      {"step 7: a softmax of int8 codes denies nothing", R"(
%q = softmax(%x) axis=1 beta=1                          # -0 codes
%a = copy(%q)                                           # -0 dequantizes
%b = tanh(%a)                                           # -0
%c = dense(%b, %w, none)                                # A2
output "y" %c
)"},
      {"step 9: a cast to float32 that only ALLOW nodes read", R"(
%a = cast(%n)                                           # A9
%b = dense(%a, %w, none)                                # A2
%c = clamp(%a) clamp=1 high=6                           # A6
%d = dense(%c, %w, none)                                # A2
%e = cast(%n)                                           # -0 tanh is not ALLOW
%h = add(%e, %b)                                        # A4
%j = tanh(%e)                                           # -0
%k = add(%h, %d)                                        # A4
%l = dense(%k, %w, none)                                # A2
output "y" %l
output "u" %j
)"},
      {"step 9: a cast that gives out an output of the network", R"(
%a = cast(%n)                                           # -0
%b = dense(%a, %w, none)                                # A2
output "y" %b
output "u" %a
)"},
      {"lists of 1.15: softmax is denied", kSoftmaxBetween},
      {"lists of today: softmax is inferred", kSoftmaxBetween, tf2(), "A2 A4 A2 -0"},
      {"lists edited: softmax from deny to infer", kSoftmaxBetween,
       with_edits({.infer = {.add = {"Softmax"}}, .deny = {.remove = {"Softmax"}}}), "A2 A4 A2 -0"},
      {"lists edited: matmul off the allow list", kSoftmaxBetween, with_edits({.allow = {.remove = {"MatMul"}}}),
       "-0 -0 -0 -0"},
      {"lists edited: a cast on a list is no path, its two types are units of their own", R"(
%a = softmax(%x) axis=1 beta=1                          # D3
%b = cast(%a)                                           # -0
%c = tanh(%b)                                           # -0
%d = dense(%z, %w, none)                                # A2
output "y" %c
output "u" %d
)",
       with_edits({.clear = {.add = {"Cast"}}})},
      {"lists, float16: means are denied", kMean},
      {"lists of today, float16: means are denied", kMean, tf2(), "A2 D3 D3 A2"},
      {"lists of today, bfloat16: means are inferred", kMean, tf2(ElementType::kBfloat16), "A2 A4 A4 A2"},
      {"level: standard", kLevels},
      {"level: infer ops treated as deny ops", kLevels, at_level(RewriteLevel::kTreatInferAsDeny),
       "D3 D3 D3 A6 A2 A6 D3 A6 A2 A2 D3 -0"},
      {"level: tensor cores only", kLevels, at_level(RewriteLevel::kTensorCoresOnly),
       "-0 -0 -0 -0 A2 -0 -0 -0 A2 A2 -0 -0"},
      {"level: force all", kLevels, at_level(RewriteLevel::kUnsafeForceAll), "A2 A2 A2 A2 A2 A2 A2 A2 A2 A2 A2 -0"},
      {"preserved nodes stay float32", R"(
%a = dense(%x, %w, none)                                # -0 preserved
%b = clamp(%a) clamp=1 high=6                           # -0 no ALLOW neighbour
%c = tanh(%b)                                           # -0
%d = softmax(%c) axis=1 beta=1                          # D3
%e = clamp(%d) clamp=1 high=6                           # -0 preserved
%h = dense(%e, %w, none)                                # A2
%j = clamp(%h) clamp=1 high=6                           # -0 preserved
%k = softmax(%j) axis=1 beta=1                          # D3
%l = clamp(%k) clamp=1 high=6                           # -0
output "y" %l
)",
       preserving({"a", "e", "j"})},
  };
  return kAll;
}

// Returns the graph. Every node is a layer of its own, named after the node's output.
inline Graph graph_of(const HandPainted& painted) {
  Graph graph = parse(std::string("graph \"hand.painted\" batch=1\n") + kValues + painted.nodes);
  for (Node& node : graph.nodes) {
    node.name = graph.values[size_t(node.outputs[0])].name;
    node.layer = graph.add_layer({.name = node.name, .source_op = find_rule(node.op)->name, .policy = {}});
  }
  return graph;
}

// Returns the decision of each node, as "A2 D3 -0".
inline std::string expected_paints(const HandPainted& painted) {
  if (*painted.after != 0) return painted.after;
  std::istringstream lines(painted.nodes);
  std::string line, paints;
  while (std::getline(lines, line))
    if (!line.empty() && line[0] == '%') paints += (paints.empty() ? "" : " ") + line.substr(line.find('#') + 2, 2);
  return paints;
}

inline std::string paints_of(const std::vector<RewriteDecision>& decisions) {
  std::string paints;
  for (const RewriteDecision& d : decisions)
    paints += std::string(paints.empty() ? "" : " ") + "-AD"[int(d.paint)] + std::to_string(d.step);
  return paints;
}

}  // namespace nacre::tools
