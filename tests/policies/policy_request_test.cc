#include "tools/policies/policy_request.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/policies/refusal.h"
#include "tools/policies/op_filter.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_loss_scale.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

struct Source {
  const char *name, *op;
  Op node;  // kNone: the layer was folded
};

Graph graph_of(const std::vector<Source>& layers) {
  Graph graph;
  for (const Source& l : layers) {
    const int layer = graph.add_layer({.name = l.name, .source_op = l.op, .policy = {}});
    if (l.node == Op::kNone) continue;
    Node node;
    node.op = l.node;
    node.name = l.name;
    node.layer = layer;
    graph.nodes.push_back(node);
  }
  return graph;
}

Graph network() {
  return graph_of({{"conv1", "Conv", Op::kConv2d},
                   {"bn1", "BatchNormalization", Op::kNone},
                   {"dw", "Conv", Op::kDepthwiseConv2d},
                   {"bn2", "BatchNormalization", Op::kNone},
                   {"dense_1", "Gemm", Op::kDense},
                   {"relu", "Relu", Op::kClamp},
                   {"dense_2", "MatMul", Op::kDense},
                   {"soft", "Softmax", Op::kSoftmax}});
}

PolicyRequest request(const PolicyArguments& arguments) { return parse_policy_options(arguments); }

// Returns the layers with `asked`, by name, as "conv1=float16 ...".
std::string asked(const Graph& graph) {
  std::string text;
  for (const Layer& l : graph.layers)
    if (l.asked) text += (text.empty() ? "" : " ") + l.name + "=" + policy_text(l.policy);
  return text;
}

std::string resolved(const PolicyArguments& arguments, std::vector<std::string>* log = nullptr) {
  Graph graph = network();
  resolve_policies(graph, request(arguments));
  if (log != nullptr) *log = graph.log;
  return asked(graph);
}

Refusal refused(const PolicyArguments& arguments) {
  return refusal([&] { resolved(arguments); });
}

