#include "tools/policies/keras_json.h"

#include <gtest/gtest.h>

#include "tests/policies/refusal.h"
#include "tools/policies/policy_file.h"

namespace nacre::tools {
namespace {

KerasObject read(const std::string& text, const std::string& global = "float32") {
  return read_keras_json(Json::parse(text), {"F.json: $", kBadInput}, global);
}

TEST(keras_json, reads_the_objects_that_keras_writes) {
  EXPECT_EQ(read(R"("mixed_bfloat16")").policy->name, "mixed_bfloat16");
  EXPECT_EQ(read(R"({"module": "keras", "class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"},
                     "registered_name": null, "shared_object_id": 140230})")
                .policy->compute,
            "bfloat16");
  EXPECT_EQ(read(R"({"class_name": "FloatDTypePolicy", "config": {"name": "float16"}})").policy->class_name,
            "FloatDTypePolicy");
  EXPECT_EQ(read(R"({"module": "keras.dtype_policies", "class_name": "QuantizedDTypePolicy",
                     "config": {"mode": "int8", "source_name": "float32"}, "registered_name": null})")
                .policy->name,
            "int8_from_float32");
  EXPECT_EQ(read(R"({"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "float8",
                     "source_name": "mixed_bfloat16", "amax_history_length": 16}})")
                .policy->amax_history_length,
            16);
  EXPECT_EQ(read(R"({"class_name": "Int4DTypePolicy", "config": {"mode": "int4/128", "source_name": "float32"}})")
                .policy->block_size,
            128);
  EXPECT_EQ(read(R"({"class_name": "GPTQDTypePolicy", "config": {"mode": "gptq/4/128", "source_name": "float32"}})")
                .policy->name,
            "gptq/4/128_from_float32");
  EXPECT_EQ(read(R"({"class_name": "AWQDTypePolicy", "config": {"mode": "awq/4/-1", "source_name": "float32"}})")
                .policy->group_size,
            -1);
  EXPECT_EQ(read(R"({"class_name": "TernaryDTypePolicy", "config": {"mode": "ternary", "source_name": "float32"}})")
                .policy->mode,
            "ternary");
}

TEST(keras_json, reads_the_objects_that_tensorflow_writes) {
  const auto scale = [](const std::string& json, const std::string& class_name = "PolicyV1") {
    return *read(R"({"class_name": ")" + class_name + R"(", "config": {"name": "mixed_float16", "loss_scale": )" +
                 json + "}}")
                .policy;
  };
  EXPECT_EQ(read(R"({"class_name": "Policy", "config": {"name": "mixed_float16"}})").policy->compute, "float16");
  EXPECT_EQ(read(R"({"class_name": "PolicyV1", "config": {"name": "bfloat16"}})").policy->loss_scale, "");
  EXPECT_EQ(scale("null").loss_scale, "none");
  EXPECT_EQ(scale("\"auto\"").loss_scale, "auto");
  EXPECT_EQ(scale("128").loss_scale, "128");
  EXPECT_EQ(scale(R"({"class_name": "FixedLossScale", "config": {"loss_scale_value": 64.0}})", "Policy").loss_scale,
            "64.0");
  const KerasPolicy dynamic = scale(R"({"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 32768.0,
                                        "increment_period": 2000, "multiplier": 2.0}})");
  EXPECT_EQ(dynamic.loss_scale + dynamic.loss_scale_numbers, "dynamic");
  const KerasPolicy own = scale(R"({"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 1024,
                                    "increment_period": 100, "multiplier": 4}})");
  EXPECT_EQ(own.loss_scale + own.loss_scale_numbers, "dynamic=1024,period=100,factor=4");
  for (const char* bad :
       {"true", "[]", "{}", R"({"class_name": "LossScale"})", R"({"class_name": "FixedLossScale", "config": {}})",
        R"({"class_name": "FixedLossScale", "config": {"loss_scale_value": "8"}})",
        R"({"class_name": "DynamicLossScale", "config": {"multiplier": 1}})",
        R"({"class_name": "DynamicLossScale", "config": {"increment_period": 1.5}})",
        R"({"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 1e300}})",
        R"({"class_name": "DynamicLossScale", "config": {"period": 5}})"}) {
    const Refusal r = refusal([&] { scale(bad); });
    EXPECT_EQ(r.code, kBadInput) << bad;
    EXPECT_NE(r.text.find("$.config.loss_scale"), std::string::npos) << r.text;
  }
  EXPECT_EQ(refusal([&] { read(R"({"class_name": "PolicyV1", "config": {"name": "_infer"}})"); }).label,
            "CannotConvert");
}

TEST(keras_json, null_is_the_global_policy) {
  EXPECT_EQ(read(R"({"class_name": "DTypePolicy", "config": {"name": null}})", "bfloat16").policy->name, "bfloat16");
  EXPECT_EQ(read(R"({"class_name": "DTypePolicy", "config": null})", "float64").policy->name, "float64");
  EXPECT_EQ(read(R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": null}})",
                 "mixed_bfloat16")
                .policy->name,
            "int8_from_mixed_bfloat16");
  const KerasObject map = read(R"({"class_name": "DTypePolicyMap", "config": {"default_policy": null, "policy_map":
      {"a": {"class_name": "Int4DTypePolicy", "config": {"mode": "int4/8", "source_name": null}}, "b": "float16"}}})",
                               "bfloat16");
  EXPECT_FALSE(map.policy.has_value());
  ASSERT_EQ(map.entries.size(), 2u);
  EXPECT_EQ(map.entries[0].second.name, "int4/8_from_bfloat16");
  EXPECT_EQ(map.entries[1].first, "b");
  // Keras refuses this too: a quantized global policy cannot be the source of a policy.
  EXPECT_EQ(refusal([] { read(R"({"class_name": "DTypePolicy", "config": {}})", "int8_from_float32"); }).label,
            "CannotConvert");
}

