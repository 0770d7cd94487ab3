#include "tools/policies/write_keras_json.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/policies/refusal.h"
#include "tests/project_path.h"
#include "tools/base/names.h"
#include "tools/policies/keras_json.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_map.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

const Json& table() {
  static const Json read = [] {
    std::ifstream file(project_path("tests/peers/keras_policy_json.json"));
    return Json::parse(file);
  }();
  return read;
}

Graph graph_of(const std::vector<std::string>& names) {
  Graph graph;
  for (const std::string& name : names) graph.add_layer({.name = name, .source_op = "Relu", .policy = {}});
  return graph;
}

struct Resolved {
  Graph graph;
  PolicyRequest request;
};

// Returns layers with these names as a policy file resolves them.
Resolved resolved(const std::vector<std::string>& names, const Json& file) {
  Resolved made{graph_of(names), {}};
  read_policy_object(file, "policies.json", "float32", made.request);
  resolve_policies(made.graph, made.request);
  return made;
}

Json written(const std::vector<std::string>& names, const Json& file) {
  const Resolved made = resolved(names, file);
  return keras_policies_json(made.graph, made.request);
}

Json given(const std::string& text) { return Json::parse(text); }

TEST(write_keras_json, one_policy_of_all_layers_is_no_map) {
  EXPECT_EQ(written({"a", "b"}, "mixed_bfloat16"),
            given(R"({"module": "keras", "class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"},
                      "registered_name": null})"));
  EXPECT_EQ(written({"a", "b"}, "float8/16_from_float32"),
            given(R"({"module": "keras.dtype_policies", "class_name": "QuantizedFloat8DTypePolicy", "config":
                      {"mode": "float8", "source_name": "float32", "amax_history_length": 16},
                      "registered_name": null})"));
  EXPECT_EQ(written({}, "float16")["config"]["name"], Json("float16"));
  // Layers for which nobody asked a policy compute in float32.
  EXPECT_EQ(written({"a"}, Json::object())["config"]["name"], Json("float32"));
}

// Keras's policies do not state what its layers always do.
TEST(write_keras_json, rounding_and_groups_that_are_keras_s_own_need_no_words) {
  EXPECT_EQ(written({"a"}, "mixed_bfloat16;rounding=each")["config"]["name"], Json("mixed_bfloat16"));
  EXPECT_EQ(written({"a"}, "int4/32_from_float32;group_range=keras")["config"]["mode"], Json("int4/32"));
}

TEST(write_keras_json, several_policies_are_a_map_of_every_layer) {
  const Json map = written({"a", "b", "c"}, given(R"({"default": "float16", "layers": {"b": "int4_from_float32"}})"));
  EXPECT_EQ(map["class_name"], Json("DTypePolicyMap"));
  EXPECT_EQ(map["module"], Json("keras.dtype_policies"));
  EXPECT_EQ(map["config"]["default_policy"]["config"]["name"], Json("float16"));
  EXPECT_EQ(map["config"]["policy_map"].size(), 3u);
  EXPECT_EQ(map["config"]["policy_map"]["b"]["class_name"], Json("Int4DTypePolicy"));
  EXPECT_EQ(map["config"]["policy_map"]["b"]["config"]["mode"], Json("int4/-1"));
  // Keras has no words for this base policy, and no layer has it.
  const Json other = written({"a", "b"}, given(R"({"default": "int8/static_from_float32",
                                                   "layers": {"a": "float16", "b": "bfloat16"}})"));
  EXPECT_EQ(other["config"]["default_policy"]["config"]["name"], Json("float32"));
}