class PolicyFile {
 public:
  explicit PolicyFile(const std::string& text) : path_(testing::TempDir() + "/nacre_policy_file.json") {
    std::ofstream(path_) << text;
  }
  ~PolicyFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(policy_request, nothing_asked_changes_nothing) {
  EXPECT_TRUE(request({}).empty());
  EXPECT_EQ(resolved({}), "");
}

TEST(policy_request, the_base_is_for_every_layer_and_rules_overwrite_it) {
  EXPECT_EQ(resolved({.policy = "bfloat16"}),
            "conv1=bfloat16 bn1=bfloat16 dw=bfloat16 bn2=bfloat16 dense_1=bfloat16 relu=bfloat16 dense_2=bfloat16 "
            "soft=bfloat16");
  EXPECT_EQ(resolved({.policy = "bfloat16", .set = {"dense_.=int8_from_float32", "dense_2=float32", "soft=source"}}),
            "conv1=bfloat16 bn1=bfloat16 dw=bfloat16 bn2=bfloat16 dense_1=int8_from_float32 relu=bfloat16 "
            "dense_2=float32");
}

TEST(policy_request, a_rule_alone_leaves_the_other_layers_as_the_file_has_them) {
  EXPECT_EQ(resolved({.set = {"dense_1=c=bf16,o=f32"}}), "dense_1=params=float32,compute=bfloat16,output=float32");
}

// This is Axon's example: all ops but batch_norm; "later application overwrites earlier".
TEST(policy_request, ops_are_chosen_by_their_name_here_in_the_source_and_elsewhere) {
  for (const char* name : {"batch_norm", "BatchNormalization", "batchnorm", "BatchNorm"})
    EXPECT_EQ(resolved({.policy = "bfloat16", .except = {name, "conv2d,Conv,dense", "softmax"}}), "relu=bfloat16")
        << name;
  for (const char* name : {"dense", "Dense", "FULLY_CONNECTED", "Gemm", "matmul"})
    EXPECT_EQ(resolved({.policy = "bfloat16", .only = {name}}), "dense_1=bfloat16 dense_2=bfloat16") << name;
  EXPECT_EQ(resolved({.policy = "bfloat16", .only = {"conv2d"}}), "conv1=bfloat16");
  EXPECT_EQ(resolved({.policy = "bfloat16", .only = {"depthwise_conv2d"}}), "dw=bfloat16");
  EXPECT_EQ(resolved({.policy = "bfloat16", .only = {"Conv"}}), "conv1=bfloat16 dw=bfloat16");
  EXPECT_EQ(resolved({.policy = "bfloat16", .only = {"clamp"}}), "relu=bfloat16");
}

// No layer has this op, so the policy would apply to no layer, or to every layer.
TEST(policy_request, an_op_that_no_layer_is_is_refused_with_those_there_are) {
  for (const char* name : {"Relu6", "tanh", "embedding"})
    for (const bool only : {true, false}) {
      PolicyArguments arguments = {.policy = "bfloat16", .set = {"bn1=float64"}};
      (only ? arguments.only : arguments.except) = {"dense", name};
      const Refusal r = refused(arguments);
      EXPECT_EQ(r.label, "NoSuchLayer");
      EXPECT_NE(r.text.find(std::string(only ? "--only" : "--except") + ": no layer of the network is '" + name + "'"),
                std::string::npos)
          << r.text;
      EXPECT_NE(r.text.find("its layers are Conv, BatchNormalization, "), std::string::npos) << r.text;
    }
  EXPECT_NE(refused({.policy = "bfloat16", .only = {"Relu6"}}).text.find("did you mean Relu? "), std::string::npos);
  const PolicyFile file(R"({"default": "bfloat16", "except": ["tanh"]})");
  EXPECT_EQ(refused({.file = file.path()}).label, "NoSuchLayer");
}

TEST(policy_request, operators_of_tflite_are_known_too) {
  const Graph graph = graph_of({{"a", "CONV_2D", Op::kConv2d},
                                {"b", "DEPTHWISE_CONV_2D", Op::kDepthwiseConv2d},
                                {"c", "FULLY_CONNECTED", Op::kDense},
                                {"d", "LOGISTIC", Op::kSigmoid},
                                {"e", "my_op", Op::kCopy}});
  const std::pair<const char*, int> names[] = {{"Conv", 0}, {"conv2d", 0},  {"depthwise_conv", 1},
                                               {"Gemm", 2}, {"sigmoid", 3}, {"MY_OP", 4}};
  for (const auto& [name, layer] : names)
    for (int i = 0; i < 5; ++i) EXPECT_EQ(layer_is(graph, i, name), i == layer) << name << " " << i;
}

TEST(policy_request, an_op_that_nobody_knows_is_refused_with_the_nearest) {
  const Refusal r = refused({.policy = "bfloat16", .except = {"bach_norm"}});
  EXPECT_EQ(r.label, "UnknownOp");
  EXPECT_NE(r.text.find("--except: 'bach_norm' is no op, here or in the network"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("batch_norm"), std::string::npos) << r.text;
}

TEST(policy_request, two_patterns_for_one_layer_name_both) {
  const Refusal r = refused({.set = {"dense.*=float16", ".*_1=bfloat16"}});
  EXPECT_EQ(r.label, "MultipleMatches");
  EXPECT_NE(r.text.find("layer 'dense_1' matches 2 rules"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("--set 'dense.*=float16'"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("--set '.*_1=bfloat16'"), std::string::npos) << r.text;
  EXPECT_EQ(refused({.set = {"relu=float16", "relu=bfloat16"}}).label, "DuplicateKey");
}

TEST(policy_request, a_pattern_that_matches_no_layer_is_refused_with_the_nearest_names) {
  const Refusal r = refused({.set = {"dens_1=float16"}});
  EXPECT_EQ(r.label, "NoSuchLayer");
  EXPECT_EQ(r.text,
            "--set 'dens_1=float16': no layer of the network is named 'dens_1' or matches it\n"
            "    did you mean dense_1 or dense_2?");
  EXPECT_NE(refused({.set = {"encoder/.*=float16"}}).text.find("layers are conv1, bn1, dw, bn2, dense_1 and 3 more"),
            std::string::npos);
}

const std::string kKeptApart = "--no-fold-bn keeps batch norms apart, --keep gelu,silu,hard_swish activations";

TEST(policy_request, rules_that_hit_only_folded_layers_are_reported) {
  std::vector<std::string> log;
  resolved({.set = {"bn.=float16", "dense_1=float16"}}, &log);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0], "policy rule --set 'bn.=float16' hits only layers that were folded: bn1 and bn2; " + kKeptApart);
  resolved({.set = {"(bn1|conv1)=float16"}}, &log);
  EXPECT_TRUE(log.empty());
}

// A folded batch norm has the policy of the layer that it was folded into, whatever --except says.
TEST(policy_request, ops_that_were_folded_are_reported) {
  std::vector<std::string> log;
  const std::string folded =
      "names layers that were folded into others and have their policy: bn1 and bn2; " + kKeptApart;
  resolved({.policy = "float16", .except = {"batch_norm"}}, &log);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0], "policy: --except " + folded);
  resolved({.policy = "float16", .only = {"dense,BatchNormalization"}}, &log);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0], "policy: --only " + folded);
  resolved({.policy = "float16", .except = {"dense"}}, &log);
  EXPECT_TRUE(log.empty());
}

