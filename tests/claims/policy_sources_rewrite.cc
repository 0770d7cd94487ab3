// Rows of claim policy_sources: TensorFlow's graph rewrite,
// tensorflow/core/grappler/optimizers/auto_mixed_precision.cc and auto_mixed_precision_lists.h, and
// enable_mixed_precision_graph_rewrite, tensorflow/python/training/experimental/mixed_precision.py. Claim
// rewrite_painting compares it with TensorFlow node by node.
#include <algorithm>
#include <limits>

#include "tests/claims/policy_sources.h"
#include "tests/passes/rewrite_graphs.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

// Returns for each node of the graph, in order, h if its layer runs in 16 bits in the written file, f if in float32.
// `nodes` names graphs of tests/passes/rewrite_graphs.h, whose values a test may use.
std::string runs(const std::string& nodes, const RewriteOptions& options = {}) {
  const HandPainted painted = {.name = "", .nodes = nodes.c_str(), .options = options};
  Graph graph = graph_of(painted);
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  rewrite_mixed(graph, options);
  const Made made({}, std::move(graph));
  std::string text;
  for (const std::string& name : names) {
    const bool half = made.policy(name).compute != ElementType::kFloat32;
    const auto step = std::ranges::find_if(made.graph().nodes, [&](const Node& node) { return node.name == name; });
    if (step != made.graph().nodes.end() && step->op != Op::kCast && find_rule(step->op)->numerics != Numerics::kMove) {
      const std::string type = made.types(name);
      if (half == type.starts_with("float32")) text += "(" + type + ")";
    }
    text += half ? 'h' : 'f';
  }
  return text;
}

void paints(Checks& c, const std::string& nodes, const std::string& expected, const RewriteOptions& options = {}) {
  c.same(runs(nodes, options), expected, "types of the nodes of " + nodes);
}

constexpr const char* kChain = R"(
%a = softmax(%x) axis=1 beta=1
%b = tanh(%a)
%c = clamp(%b) clamp=1 high=6
%d = sigmoid(%c)
%e = clamp(%d) clamp=1 high=6
%h = dense(%e, %w, none)
%j = tanh(%h)
output "y" %j
)";

constexpr const char* kSoftmaxBetween = R"(
%a = dense(%x, %w, none)
%b = softmax(%a) axis=1 beta=1
%c = dense(%b, %w, none)
%d = softmax(%c) axis=1 beta=1
output "y" %d
)";

constexpr const char* kMeanBetween = R"(
%a = dense(%x, %w, none)
%m = mean(%a) axes=2 keep_dims=1
%b = sub(%a, %m)
%c = dense(%b, %w, none)
output "y" %c
)";

RewriteOptions edited(const ListEdits& edits) { return with_edits(edits); }

void refuses_rewrite(Checks& c, const RewriteOptions& options, const std::string& reason) {
  std::string said;
  try {
    runs(kSoftmaxBetween, options);
  } catch (const Error& error) {
    said = error.what();
  }
  c.that(said.find(reason) != std::string::npos, "says: " + said + ", expected " + reason);
}

// Runs `nacre convert` of the digits sample with these options. It must refuse with this reason, and write nothing.
void tool_refuses(Checks& c, const std::vector<std::string>& options, const std::string& reason) {
  const TemporaryDirectory directory;
  std::vector<std::string> line = {"convert", project_path("tools/samples/digits.onnx"), "-o", directory / "m.nacre"};
  line.insert(line.end(), options.begin(), options.end());
  const ToolRun run = run_tool(line);
  c.that(run.exit_code != 0 && run.err.find(reason) != std::string::npos, run.err);
  c.same(double(directory.entries()), 0.0, "files written");
}

