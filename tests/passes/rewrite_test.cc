// Tests rewrite_mixed against the graphs of rewrite_graphs.h and TensorFlow's; also reasons, layers and lists.
// rewrite_random_test.cc tests random graphs.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/passes/rewrite_graphs.h"
#include "tests/passes/rewrite_peers.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

std::string error_of(Graph graph, const RewriteOptions& options) {
  try {
    rewrite_mixed(graph, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

Graph hand_graph(const char* nodes) {
  Graph graph = graph_of({.name = "", .nodes = nodes});
  check(graph);
  return graph;
}

std::string policy_text(const Layer& layer) {
  const std::string asked = layer.asked ? "" : ", not asked";
  const auto same = [&](const Policy& p) { return std::memcmp(&p, &layer.policy, sizeof p) == 0; };
  if (same(mixed_policy(ElementType::kFloat16))) return "mixed_float16" + asked;
  if (same(mixed_policy(ElementType::kBfloat16))) return "mixed_bfloat16" + asked;
  return (same(Policy()) ? "float32" : "another policy") + asked;
}

// ---- The graphs with decisions written by hand

TEST(rewrite, every_hand_painted_graph_is_painted_so) {
  for (const HandPainted& painted : hand_painted()) {
    Graph graph = graph_of(painted);
    check(graph);
    EXPECT_EQ(paints_of(rewrite_mixed(graph, painted.options)), expected_paints(painted)) << painted.name;
    check(graph);
  }
}

TEST(rewrite, every_step_has_a_hand_painted_graph) {
  std::string all;
  for (const HandPainted& painted : hand_painted())
    all += std::string(painted.name) + "\n" + expected_paints(painted) + "\n";
  for (const char* step : {"step 1", "step 2", "step 3", "step 4", "step 5", "step 6", "step 7", "step 9"})
    EXPECT_NE(all.find(step), std::string::npos) << step;
  for (const char* paint : {"A2", "D3", "A4", "A5", "A6", "A9", "-0"})
    EXPECT_NE(all.find(paint), std::string::npos) << paint;
  EXPECT_GE(hand_painted().size(), 12u);
}

TEST(rewrite, layers_follow_the_paint_of_their_nodes) {
  for (const HandPainted& painted : hand_painted()) {
    Graph graph = graph_of(painted);
    const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, painted.options);
    const bool any = expected_paints(painted).find('A') != std::string::npos;
    for (size_t n = 0; n < decisions.size(); ++n) {
      const bool foreign = decisions[n].foreign;
      const std::string expected = !any || foreign                       ? "float32, not asked"
                                   : decisions[n].paint == Paint::kAllow ? rewrite_name(painted.options)
                                                                         : "float32";
      EXPECT_EQ(policy_text(graph.layers[size_t(graph.nodes[n].layer)]), expected) << painted.name << ", node " << n;
      EXPECT_EQ(decisions[n].runs_as, !any || foreign ? "as its source" : expected) << painted.name << ", node " << n;
    }
  }
}

TEST(rewrite, without_an_allow_op_the_graph_is_left_alone_and_one_line_says_so) {
  Graph graph = hand_graph("%a = softmax(%x) axis=1 beta=1\n%b = tanh(%a)\noutput \"y\" %b\n");
  const std::string before = dump(graph);
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  ASSERT_EQ(graph.log.size(), 1u);
  EXPECT_EQ(graph.log[0],
            "rewrite: mixed_float16, lists of tf1: no float32 node is of an op on the allow list, so nothing is "
            "rewritten");
  graph.log.clear();
  EXPECT_EQ(dump(graph), before);
  EXPECT_EQ(paints_of(decisions), "-0 -0");
}

// ---- Reasons

TEST(rewrite, reasons_name_the_step_and_the_neighbour) {
  Graph graph = hand_graph(R"(
%a = dense(%x, %w, %bias) clamp=1 high=6
%b = tanh(%a)
%c = dense(%b, %w, none)
%d = clamp(%c) clamp=1 high=inf
%e = sigmoid(%d)
%h = softmax(%e) axis=1 beta=1
%j = clamp(%h) clamp=1 high=6
%k = tanh(%j)
%l = tanh(%z)
output "y" %k
output "u" %l
)");
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  const std::pair<const char*, const char*> expected[] = {
      {"MatMul+BiasAdd+Relu6", "on the allow list"},
      {"Tanh", "infer, between a and c (allow list)"},
      {"MatMul", "on the allow list"},
      {"Relu", "clear, next to c (ALLOW)"},
      {"Sigmoid", "infer, after c (allow list), but before no allow op"},
      {"Softmax", "on the deny list"},
      {"Relu6", "clear, fed by h (deny list)"},
      {"Tanh", "infer, fed by j (DENY), after h (deny list)"},
      {"Tanh", "infer, no allow op before it"},
  };
  ASSERT_EQ(decisions.size(), std::size(expected));
  for (size_t n = 0; n < decisions.size(); ++n) {
    EXPECT_EQ(decisions[n].tensorflow_op, expected[n].first);
    EXPECT_EQ(decisions[n].reason, expected[n].second);
  }
  EXPECT_EQ(rewrite_summary(graph, {}, decisions),
            "mixed_float16, lists of tf1: 4 of 9 nodes ALLOW, 3 DENY, 2 not painted; 4 of 9 layers run in "
            "mixed_float16; values cast to float16: 1, to float32: 1");
}

TEST(rewrite, a_value_read_by_both_sides_is_cast_once) {
  Graph graph = hand_graph(R"(
%a = dense(%x, %w, none)
%b = tanh(%a)
%c = sigmoid(%a)
%d = dense(%x, %w, none)
output "y" %b
output "u" %c
output "v" %d
output "t" %a
)");
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  const std::string summary = rewrite_summary(graph, {}, decisions);
  EXPECT_NE(summary.find("values cast to float16: 1, to float32: 2"), std::string::npos) << summary;
}

TEST(rewrite, explanations_hold_every_node_and_the_counts) {
  Graph graph = hand_graph("%a = dense(%x, %w, none)\n%b = softmax(%a) axis=1 beta=1\noutput \"y\" %b\n");
  const RewriteOptions options = tf2(ElementType::kBfloat16);
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, options);
  EXPECT_EQ(explain_text(graph, options, decisions, 120),
            "node  TensorFlow's op  list   runs as         step  paint and reason\n"
            "a     MatMul           allow  mixed_bfloat16     2  ALLOW: on the allow list\n"
            "b     Softmax          infer  mixed_bfloat16     5  ALLOW: infer, fed by a (ALLOW)\n"
            "mixed_bfloat16, lists of tf2: 2 of 2 nodes ALLOW, 0 DENY, 0 not painted; 2 of 2 layers run in "
            "mixed_bfloat16; values cast to bfloat16: 1, to float32: 1\n");
  const Json json = explain_json(graph, options, decisions);
  EXPECT_EQ(json["rewrite"], "mixed_bfloat16");
  EXPECT_EQ(json["lists"], "tf2");
  EXPECT_EQ(json["allow"], 2);
  EXPECT_EQ(json["nodes"][1]["reason"], "ALLOW: infer, fed by a (ALLOW)");
  EXPECT_EQ(json["nodes"][1]["step"], 5);
}

// ---- Layers of several nodes

Graph one_layer(const char* nodes) {
  Graph graph = hand_graph(nodes);
  graph.layers = {{.name = "all", .source_op = "Many", .policy = {}}};
  for (Node& node : graph.nodes) node.layer = 0;
  return graph;
}

TEST(rewrite, the_strongest_node_decides_for_its_layer) {
  Graph graph = one_layer(R"(
%a = tanh(%x)
%b = dense(%a, %w, none)
%c = softmax(%b) axis=1 beta=1
output "y" %c
)");
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  EXPECT_EQ(paints_of(decisions), "-0 A2 D3");
  EXPECT_EQ(policy_text(graph.layers[0]), "mixed_float16");
  EXPECT_EQ(decisions[2].reason, "on the deny list; runs as all (dense), which decides for the layer");
  EXPECT_EQ(decisions[2].runs_as, "mixed_float16");
  EXPECT_TRUE(decisions[1].decides);
  EXPECT_FALSE(decisions[0].decides);
  EXPECT_FALSE(decisions[2].decides);
}

TEST(rewrite, among_equals_one_that_is_not_allow_decides) {
  Graph graph = hand_graph(R"(
%a = dense(%x, %w, none)
%b = tanh(%a)
%c = dense(%b, %w, none)
%d = sigmoid(%c)
output "y" %d
)");
  graph.nodes[3].layer = graph.nodes[1].layer;
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  EXPECT_EQ(paints_of(decisions), "A2 A4 A2 -0");
  EXPECT_EQ(policy_text(graph.layers[size_t(graph.nodes[1].layer)]), "float32");
  EXPECT_EQ(decisions[1].reason,
            "infer, between a and c (allow list); runs as b (sigmoid), which decides for the layer");
}

TEST(rewrite, layers_that_the_source_quantizes_stay_as_they_are) {
  Graph graph = hand_graph("%a = dense(%x, %w, none)\n%b = dense(%a, %w, none)\noutput \"y\" %b\n");
  graph.layers[0].policy.quantization = Quantization::kInt8Dynamic;
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  EXPECT_EQ(paints_of(decisions), "-0 A2");
  EXPECT_EQ(decisions[0].reason, "its source quantizes it: int8");
  EXPECT_EQ(graph.layers[0].policy.quantization, Quantization::kInt8Dynamic);
  EXPECT_FALSE(graph.layers[0].asked);
  EXPECT_EQ(policy_text(graph.layers[1]), "mixed_float16");
}

TEST(rewrite, a_network_of_codes_alone_says_why_nothing_is_rewritten) {
  Graph graph = hand_graph("%q = dense(%x, %w, none)\noutput \"y\" %q\n");
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
  EXPECT_TRUE(decisions[0].foreign);
  EXPECT_EQ(decisions[0].reason, "its values are int8 codes");
  EXPECT_EQ(rewrite_summary(graph, {}, decisions),
            "mixed_float16, lists of tf1: no float32 node is of an op on the allow list, so nothing is rewritten "
            "(1 of 1 nodes are of codes or integers)");
  EXPECT_FALSE(graph.layers[0].asked);
}

TEST(rewrite, quantized_weights_under_float_activations_are_float_weights) {
  Graph graph = hand_graph("%a = dense(%x, %w, none)\noutput \"y\" %a\n");
  for (Value& v : graph.values)
    if (v.name == "w") v.quantizer = Quantizer{.codes = ElementType::kInt8, .scale = {0.5f}, .zero = {0}, .axis = 0};
  EXPECT_EQ(paints_of(rewrite_mixed(graph, {})), "A2");
}

// ---- Lists

TEST(rewrite, lists_differ_between_editions_and_types_as_in_tensorflow) {
  using enum RewriteList;
  const auto list = [](const char* op, ElementType type, bool edition2) {
    const RewriteLists lists = rewrite_lists(type, edition2, RewriteLevel::kStandard, {});
    const auto at = lists.find(op);
    return at == lists.end() ? kUnlisted : at->second;
  };
  constexpr ElementType f16 = ElementType::kFloat16, bf16 = ElementType::kBfloat16;
  const struct {
    const char* op;
    RewriteList tf1, tf2_float16, tf2_bfloat16;
  } rows[] = {
      {"MatMul", kAllow, kAllow, kAllow},      {"Conv2D", kAllow, kAllow, kAllow},
      {"Softmax", kDeny, kInfer, kInfer},      {"LogSoftmax", kDeny, kInfer, kInfer},
      {"Log", kDeny, kInfer, kInfer},          {"Mean", kDeny, kDeny, kInfer},
      {"Sum", kDeny, kDeny, kInfer},           {"Exp", kDeny, kDeny, kDeny},
      {"AvgPool", kInfer, kInfer, kInfer},     {"FusedBatchNormV3", kInfer, kInfer, kInfer},
      {"Relu", kClear, kClear, kClear},        {"Unpack", kUnlisted, kClear, kClear},
      {"OneHot", kClear, kClear, kUnlisted},   {"DepthwiseConv2dNative", kUnlisted, kAllow, kAllow},
      {"Einsum", kUnlisted, kAllow, kAllow},   {"CudnnRNN", kAllow, kAllow, kUnlisted},
      {"While", kUnlisted, kUnlisted, kClear}, {"Cast", kUnlisted, kUnlisted, kUnlisted},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(list(row.op, f16, false), row.tf1) << row.op;
    EXPECT_EQ(list(row.op, bf16, false), row.tf1) << row.op;
    EXPECT_EQ(list(row.op, f16, true), row.tf2_float16) << row.op;
    EXPECT_EQ(list(row.op, bf16, true), row.tf2_bfloat16) << row.op;
  }
}

TEST(rewrite, every_op_is_one_that_the_lists_know) {
  Graph graph = hand_graph("%a = tanh(%x)\noutput \"y\" %a\n");
  for (const OpRule* rule : all_rules()) {
    // apply_policy and pack_weights make int8 tables and packed weights, after the rewrite.
    if (rule->op == Op::kLookup || rule->op == Op::kPack) continue;
    if (rule->op >= Op::kSumTo || rule->op == Op::kBatchNormTraining ||
        (rule->op >= Op::kFakeQuantize && rule->op <= Op::kRoundCodes))
      continue;  // differentiate makes these later
    graph.nodes[0].op = rule->op;
    graph.nodes[0].words.clear();
    const bool function = !rule->attributes.empty() && rule->attributes[0].name == std::string("function");
    const size_t names = std::max(size_t{2}, facts_of(rule->op).tensorflow_functions.size());
    for (uint32_t word = 1; word < names; ++word) {
      if (function) graph.nodes[0].words = {word};
      const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, {});
      const std::string name = decisions[0].tensorflow_op;
      EXPECT_FALSE(name.empty()) << rule->name << ' ' << word;
      // A known op may be refused for the list, but not as unknown.
      const std::string answer = error_of(graph, with_edits({.allow = {.remove = {name}}}));
      EXPECT_EQ(answer.find("is no op"), std::string::npos) << answer;
    }
  }
}