TEST(policy_request, warnings_go_to_the_log) {
  std::vector<std::string> log;
  resolved({.set = {"relu=bfloat16;loss_scale=2"}}, &log);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_NE(log[0].find("a loss scale serves float16 only"), std::string::npos);
}

TEST(policy_request, a_policy_file_of_our_own) {
  const PolicyFile file(R"({"default": {"policy": "float8_from_float32", "margin": 2},
      "layers": {"conv1": "float32", "dense_.": {"class_name": "QuantizedDTypePolicy",
                                                 "config": {"mode": "int8", "source_name": "mixed_bfloat16"}},
                 "dw": {"quantization": "int4", "block": 64}},
      "except": ["batch_norm", "softmax"]})");
  EXPECT_EQ(resolved({.set = {"dense_2=float64"}, .file = file.path()}),
            "conv1=float32 dw=int4/64_from_float32 dense_1=int8_from_mixed_bfloat16 relu=float8_from_float32;margin=2 "
            "dense_2=float64");
}

TEST(policy_request, a_policy_file_of_keras) {
  const PolicyFile map(R"({"class_name": "DTypePolicyMap", "config": {"default_policy": null, "policy_map": {
      "dense_.": {"class_name": "DTypePolicy", "config": {"name": null}}, "conv1": "int8_from_float32"}}})");
  EXPECT_EQ(resolved({.file = map.path()}), "conv1=int8_from_float32 dense_1=float32 dense_2=float32");
  EXPECT_EQ(resolved({.policy = "mixed_float16;loss_scale=8", .file = map.path(), .only = {"softmax"}}),
            "conv1=int8_from_float32 dense_1=mixed_float16 dense_2=mixed_float16 soft=mixed_float16;loss_scale=8");
  const PolicyFile one(R"("bfloat16")");
  EXPECT_EQ(resolved({.file = one.path(), .only = {"softmax"}}), "soft=bfloat16");
}

TEST(policy_request, a_look_around_is_not_split_at_its_equals_sign) {
  const Refusal ahead = refused({.set = {"(?=fc).*=float16"}}), behind = refused({.set = {"(?<=fc).*=float16"}});
  EXPECT_NE(ahead.text.find("RE2 has no look-ahead, (?=...)"), std::string::npos) << ahead.text;
  EXPECT_NE(behind.text.find("RE2 has no look-behind, (?<=...)"), std::string::npos) << behind.text;
}