void casts_once(Checks& c) {
  Graph graph = graph_of({.name = "", .nodes = R"(
%a = dense(%x, %w, none)
%b = softmax(%a) axis=1 beta=1
%m = mean(%a) axes=2 keep_dims=1
%d = sub(%b, %m)
%e = dense(%a, %w, none)
output "y" %d
output "u" %e
)"});
  rewrite_mixed(graph, {});
  const Made made({}, std::move(graph));
  c.same(made.types("a"), "float16 float16 float16", "the dense layer");
  c.same(double(made.count(Op::kCast)), 2.0, "casts: of x, and one of what two float32 nodes read");
}

void batch_norm_parameters(Checks& c) {
  Graph graph = graph_of({.name = "", .nodes = R"(
%ia = conv2d(%i, %f, none)
%ib = batch_norm(%ia, %p, %p, %p, %p) epsilon=0.001
%ic = conv2d(%ib, %f, none)
output "y" %ic
)"});
  rewrite_mixed(graph, {});
  c.that(graph.layers[1].policy.compute == ElementType::kFloat16, "a batch norm between convolutions is ALLOW");
  c.that(graph.layers[1].policy.variable == ElementType::kFloat32, "its parameters are float32");
}

void explains(Checks& c) {
  const TemporaryDirectory directory;
  const ToolRun run =
      run_tool({"convert", project_path("tools/samples/digits.onnx"), "--rewrite", "mixed_float16", "--explain"});
  c.that(run.exit_code == 0 && run.out.find("allow") != std::string::npos && run.out.find("ALLOW") != std::string::npos,
         "nodes with their list and paint are printed");
}

void starts_with(Checks& c, const std::vector<std::string>& options, const std::string& scale) {
  const TemporaryDirectory directory;
  std::vector<std::string> line = {"convert",  project_path("tools/samples/digits.onnx"),
                                   "-o",       directory / "m.nacre",
                                   "--train",  "softmax_cross_entropy",
                                   "--batch",  "4",
                                   "--rewrite"};
  line.insert(line.end(), options.begin(), options.end());
  const ToolRun run = run_tool(line);
  c.same(double(run.exit_code), 0.0, run.err);
  const LoadedModel model(directory / "m.nacre");
  float found = 0;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    if (model.tensor_name(id) == "loss_scale" && r.region == Region::kState)
      std::memcpy(&found, model.model().weights(r.initial), sizeof found);
  }
  c.same(found, std::stof(scale), "loss scale of the training");
}

const Capability kRows[] = {
    {"AutoMixedPrecisionLists::AllowList",
     "numerically-safe (for execution in fp16) and performance-critical. These ops are always "
     "converted to fp16.",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\noutput \"y\" %a\n", "h");
       paints(c, "\n%ia = conv2d(%i, %f, none)\noutput \"y\" %ia\n", "h");
     }},
    {"AutoMixedPrecisionLists::InferList",
     "considered numerically-safe (for execution in fp16), but which may be made unsafe by an "
     "upstream denylist op",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\n%b = tanh(%a)\n%c = dense(%b, %w, none)\noutput \"y\" %c\n", "hhh");
       paints(c, "\n%a = softmax(%x) axis=1 beta=1\n%b = tanh(%a)\n%c = dense(%b, %w, none)\noutput \"y\" %c\n", "ffh");
     }},
    {"AutoMixedPrecisionLists::DenyList",
     "numerically-dangerous (i.e., unsafe for execution in fp16) and whose effects may also be "
     "observed in downstream nodes (e.g., in Exp -> Add, the Add is unsafe due to the Exp)",
     [](Checks& c) {
       paints(c,
              "\n%a = dense(%x, %w, none)\n%b = softmax(%a) axis=1 beta=1\n%c = add(%b, %b)\n%d = dense(%c, %w, "
              "none)\noutput \"y\" %d\n",
              "hffh");
     }},
    {"AutoMixedPrecisionLists::ClearList",
     "do not have numerically-significant effects (i.e., they are always considered safe for "
     "execution in fp16 precision)",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\n%b = clamp(%a) clamp=1 high=6\noutput \"y\" %b\n", "hh");
     }},
    {"enable_mixed_precision_graph_rewrite", "`DenyList`: ... E.g. `Softmax`. (the lists of 1.15)",
     [](Checks& c) { paints(c, kSoftmaxBetween, "hfhf"); }},
    {"AutoMixedPrecisionLists::InferList", "\"Softmax\" (the lists of today)",
     [](Checks& c) { paints(c, kSoftmaxBetween, "hhhf", tf2()); }},
    {"AutoMixedPrecisionListsMkl", "bfloat16: \"Mean\" and \"Sum\" are infer, not deny, ops",
     [](Checks& c) {
       paints(c, kMeanBetween, "hffh", tf2());
       paints(c, kMeanBetween, "hhhh", tf2(ElementType::kBfloat16));
     }},
    {"Optimize, 1)", "Add all performance-critical ops (aka \"allowlist\" ops) to the allow_set.",
     [](Checks& c) {
       paints(c, "\n%a = softmax(%x) axis=1 beta=1\n%b = dense(%a, %w, %bias)\noutput \"y\" %b\n", "fh");
     }},
    {"Optimize", "No allowlist ops found, nothing to do",
     [](Checks& c) { paints(c, "\n%a = tanh(%x)\n%b = clamp(%a) clamp=1 high=6\noutput \"y\" %b\n", "ff"); }},
    {"Optimize, 2)",
     "Add nodes to the deny_set iff they are numerically-dangerous ... or they are on a forward path from a denylist "
     "node to a deny/infer node ... through non-numerically-dangerous ops",
     [](Checks& c) { paints(c, kChain, "ffffhhf"); }},
    {"Optimize, 2)", "forward: nothing is painted backward",
     [](Checks& c) {
       paints(c,
              "\n%a = dense(%x, %w, none)\n%b = clamp(%a) clamp=1 high=6\n%c = softmax(%b) axis=1 beta=1\noutput \"y\" "
              "%c\n",
              "hhf");
     }},
    {"Optimize, 3)",
     "find those that are between (i.e., both upstream and downstream of) allow nodes, and add them to the allow_set",
     [](Checks& c) {
       paints(c, R"(
%a = dense(%x, %w, none)
%b = tanh(%a)
%c = dense(%b, %w, none)
%d = tanh(%c)
output "y" %d
)",
              "hhhf");
     }},
    {"Optimize, 4)",
     "For the remaining inferlist nodes, add them to the allow_set if they are immediate downstream of allow_set node.",
     [](Checks& c) {
       const char* const nodes = "\n%a = dense(%x, %w, none)\n%b = tanh(%a)\noutput \"y\" %b\n";
       paints(c, nodes, "hh", tf2(ElementType::kBfloat16));
       paints(c, nodes, "hf", tf2());
       RewriteOptions newer = tf2();
       newer.infer_after_allow = true;
       paints(c, nodes, "hh", newer);
     }},
    {"Optimize, 5)",
     "For all remaining clearlist nodes, add them to the allow_set if they are connected to a node in the allow_set "
     "via "
     "other clearlist nodes.",
     [](Checks& c) {
       paints(c, R"(
%a = clamp(%x) clamp=1 high=6
%b = clamp(%a) clamp=1 low=1 high=inf
%c = dense(%b, %w, none)
%d = clamp(%c) clamp=1 low=-1 high=2
%e = clamp(%d) clamp=1 high=6
output "y" %e
)",
              "hhhhh");
     }},
    {"RemoveAllowsetWithFp32", "pass 6 to remove some nodes which could not be changed to F16",
     [](Checks& c) {
       Graph graph = graph_of(
           {.name = "",
            .nodes =
                "\n%t = reshape(%n) rank=2 dims=[1, 4]\n%a = dense(%x, %w, none)\noutput \"y\" %a\noutput \"t\" %t\n"});
       rewrite_mixed(graph, {});
       const Made made({}, std::move(graph));
       c.same(made.type("t"), "int32", "integers");
       c.that(made.types("a").starts_with("float16 float16"), "the dense layer computes in float16");
     }},
    {"ConvertBatchNormOpsToV2",
     "(*node->mutable_attr())[\"U\"].set_type(DT_FLOAT): parameters of batch norms stay float32",
     batch_norm_parameters},
    {"MakeCastsAllowIfAllOutputsAllow", "Finding existing casts that can be made allow",
     [](Checks& c) {
       paints(c, "\n%a = cast(%n)\n%b = dense(%a, %w, none)\noutput \"y\" %b\n", "hh");
       paints(c, "\n%a = cast(%n)\n%b = dense(%a, %w, none)\noutput \"y\" %b\noutput \"u\" %a\n", "fh");
     }},
    {"ChangeTypeAttrsAndAddCasts",
     "change type attributes and insert Cast ops at paint boundaries: one, which all readers share", casts_once},
    {"TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE", "list->erase(x)",
     [](Checks& c) { paints(c, kSoftmaxBetween, "ffff", edited({.allow = {.remove = {"MatMul"}}})); }},
    {"..._ALLOWLIST_ADD", "list->insert(x)",
     [](Checks& c) {
       paints(c, "\n%a = tanh(%x)\noutput \"y\" %a\n", "h",
              edited({.allow = {.add = {"Tanh"}}, .infer = {.remove = {"Tanh"}}}));
     }},
    {"..._DENYLIST_REMOVE, ..._INFERLIST_ADD", "Softmax from the deny list to the infer list",
     [](Checks& c) {
       paints(c, kSoftmaxBetween, "hhhf", edited({.infer = {.add = {"Softmax"}}, .deny = {.remove = {"Softmax"}}}));
     }},
    {"..._DENYLIST_ADD, ..._INFERLIST_REMOVE", "Tanh from the infer list to the deny list",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\n%b = tanh(%a)\n%c = dense(%b, %w, none)\noutput \"y\" %c\n", "hfh",
              edited({.infer = {.remove = {"Tanh"}}, .deny = {.add = {"Tanh"}}}));
     }},
    {"..._CLEARLIST_ADD, ..._CLEARLIST_REMOVE", "Tanh onto the clear list, Relu6 off it",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\n%b = tanh(%a)\noutput \"y\" %b\n", "hh",
              edited({.infer = {.remove = {"Tanh"}}, .clear = {.add = {"Tanh"}}}));
       paints(c, "\n%a = dense(%x, %w, none)\n%b = clamp(%a) clamp=1 high=6\noutput \"y\" %b\n", "hf",
              edited({.clear = {.remove = {"Relu6"}}}));
     }},
    {"ValidateLists", "InvalidArgument: Op lists have an overlap",
     [](Checks& c) {
       refuses_rewrite(c, edited({.deny = {.add = {"MatMul"}}}), "would be on two lists, allow and deny");
     },
     Kind::kRefused},
    {"AutoMixedPrecisionLists::UpdateList", "an op that no list has, or no op at all, is added and removed in silence",
     [](Checks& c) {
       refuses_rewrite(c, edited({.allow = {.add = {"MatMull"}}}), "is no op of the rewrite's lists");
       refuses_rewrite(c, edited({.clear = {.remove = {"MatMul"}}}), "is not on the clear list");
     },
     Kind::kRefused, "an edit that does nothing is refused"},
    {"..._LEVEL", "TENSOR_CORES_ONLY: IsPseudoFastMath(): the infer, deny and clear lists are empty",
     [](Checks& c) {
       paints(c, kSoftmaxBetween, "hfhf", at_level(RewriteLevel::kTensorCoresOnly)),
           paints(c, kChain, "fffffhf", at_level(RewriteLevel::kTensorCoresOnly));
     }},
    {"..._LEVEL", "force_all_fp16_ = optimization_level == \"UNSAFE_FORCE_ALL\"",
     [](Checks& c) { paints(c, kChain, "hhhhhhh", at_level(RewriteLevel::kUnsafeForceAll)); }},
    {"..._LEVEL", "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LEVEL cannot be set to UNSAFE_FORCE_ALL when oneDNN is used",
     [](Checks& c) {
       refuses_rewrite(c, {.type = ElementType::kBfloat16, .tf2_lists = true, .level = RewriteLevel::kUnsafeForceAll},
                       "not with bfloat16: TensorFlow refuses it");
     },
     Kind::kRefused},
    {"..._LEVEL", "treat_infer_as_deny_ = optimization_level == \"TREAT_INFER_AS_DENY\"",
     [](Checks& c) {
       paints(c, "\n%a = dense(%x, %w, none)\n%b = tanh(%a)\n%c = dense(%b, %w, none)\noutput \"y\" %c\n", "hfh",
              at_level(RewriteLevel::kTreatInferAsDeny));
     }},
    {"AutoMixedPrecisionImpl::MustPreserve", "return nodes_to_preserve_.count(node.name());",
     [](Checks& c) {
       paints(c, kSoftmaxBetween, "ffhf", preserving({"a"}));
       refuses_rewrite(c, preserving({"nothing"}), "the network has no layer 'nothing'");
     }},
    {"enable_mixed_precision_graph_rewrite",
     "the model update for that batch is skipped. In this case, the global step count is not "
     "incremented",
     [](Checks& c) {
       Training::Arguments arguments = scaled("dynamic", "tf");
       arguments.optimizer = "adam";
       Training training({.policy = "mixed_float16"}, arguments);
       training.step();
       const std::string count = training.state("step_count").at(0);
       const std::vector<uint8_t> before = training.run().bytes(count);
       c.that(!training.step(0x1p-4f, std::numeric_limits<float>::quiet_NaN()).applied, "a step with NaN is skipped");
       c.that(before == training.run().bytes(count), "the count of steps stays");
       c.that(training.step().applied && before != training.run().bytes(count), "and counts the next one");
     }},
    {"..._LEVEL", "a level that is none is taken for none given",
     [](Checks& c) { tool_refuses(c, {"--rewrite", "mixed_float16", "--rewrite-level", "FAST"}, "--rewrite-level"); },
     Kind::kRefused, "a word that says nothing is refused"},
    {"..._LOG_PATH", "dumps the graph and the lists: \"Saved paint bucket info to\"", explains},
    {"enable_mixed_precision_graph_rewrite",
     "The mixed precision graph rewrite cannot be enabled, because the global Keras dtype Policy "
     "has been set to a mixed precision policy.",
     [](Checks& c) { tool_refuses(c, {"--rewrite", "mixed_float16", "--policy", "mixed_float16"}, "--rewrite"); },
     Kind::kRefused},
    {"enable_mixed_precision_graph_rewrite", "... a policy that is not mixed is no contradiction",
     [](Checks& c) {
       tool_refuses(c, {"--rewrite", "mixed_float16", "--policy", "float32"}, "gives every layer its policy");
     },
     Kind::kRefused, "every policy of the whole network would be that of no layer; --set names some"},
    {"enable_mixed_precision_graph_rewrite",
     "loss_scale='dynamic': It is recommended to keep this as its default value",
     [](Checks& c) { starts_with(c, {"mixed_float16"}, "32768"), starts_with(c, {"mixed_bfloat16"}, "1"); }},
    {"enable_mixed_precision_graph_rewrite",
     "loss_scale: Either an int/float, the string `\"dynamic\"`, or an instance",
     [](Checks& c) {
       starts_with(c, {"mixed_float16", "--loss-scale", "fixed=128"}, "128");
       starts_with(c, {"mixed_float16", "--loss-scale", "dynamic=1024"}, "1024");
     }},
};

}  // namespace

Source tensorflow_rewrite() { return {"TensorFlow's graph rewrite", kRows}; }

}  // namespace nacre::test::policy_sources
