// The TensorFlow graph rewrite: paints the nodes of a float32 network that run in float16 or bfloat16. It decides by
// four lists of op names and by the nodes' neighbours. It runs on the imported graph, before simplify, and changes the
// layers' policies and Node::wide. apply_policy adds the casts.
//
// The rules are those of tensorflow/core/grappler/optimizers/auto_mixed_precision.cc,
// AutoMixedPrecisionImpl::Optimize:
//
//   1  batch norms become those whose parameters have a type of their own, always float32
//   2  ALLOW: the allow list's ops. If there is none, the graph is left alone.
//   3  DENY: the deny list's ops, and their successors up to the last infer or deny op, through infer and clear ops
//   4  ALLOW: infer and clear ops on a path from an allow op to an allow op that meets no DENY
//   5  ALLOW (bfloat16 with today's lists, or infer_after_allow): infer ops that read an ALLOW node and no DENY node
//   6  ALLOW: clear ops connected to an ALLOW node, in either direction, through clear ops
//   7  never ALLOW: nodes whose values are integers or quantized codes
//   8  groups of list and loop ops: there are none in these graphs
//   9  ALLOW: casts to float32 that only ALLOW nodes read
//  10  one cast at each border, shared by its readers: apply_policy
//
// A node here is a unit there, with these differences. One node here has a dense or convolution, its bias, and the
// clamp that is fused into it: MatMul or Conv2D decides for its BiasAdd and Relu. An output of the network is a
// float32 reader, as a fetched Identity is. `preserve` names nodes that stay float32 themselves. Constants take their
// readers' type.
#pragma once

#include <string>
#include <vector>

#include "engine/numeric/policy.h"
#include "tools/base/print.h"
#include "tools/graph/graph.h"
#include "tools/passes/rewrite/lists.h"

namespace nacre::tools {

struct RewriteOptions {
  ElementType type = ElementType::kFloat16;  // or kBfloat16
  bool tf2_lists = false;                    // use today's lists in place of those of 1.15
  RewriteLevel level = RewriteLevel::kStandard;
  bool infer_after_allow = false;  // step 5 in every mode: release 2.21 does so, 2.15 with bfloat16 only
  ListEdits edits = {};
  std::vector<std::string> preserve = {};  // names of layers or nodes
};

enum class Paint : uint8_t { kUnpainted, kAllow, kDeny };

// The decision on one node. Decisions are in the order of the graph's nodes.
struct RewriteDecision {
  std::string layer, node;    // names; layer "" if the node has none
  std::string op;             // "clamp"
  std::string tensorflow_op;  // "Relu6"; with the rest of the node: "MatMul+BiasAdd"
  RewriteList list = RewriteList::kUnlisted;
  Paint paint = Paint::kUnpainted;
  int step = 0;          // the step that painted it; 0 if none did
  std::string reason;    // "infer, between conv1 and conv2 (allow list)"
  std::string runs_as;   // its layer's policy: "mixed_float16", "float32"; "as its source" for codes and integers
  bool foreign = false;  // its values are codes or integers, so it is never painted
  bool decides = true;   // it decides for its layer, whose other nodes run as it does
};

// Gives layers of ALLOW nodes the policy mixed_<type>, and all others float32. Layers of codes or integers stay as the
// source has them. If a layer has several nodes, its nodes of the strongest numeric class decide (matmul, then
// reduction, pointwise, move): the layer is mixed if all of these are ALLOW. Without an allow op no layer changes. Adds
// the summary to the graph's log.
std::vector<RewriteDecision> rewrite_mixed(Graph& graph, const RewriteOptions& options);

std::string rewrite_name(const RewriteOptions& options);  // "mixed_float16"
Policy mixed_policy(ElementType type);

// Returns "mixed_float16, lists of tf1: 21 of 25 nodes ALLOW, 1 DENY, 3 not painted; ...". Call it right after the
// pass: decision i must belong to node i.
std::string rewrite_summary(const Graph& graph, const RewriteOptions& options,
                            const std::vector<RewriteDecision>& decisions);

// Returns the text of --explain: a table with a row per node, and the summary, in lines of `width`. Reasons may be
// longer.
std::string explain_text(const Graph& graph, const RewriteOptions& options,
                         const std::vector<RewriteDecision>& decisions, size_t width);
Json explain_json(const Graph& graph, const RewriteOptions& options, const std::vector<RewriteDecision>& decisions);

const char* name_of(Paint paint);  // "ALLOW", "DENY", "-"

}  // namespace nacre::tools