TEST(keras_json, everything_unexpected_is_one_error_with_its_path) {
  const struct {
    const char *text, *label, *says;
  } rows[] = {
      {"5", "WrongType", "F.json: $: a number, expected the name of a policy or an object"},
      {"[]", "WrongType", "F.json: $: an array"},
      {"{}", "MissingField", "class_name"},
      {R"({"class_name": 5})", "WrongType", "F.json: $.class_name: a number, expected a string"},
      {R"({"class_name": "DTypePolcy", "config": {}})", "UnknownClass", "did you mean DTypePolicy"},
      {R"({"class_name": "Dense", "config": {}})", "UnknownClass",
       "F.json: $.class_name: 'Dense' is no policy of Keras's"},
      {R"({"class_name": "DTypePolicy", "config": [1]})", "WrongType",
       "F.json: $.config: an array, expected an object"},
      {R"({"class_name": "DTypePolicy", "confg": {}})", "UnknownField", "F.json: $.confg: is not expected here"},
      {R"({"class_name": "DTypePolicy", "config": {"name": 16}})", "NameNotString", "F.json: $.config.name: a number"},
      {R"({"class_name": "DTypePolicy", "config": {"name": "fp16"}})", "CannotConvert",
       "F.json: $.config.name: cannot"},
      {R"({"class_name": "DTypePolicy", "config": {"mode": "int8"}})", "UnknownField", "F.json: $.config.mode"},
      {R"({"class_name": "QuantizedDTypePolicy", "config": {"source_name": "float32"}})", "MissingField",
       "mode is missing"},
      {R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": 8}})", "WrongType", "$.config.mode: a number"},
      {R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": "int4/8"}})", "InvalidMode", "'int4/8'"},
      {R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "amax_history_length": 1}})",
       "UnknownField", ""},
      {R"({"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "float8", "amax_history_length": 1.5}})",
       "AmaxLengthNotInt", "$.config.amax_history_length: a number, expected an integer"},
      {R"({"class_name": "DTypePolicyMap", "config": {}})", "MissingField", "policy_map is missing"},
      {R"({"class_name": "DTypePolicyMap", "config": {"policy_map": []}})", "WrongType",
       "$.config.policy_map: an array"},
      {R"({"class_name": "DTypePolicyMap", "config": {"policy_map": {"a/b": 1}}})", "WrongType",
       "$.config.policy_map['a/b']: a number"},
      {R"({"class_name": "DTypePolicyMap",
           "config": {"policy_map": {}, "default_policy": {"class_name": "DTypePolicyMap"}}})",
       "MissingField", "$.config.default_policy.config: policy_map is missing"},
      {R"({"class_name": "DTypePolicyMap",
           "config": {"policy_map": {"a": {"class_name": "DTypePolicyMap", "config": {}}}}})",
       "MapInMap", "$.config.policy_map.a"},
  };
  for (const auto& row : rows) {
    const Refusal r = refusal([&] { read(row.text); });
    EXPECT_EQ(r.label, row.label) << row.text << ": " << r.text;
    EXPECT_NE(r.text.find(row.says), std::string::npos) << row.text << ": " << r.text;
    EXPECT_EQ(r.code, kBadInput);
  }
}

std::string bad_json(const std::string& text) {
  const Refusal r = refusal([&] { parse_policy_json(text, "F.json"); });
  EXPECT_EQ(r.label, "BadJson") << r.text;
  EXPECT_LT(r.text.size(), 1000u);
  return r.text;
}

TEST(policy_file, hostile_json_is_refused_in_bounded_time) {
  EXPECT_NE(bad_json("").find("is no JSON"), std::string::npos);
  EXPECT_NE(bad_json("{\"a\": nan}").find("line 1, column 8"), std::string::npos);
  EXPECT_NE(bad_json("\"\xff\"").find("is no JSON"), std::string::npos);
  EXPECT_NE(bad_json(R"({"a": 1, "b": {"a": 2, "a": 3}})").find("has the key 'a' twice"), std::string::npos);
  EXPECT_NE(bad_json(std::string(1'000'000, '[')).find("nests deeper than 32 levels"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_NE(bad_json(deep).find("nests deeper"), std::string::npos);
  std::string wide = "{";
  for (int i = 0; i < 300'000; ++i) wide += "\"k" + std::to_string(i) + "\":1,";
  EXPECT_NE(bad_json(wide + "\"z\":1}").find("more than 10000 keys"), std::string::npos);
  std::string many = "[1";
  for (int i = 0; i < 1'000'000; ++i) many += ",1";
  EXPECT_NE(bad_json(many + "]").find("keys and values"), std::string::npos);
  EXPECT_NE(bad_json(std::string(20'000'000, ' ')).find("is larger than"), std::string::npos);
  EXPECT_EQ(parse_policy_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "F")["b"][1]["a"], 2);
}

TEST(policy_file, a_file_that_is_not_there_is_an_error_of_reading) {
  EXPECT_EQ(refusal([] { read_policy_json("/nonexistent/F.json"); }).code, kIo);
  EXPECT_EQ(refusal([] { read_policy_json("/tmp"); }).code, kIo);
  EXPECT_EQ(refusal([] { read_policy_json("/dev/zero"); }).code, kIo);
}

}  // namespace
}  // namespace nacre::tools