TEST(write_keras_json, a_policy_that_keras_has_no_words_for_is_refused_with_its_layer) {
  const struct {
    const char *policy, *says;
  } rows[] = {
      {"int8/static_from_float32", "Keras's, which has no quantization int8/static"},
      {"int8/weights_from_bfloat16", "no quantization int8/weights"},
      {"float8/current_from_float32", "no quantization float8/current"},
      {"params=float32,compute=bfloat16,output=float32", "gives out what it computes in"},
      {"params=bfloat16,compute=float32,output=float32", "gives out what it computes in"},
      {"float8_from_float32;margin=2", "margin is 2, and Keras's float8_from_float32 has 0"},
      {"float8_from_float32;amax_rule=most_recent", "amax_rule is most_recent"},
      {"float8/16_from_bfloat16", "rounding is last, and Keras's float8_from_bfloat16 has each"},
      {"int8_from_float32;scale_form=step;activation_zero=1", "scale_form is step"},
      {"mixed_float16;loss_scale=none", "loss_scale is none, and Keras's mixed_float16 has dynamic"},
      {"mixed_float16;loss_scale=8", "loss_scale is 8"},
      {"float16;loss_scale=dynamic", "loss_scale is dynamic, and Keras's float16 has none"},
      {"float16;loss_scale=none", "names the loss scale none"},
  };
  for (const auto& row : rows) {
    const Json file = {{"default", "float32"}, {"layers", Json::object({{"odd one", row.policy}})}};
    const Refusal r = refusal([&] { written({"a", "odd one"}, file); });
    EXPECT_EQ(r.label, "NoKerasPolicy") << row.policy << ": " << r.text;
    EXPECT_EQ(r.code, int(kUnsupported));
    EXPECT_TRUE(r.text.starts_with("layer 'odd one': '")) << r.text;
    EXPECT_NE(r.text.find(row.says), std::string::npos) << row.policy << ": " << r.text;
    EXPECT_NE(r.text.find("--emit-policy FILE"), std::string::npos) << r.text;
  }
}

TEST(write_keras_json, a_layer_that_runs_as_its_quantized_file_says_is_refused) {
  Graph graph = graph_of({"a"});
  graph.layers[0].policy.quantization = Quantization::kInt8Dynamic;
  EXPECT_EQ(refusal([&] { keras_policies_json(graph); }).label, "NoKerasPolicy");
  Graph codes = graph_of({"a"});
  Value value;
  value.quantizer = Quantizer();
  codes.values.push_back(value);
  Node node;
  node.layer = 0;
  node.inputs = {0};
  codes.nodes.push_back(node);
  const Refusal r = refusal([&] { keras_policies_json(codes); });
  EXPECT_NE(r.text.find("layer 'a': runs as the network's file has it"), std::string::npos) << r.text;
  codes.values[0].quantizer.reset();
  EXPECT_EQ(keras_policies_json(codes)["config"]["name"], Json("float32"));
}

// Every key matches only its own layer, by its letters or as a pattern.
TEST(write_keras_json, keys_match_their_own_layer_alone) {
  const std::vector<std::string> names = {"a.b", "a\\.b", "(?:a\\.b)", "aXb", "(x", "w{2}",
                                          "[0]", "a|b",   "$",         "\\",  "c"};
  const std::vector<std::string> keys = keras_keys(names);
  PolicyMap map;
  for (const std::string& key : keys) map.insert(key, {});
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(map.find(names[i]), std::optional<size_t>(i)) << names[i];
    EXPECT_EQ(map.matches(names[i]).size(), 1u) << names[i];
  }
  EXPECT_EQ(keys[0], "(?:(?:a\\.b))");  // "a\.b" and "(?:a\.b)" are names
  EXPECT_EQ(keys.back(), "c");
}

TEST(write_keras_json, two_names_that_json_cannot_tell_apart_are_refused) {
  Graph graph = graph_of(std::vector<std::string>{"a\xff", "a\xfe"});
  graph.layers[0].asked = true;
  graph.layers[0].policy = parse_policy("float16").policy;
  EXPECT_EQ(refusal([&] { keras_policies_json(graph); }).label, "SameName");
}

