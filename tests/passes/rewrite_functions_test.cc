// Tests every list of the rewrite on imported networks: a function between two matmuls, under its TensorFlow name,
// must get the decision of its list in the three editions.
#include <gtest/gtest.h>

#include <map>

#include "tests/graph/run_graph.h"
#include "tests/importers/onnx_builder.h"
#include "tests/passes/rewrite_graphs.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using enum RewriteList;

struct Listed {
  const char* op;    // of ONNX
  const char* name;  // TensorFlow's
  RewriteList tf1, float16, bfloat16;
  const char* second = nullptr;  // second operand
  bool ends = false;             // its result is not a number that a matmul takes
};

constexpr Listed kListed[] = {
    {"Exp", "Exp", kDeny, kDeny, kDeny},
    {"Pow", "Pow", kDeny, kDeny, kDeny, "x"},
    {"Log", "Log", kDeny, kInfer, kInfer},
    {"LogSoftmax", "LogSoftmax", kDeny, kInfer, kInfer},
    {"Softmax", "Softmax", kDeny, kInfer, kInfer},
    {"ReduceSum", "Sum", kDeny, kDeny, kInfer},
    {"ReduceMean", "Mean", kDeny, kDeny, kInfer},
    {"Sqrt", "Sqrt", kInfer, kInfer, kInfer},
    {"Reciprocal", "Reciprocal", kInfer, kInfer, kInfer},
    {"Softplus", "Softplus", kInfer, kInfer, kInfer},
    {"Elu", "Elu", kInfer, kInfer, kInfer},
    {"Erf", "Erf", kInfer, kInfer, kInfer},
    {"Div", "RealDiv", kInfer, kInfer, kInfer, "x"},
    {"Div", "RealDiv", kInfer, kInfer, kInfer, "three"},
    {"ReduceProd", "Prod", kInfer, kInfer, kInfer},
    {"Selu", "Selu", kUnlisted, kInfer, kInfer},
    {"Softsign", "Softsign", kUnlisted, kInfer, kInfer},
    {"Sin", "Sin", kUnlisted, kUnlisted, kUnlisted},
    {"Abs", "Abs", kClear, kClear, kClear},
    {"Neg", "Neg", kClear, kClear, kClear},
    {"Floor", "Floor", kClear, kClear, kClear},
    {"Ceil", "Ceil", kClear, kClear, kClear},
    {"Round", "Round", kClear, kClear, kClear},
    {"Sign", "Sign", kClear, kClear, kClear},
    {"Max", "Maximum", kClear, kClear, kClear, "x"},
    {"Min", "Minimum", kClear, kClear, kClear, "x"},
    {"ReduceMax", "Max", kClear, kClear, kClear},
    {"ReduceMin", "Min", kClear, kClear, kClear},
    {"Greater", "Greater", kClear, kClear, kClear, "x", true},
    {"Less", "Less", kClear, kClear, kClear, "x", true},
    {"Equal", "Equal", kClear, kClear, kClear, "x", true},
    {"ArgMax", "ArgMax", kClear, kClear, kClear, nullptr, true},
    {"ArgMin", "ArgMin", kClear, kClear, kClear, nullptr, true},
};

bool is_arg(const Listed& listed) { return std::string(listed.op).starts_with("Arg"); }

// Builds a = x w, f(a), y = f(a) v.
Graph network(const Listed& listed) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.counted("w", {4, 4});
  b.counted("v", {4, 4});
  b.floats("three", {}, {3});
  b.node("MatMul", {"x", "w"}, {"a"});
  std::vector<std::string> inputs = {"a"};
  if (listed.second != nullptr) inputs.emplace_back(listed.second);
  OnnxNode node = b.node(listed.op, inputs, {"f"});
  const bool reduces = std::string(listed.op).starts_with("Reduce");
  if (reduces && std::string(listed.op) != "ReduceSum") node.ints("axes", {0});
  if (std::string(listed.op) == "ReduceSum") {
    b.integers("axes", {1}, {0});
    b.model().mutable_graph()->mutable_node(1)->add_input("axes");
  }
  if (is_arg(listed)) node.integer("axis", 1);
  if (!listed.ends) b.node("MatMul", {"f", "v"}, {"y"});
  b.output(listed.ends ? "f" : "y");
  Graph graph = import_onnx(b.finish(), "test.onnx", {});
  check(graph);
  return graph;
}

// If the function is on the infer or the clear list, it runs in the type of the two matmuls. If it is on the deny
// list or on none, it does not.
TEST(rewrite_functions, every_list_is_at_work_on_imported_networks) {
  const struct {
    RewriteOptions options;
    RewriteList Listed::*list;
  } editions[] = {{{}, &Listed::tf1}, {tf2(), &Listed::float16}, {tf2(ElementType::kBfloat16), &Listed::bfloat16}};
  std::map<RewriteList, int> seen;
  for (const Listed& listed : kListed)
    for (const auto& edition : editions) {
      Graph graph = network(listed);
      const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, edition.options);
      ASSERT_EQ(decisions.size(), listed.ends ? 2u : 3u) << listed.op;
      const RewriteDecision& d = decisions[1];
      const RewriteList list = listed.*edition.list;
      EXPECT_EQ(d.tensorflow_op, listed.name);
      EXPECT_EQ(d.list, list) << listed.op;
      const Paint expected = list == kDeny ? Paint::kDeny : list == kUnlisted ? Paint::kUnpainted : Paint::kAllow;
      EXPECT_EQ(d.paint, expected) << listed.op << ": " << d.reason;
      EXPECT_EQ(d.runs_as, expected == Paint::kAllow ? rewrite_name(edition.options) : "float32") << listed.op;
      ++seen[list];
    }
  for (const RewriteList list : {kDeny, kInfer, kClear, kUnlisted}) EXPECT_GE(seen[list], 3) << name_of(list);
}

// Converts and runs the rewritten network. The function reads the type that the rewrite gave it, and no step falls
// back.
TEST(rewrite_functions, the_painted_network_runs_in_the_types_of_the_paint) {
  for (const Listed& listed : kListed) {
    Graph graph = network(listed);
    rewrite_mixed(graph, tf2());
    simplify(graph);
    apply_policy(graph);
    fuse(graph);
    check(graph);
    EXPECT_TRUE(graph.fallbacks.empty()) << listed.op << ": " << graph.fallbacks[0];
    const bool mixed = listed.float16 == kInfer || listed.float16 == kClear;
    const bool folds = listed.second != nullptr && std::string(listed.second) == "three";  // into the weights
    int found = 0;
    for (const Node& node : graph.nodes) {
      if (graph.layers[size_t(node.layer)].source_op != listed.op || node.op == Op::kCast) continue;
      EXPECT_EQ(graph.values[size_t(node.inputs[0])].type, mixed ? ElementType::kFloat16 : ElementType::kFloat32)
          << listed.op;
      ++found;
    }
    EXPECT_EQ(found, folds ? 0 : 1) << listed.op;
    const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 0.5f, 0.25f, 2})});
    const Value& y = run.values[size_t(run.outputs[0].value)];
    EXPECT_EQ(y.type, is_arg(listed) ? ElementType::kInt64
                      : listed.ends  ? ElementType::kBool
                                     : ElementType::kFloat32)
        << listed.op;
    // x w = [13 .. ]: the largest is last, the smallest first
    if (is_arg(listed)) {
      EXPECT_EQ(integers(y)[0], std::string(listed.op) == "ArgMax" ? 3 : 0);
    }
  }
}

}  // namespace
}  // namespace nacre::tools