TEST(policy_request, contradictions_name_both_sides) {
  const PolicyFile file(R"({"default": "bfloat16", "only": ["dense"]})");
  const Refusal base = refused({.policy = "float16", .file = file.path()});
  EXPECT_EQ(base.label, "Contradiction");
  EXPECT_NE(base.text.find("--policy 'float16' and " + file.path() + ": $.default"), std::string::npos) << base.text;
  EXPECT_NE(refused({.file = file.path(), .except = {"conv2d"}}).text.find(file.path() + " and --except"),
            std::string::npos);
  EXPECT_NE(refused({.policy = "float16", .only = {"a"}, .except = {"b"}}).text.find("--only and --except"),
            std::string::npos);
  EXPECT_EQ(refused({.only = {"dense"}}).label, "Contradiction");
}

TEST(policy_request, a_rewrite_contradicts_every_base_policy) {
  for (const std::string base : {"mixed_bfloat16", "float32", "float16", "int8_from_float32"}) {
    const Refusal r = refusal([&] { check_against_rewrite(request({.policy = base}), "--rewrite mixed_float16"); });
    EXPECT_EQ(r.label, "Contradiction");
    EXPECT_NE(r.text.find("--rewrite mixed_float16 and --policy '" + base + "': contradict"), std::string::npos)
        << r.text;
  }
  EXPECT_NO_THROW(check_against_rewrite(request({.set = {"relu=mixed_float16"}}), "--rewrite mixed_float16"));
  // Layers keep the policy that a rewrite gave them, except where a rule names the layer.
  Graph graph = network();
  graph.layers[0].asked = graph.layers[4].asked = true;
  graph.layers[0].policy = graph.layers[4].policy = parse_policy("mixed_float16").policy;
  resolve_policies(graph, request({.policy = "float32", .set = {"dense_1=bfloat16"}, .only = {"conv2d", "dense"}}));
  EXPECT_EQ(asked(graph), "conv1=mixed_float16 dense_1=bfloat16 dense_2=float32");
}

TEST(policy_request, emitted_policies_read_back_as_the_same_records) {
  const PolicyArguments sets[] = {
      {},
      {.policy = "mixed_float16;loss_scale=1000.1", .set = {"soft=source"}, .except = {"dense"}},
      {.policy = "int8/static_from_float32", .set = {"conv1=float8/7_from_mixed_bfloat16;margin=3", "dw=p=f16,o=f32"}},
      {.set = {"dense_1=int8_from_float32;activation_zero=1;scale_form=step;rounding=each",
               "d.*2=int4/48_from_bfloat16"}}};
  for (const PolicyArguments& arguments : sets) {
    Graph first = network(), second = network();
    // A layer that runs as its file says may have a policy record already.
    first.layers[5].policy.quantization = second.layers[5].policy.quantization = Quantization::kInt8Dynamic;
    const PolicyRequest asked_for = request(arguments);
    resolve_policies(first, asked_for);
    const PolicyFile file(policy_json(first, asked_for).dump(2));
    resolve_policies(second, request({.file = file.path()}));
    for (size_t i = 0; i < first.layers.size(); ++i) {
      EXPECT_TRUE(equal(first.layers[i].policy, second.layers[i].policy)) << file.path() << " " << first.layers[i].name;
      EXPECT_EQ(first.layers[i].asked, second.layers[i].asked);
    }
  }
}