// Real Keras's answers are committed: it read the file that this code writes, and found the same policy for every
// path.
TEST(write_keras_json, keras_reads_the_policies_that_were_meant) {
  const Json& files = table()["files"];
  ASSERT_EQ(files.size(), 64u);
  int layers = 0, maps = 0;
  for (const Json& file : files) {
    std::vector<std::string> names;
    for (const Json& name : file["names"]) names.push_back(name.get<std::string>());
    const Resolved made = resolved(names, file["request"]);
    const Json json = keras_policies_json(made.graph, made.request);
    EXPECT_EQ(json.dump(), file["written"].dump());
    maps += json["class_name"] == Json("DTypePolicyMap");
    Resolved again = resolved(names, json);
    for (size_t i = 0; i < names.size(); ++i, ++layers) {
      const Policy& p = made.graph.layers[i].policy;
      EXPECT_TRUE(equal(p, again.graph.layers[i].policy)) << names[i] << ": " << policy_text(p);
      const Json& keras = file["answers"][i];
      EXPECT_EQ(keras["compute"], Json(name_of(p.compute)));
      EXPECT_EQ(keras["variable"], Json(name_of(p.variable)));
      EXPECT_EQ(keras["amax"].get<int>(), int(p.amax_history_length));
      EXPECT_EQ(keras["block"].get<int>(), p.quantization != Quantization::kInt4Weights ? 0
                                           : p.block == 0                               ? -1
                                                                                        : int(p.block));
      EXPECT_TRUE(keras["mode"] == Json(p.quantization == Quantization::kNone ? "" : name_of(p.quantization)))
          << keras.dump();
    }
  }
  EXPECT_GT(layers, 200);
  EXPECT_GT(maps, 40);
}

TEST(keras_json, a_default_that_is_a_map_is_what_keras_makes_of_it) {
  for (const Json& row : table()["defaults"]) {
    if (row.contains("refused")) continue;  // of the constructor, which no file calls
    const std::string path = row["path"].get<std::string>();
    Resolved made{graph_of({path}), {}};
    read_policy_object(row["json"], "keras.json", "float32", made.request);
    resolve_policies(made.graph, made.request);
    const Layer& layer = made.graph.layers[0];
    EXPECT_EQ(row["answer"]["compute"], Json(name_of(layer.policy.compute))) << row.dump();
    EXPECT_EQ(row["answer"]["variable"], Json(name_of(layer.policy.variable)));
    EXPECT_EQ(row["answer"]["mode"], Json(layer.policy.quantization == Quantization::kNone ? "" : "int8"));
  }
  const Json inner = table()["defaults"][0]["json"];
  PolicyRequest request;
  read_policy_object(inner, "keras.json", "float32", request);
  ASSERT_EQ(request.warnings.size(), 1u);
  EXPECT_NE(request.warnings[0].find("keras.json: $.config.default_policy: of a map that is the default of another"),
            std::string::npos)
      << request.warnings[0];
}

// Keras makes a policy of any history length. Here lengths with which its layers cannot be built or called are
// refused.
TEST(keras_json, history_lengths_are_those_that_keras_layers_run_with) {
  for (const Json& row : table()["lengths"]) {
    const Json& length = row["length"];
    const Json config = Json::object({{"mode", "float8"}, {"source_name", "float32"}, {"amax_history_length", length}});
    const Json json = {{"class_name", "QuantizedFloat8DTypePolicy"}, {"config", config}};
    EXPECT_TRUE(row["policy"].get<bool>());
    const Refusal r = refusal([&] { written({"a"}, json); });
    if (r.text.empty()) {
      EXPECT_TRUE(row["called"].get<bool>()) << row.dump();
      continue;
    }
    EXPECT_EQ(r.label, "NotConvertible");
    const char* why = !row["built"].get<bool>()    ? "Keras builds no layer with it"
                      : !row["called"].get<bool>() ? "Keras's layers fail when they are called"
                                                   : "Nacre keeps 1 to 65535 magnitudes";
    EXPECT_NE(r.text.find(why), std::string::npos) << row.dump() << ": " << r.text;
  }
}

TEST(keras_json, a_key_that_matches_no_layer_is_a_warning) {
  const Json json = given(R"({"class_name": "DTypePolicyMap", "config": {"default_policy": "float32", "policy_map":
      {"dense_9": {"class_name": "DTypePolicy", "config": {"name": "float16"}}}}})");
  const Resolved made = resolved({"dense_1"}, json);
  ASSERT_EQ(made.graph.log.size(), 1u);
  EXPECT_EQ(made.graph.log[0],
            "policy rule policies.json: $.config.policy_map.dense_9: no layer of the network is named 'dense_9' or "
            "matches it; did you mean dense_1?");
  EXPECT_EQ(refusal([&] { resolved({"dense_1"}, given(R"({"layers": {"dense_9": "float16"}})")); }).label,
            "NoSuchLayer");
}

}  // namespace
}  // namespace nacre::tools