TEST(rewrite, bad_edits_are_named_with_what_would_work) {
  const Graph graph = hand_graph("%a = dense(%x, %w, none)\noutput \"y\" %a\n");
  const auto add = [](const char* op) { return ListEdit{.add = {op}}; };
  const auto remove = [](const char* op) { return ListEdit{.remove = {op}}; };
  RewriteOptions cores = at_level(RewriteLevel::kTensorCoresOnly);
  cores.edits.deny = add("Relu");
  const std::pair<RewriteOptions, const char*> cases[] = {
      {with_edits({.allow = add("softmx")}),
       "--allowlist-add: 'softmx' is no op of the rewrite's lists\n    did you mean Softmax?"},
      {with_edits({.clear = remove("conv2d")}),
       "--clearlist-remove: 'conv2d' is no op of the rewrite's lists\n    did you mean Conv2D or Conv3D?"},
      {with_edits({.infer = add("xyzzyxyzzy")}),
       "--inferlist-add: 'xyzzyxyzzy' is no op of the rewrite's lists\n    names are TensorFlow's: Conv2D, MatMul, "
       "Softmax"},
      {with_edits({.infer = add("Softmax")}),
       "--inferlist-add: Softmax would be on two lists, deny and infer\n    add --denylist-remove Softmax"},
      {with_edits({.allow = remove("Softmax")}),
       "--allowlist-remove: Softmax is not on the allow list\n    it is on the deny list"},
      {with_edits({.allow = remove("Cast")}),
       "--allowlist-remove: Cast is not on the allow list\n    it is on no list"},
      {with_edits({.deny = {.add = {"Softmax"}, .remove = {"Softmax"}}}),
       "--denylist-remove: Softmax is added by --denylist-add as well\n    give one of the two"},
      {with_edits({.allow = add("Cast"), .clear = add("Cast")}),
       "--clearlist-add: Cast would be on two lists, allow and clear\n    add --allowlist-remove Cast"},
      {{.type = ElementType::kBfloat16, .level = RewriteLevel::kUnsafeForceAll},
       "--rewrite-level UNSAFE_FORCE_ALL: not with bfloat16: TensorFlow refuses it\n    use the policy bfloat16 for "
       "all layers"},
      {{.type = ElementType::kBfloat16, .level = RewriteLevel::kTensorCoresOnly},
       "--rewrite-level TENSOR_CORES_ONLY: has no effect on TensorFlow's bfloat16 lists\n    use TREAT_INFER_AS_DENY, "
       "or float16"},
      {cores,
       "--rewrite-level TENSOR_CORES_ONLY: leaves the deny list empty, but it is edited\n    give one of the two"},
      {preserving({"aa"}), "--preserve: the network has no layer 'aa'\n    did you mean a?"},
      {{.type = ElementType::kFloat64},
       "--rewrite: mixed_float64 is not possible\n    give mixed_float16 or mixed_bfloat16"},
  };
  for (const auto& [options, error] : cases) EXPECT_EQ(error_of(graph, options), error);
}

// ---- TensorFlow itself

TEST(rewrite, graphs_are_painted_as_tensorflow_paints_them) {
  const std::filesystem::path folder = project_path("tests/peers");
  for (const char* file : {"tensorflow_rewrite_2.15.json", "tensorflow_rewrite_2.21.json"}) {
    const PeerTally tally = compare_with_peers(folder / file);
    EXPECT_EQ(tally.same_nodes, tally.nodes) << file << ": " << tally.first_difference;
    EXPECT_GE(tally.graphs, 150) << file;
    EXPECT_GT(tally.allow, tally.nodes / 3) << file;
  }
}

}  // namespace
}  // namespace nacre::tools