TEST(policy_request, what_a_policy_file_has_wrong_is_named_with_its_path) {
  const struct {
    const char *text, *label, *says;
  } rows[] = {
      {"[]", "WrongType", "$: expected the name of a policy or an object"},
      {R"({"defalt": "float32"})", "UnknownField", "$.defalt: is no key of a policy file"},
      {R"({"layers": []})", "WrongType", "$.layers: expected an object"},
      {R"({"layers": {"a b": 3}})", "WrongType", "$.layers['a b']: expected the name of a policy or an object"},
      {R"({"layers": {"conv1": "fp16"}})", "CannotConvert", "$.layers.conv1: cannot convert 'fp16'"},
      {R"({"layers": {"conv1": {"margn": 1}}})", "UnknownField", "did you mean margin?"},
      {R"({"layers": {"conv1": {"policy": 1}}})", "WrongType", "$.layers.conv1.policy"},
      {R"({"layers": {"conv1": {"block": -1}}})", "BadField", "$.layers.conv1.block: block cannot be '-1'"},
      {R"({"layers": {"conv1": {"block": 99999999999999999999}}})", "BadField", "expected 0 to"},
      {R"({"layers": {"conv1": {"loss_scale": 1e300}}})", "BadField", "finite"},
      {R"({"layers": {"conv1": {"policy": "source", "block": 1}}})", "Contradiction", "takes no fields"},
      {R"({"layers": {"conv1": {"quantization": "float8"}}})", "Contradiction", "needs one of 1 to 65535"},
      {R"-({"layers": {"(?=a)": "float16"}})-", "BadPattern", "look-ahead"},
      {R"({"layers": {"nothing": "float16"}})", "NoSuchLayer", "$.layers.nothing: no layer"},
      {R"({"layers": {"conv1": {"class_name": "DTypePolicyMap", "config": {"policy_map": {}}}}})", "MapInMap",
       "one layer"},
      {R"({"default": "float16", "only": "dense"})", "WrongType", "$.only: expected an array"},
      {R"({"default": "float16", "only": ["dense", 1]})", "WrongType", "$.only[1]"},
      {R"({"default": "float16", "only": ["dense"], "except": ["add"]})", "Contradiction", "only and except"},
      {R"({"only": ["dense"]})", "Contradiction", "was not given"},
      {R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": "gptq"}})", "NotConvertible",
       "take gptq/4/128_from_float32"},
      {R"({"class_name": "GPTQDTypePolicy", "config": {"mode": "gptq/5/32"}})", "BadWeightBits", "2, 3, 4 or 8"},
      {R"({"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "float8", "amax_history_length": 0}})",
       "NotConvertible", "amax_history_length is 0"},
  };
  for (const auto& row : rows) {
    const PolicyFile file(row.text);
    const Refusal r = refused({.file = file.path()});
    EXPECT_EQ(r.label, row.label) << row.text << ": " << r.text;
    EXPECT_NE(r.text.find(file.path()), std::string::npos) << r.text;
    EXPECT_NE(r.text.find(row.says), std::string::npos) << row.text << ": " << r.text;
  }
}

// If a request hangs, the time limit of tests/run.sh ends the test, which fails.
TEST(policy_request, hostile_rules_end_in_bounded_time) {
  Graph graph;
  for (int i = 0; i < 5000; ++i)
    graph.add_layer({.name = std::string(100, 'a') + std::to_string(i), .source_op = "Conv", .policy = {}});
  PolicyArguments many;
  for (int i = 0; i < 400; ++i)
    many.set.push_back("(a|aa|aaa){1," + std::to_string(50 + i % 7) + "}" + std::to_string(i) + "b*=float16");
  const Refusal r = refusal([&] { resolve_policies(graph, request(many)); });
  EXPECT_EQ(r.label, "TooManyRules") << r.text;
  PolicyArguments exact;
  for (const Layer& l : graph.layers) exact.set.push_back(l.name + "=float16");
  resolve_policies(graph, request(exact));
  EXPECT_TRUE(graph.layers.back().asked);
}

// A training has one loss scale: the one that the layers' policies name or, if they name several, the whole
// network's.
TEST(policy_loss_scale, is_what_the_policies_name) {
  const auto scale = [](const PolicyArguments& arguments) {
    Graph graph = network();
    const PolicyRequest request = parse_policy_options(arguments);
    resolve_policies(graph, request);
    return loss_scale_of_policies(graph, request);
  };
  const auto expect = [&](const PolicyArguments& arguments, LossScale kind, float value, bool float16 = true) {
    const PolicyLossScale found = scale(arguments);
    EXPECT_TRUE(found.said) << arguments.policy;
    EXPECT_EQ(found.kind, kind) << arguments.policy;
    EXPECT_EQ(found.value, value) << arguments.policy;
    EXPECT_EQ(found.float16, float16) << arguments.policy;
  };
  expect({.policy = "mixed_float16"}, LossScale::kDynamic, 0);
  expect({.policy = "mixed_float16;loss_scale=128"}, LossScale::kFixed, 128);
  expect({.policy = "mixed_float16;loss_scale=none"}, LossScale::kNone, 0);
  expect({.policy = "mixed_float16;loss_scale=auto"}, LossScale::kDynamic, 0);
  expect({.policy = "float16;loss_scale=none"}, LossScale::kNone, 0);
  expect({.policy = "float16;loss_scale=dynamic"}, LossScale::kDynamic, 0);
  expect({.policy = "float32;loss_scale=8"}, LossScale::kFixed, 8, false);
  for (const char* silent : {"float16", "params=float32,compute=float16", "int8/weights_from_mixed_float16"}) {
    EXPECT_FALSE(scale({.policy = silent}).said) << silent;
    EXPECT_TRUE(scale({.policy = silent}).float16) << silent;
  }
  for (const char* silent : {"float32", "mixed_bfloat16", "float32;loss_scale=none", "int8_from_float32", ""})
    EXPECT_FALSE(scale({.policy = silent}).said) << silent;

  // A layer that needs no loss scale has no influence.
  expect({.policy = "float32", .set = {"conv1=mixed_float16;loss_scale=128"}}, LossScale::kFixed, 128);
  expect({.policy = "mixed_bfloat16", .set = {"conv1=mixed_float16;loss_scale=none"}}, LossScale::kNone, 0);
  // Two layers differ, so the whole network's loss scale counts, if it names one.
  expect({.policy = "mixed_float16", .set = {"conv1=mixed_float16;loss_scale=128"}}, LossScale::kDynamic, 0);
  expect({.policy = "mixed_float16;loss_scale=none", .set = {"conv1=mixed_float16;loss_scale=128"}}, LossScale::kNone,
         0);
  try {
    scale({.policy = "float32", .set = {"conv1=mixed_float16;loss_scale=128", "dw=mixed_float16"}});
    ADD_FAILURE() << "taken";
  } catch (const PolicyError& error) {
    EXPECT_EQ(error.label, "Contradiction");
    const std::string text = error.what();
    for (const char* part : {"'conv1'", "'dw'", "128", "dynamic", "--loss-scale"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

// The file of --emit-policy names a loss scale exactly if the policy did.
TEST(policy_loss_scale, is_the_same_after_emit_policy) {
  for (const char* policy : {"mixed_float16", "mixed_float16;loss_scale=none", "mixed_float16;loss_scale=128",
                             "float16", "float16;loss_scale=none", "float32", "int8/weights_from_float16"}) {
    Graph graph = network(), again = network();
    const PolicyRequest request = parse_policy_options({.policy = policy});
    resolve_policies(graph, request);
    PolicyRequest read;
    read_policy_object(policy_json(graph, request), "p.json", "float32", read);
    resolve_policies(again, read);
    const PolicyLossScale a = loss_scale_of_policies(graph, request), b = loss_scale_of_policies(again, read);
    EXPECT_EQ(a.said, b.said) << policy;
    EXPECT_EQ(a.kind, b.kind) << policy;
    EXPECT_EQ(a.value, b.value) << policy;
  }
}

}  // namespace
}  // namespace nacre::tools
