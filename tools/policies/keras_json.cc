#include "tools/policies/keras_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "tools/base/nearest.h"
#include "tools/policies/tf_loss_scale.h"

namespace nacre::tools {
namespace {

constexpr const char* kMap = "DTypePolicyMap";

// Returns whether the class is one of tf.keras's two policies, whose configurations may name a loss scale. It is read
// for both, although TensorFlow ignores that of a Policy.
bool of_tensorflow(const std::string& class_name) { return class_name == "Policy" || class_name == "PolicyV1"; }

const char* kind(const Json& json) {
  return json.is_null()      ? "null"
         : json.is_boolean() ? "a boolean"
         : json.is_number()  ? "a number"
         : json.is_string()  ? "a string"
         : json.is_array()   ? "an array"
                             : "an object";
}

[[noreturn]] void wrong_type(const Json& json, const std::string& expected, const Place& place,
                             const std::string& label = "WrongType") {
  place.refuse(label, fmt::format("{}, expected {}", kind(json), expected));
}

std::vector<std::string> class_names() {
  std::vector<std::string> names = {"DTypePolicy", "FloatDTypePolicy", kMap, "Policy", "PolicyV1"};
  names.insert(names.end(), keras_policy_classes().begin(), keras_policy_classes().end());
  return names;
}

struct Object {
  std::string class_name;
  Json config;
  Place place;  // place of the config, for errors
};

Object open_object(const Json& json, const Place& place) {
  check_keys(json, {"class_name", "config", "module", "registered_name", "shared_object_id"}, place);
  if (!json.contains("class_name"))
    place.refuse("MissingField", "an object of Keras's has a class_name, this one has none",
                 "for example {\"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"mixed_bfloat16\"}}");
  const Json& name = json["class_name"];
  if (!name.is_string()) wrong_type(name, "a string", place.of("class_name"));
  const std::vector<std::string> known = class_names();
  if (std::ranges::find(known, name.get<std::string>()) == known.end()) {
    const std::vector<std::string> near = nearest_names(name.get<std::string>(), known);
    place.of("class_name")
        .refuse("UnknownClass", fmt::format("{} is no policy of Keras's", in_quotes(name.get<std::string>())),
                "did you mean " + alternatives(near.empty() ? known : near) + "?");
  }
  const Place inside = place.of("config");
  Json config = json.contains("config") ? json["config"] : Json(nullptr);
  if (config.is_null()) config = Json::object();  // Keras then calls the class without arguments
  if (!config.is_object()) wrong_type(config, "an object", inside);
  return {name.get<std::string>(), std::move(config), inside};
}

// Returns the name under `key`, or `global`, the name of the global policy, if the key is null or absent.
std::string name_or_global(const Json& config, const std::string& key, const std::string& global, const Place& place) {
  if (!config.contains(key) || config[key].is_null()) return global;
  if (!config[key].is_string()) wrong_type(config[key], "a string or null", place.of(key), "NameNotString");
  return config[key].get<std::string>();
}

int64_t history_length(const Json& config, const Place& place) {
  if (!config.contains("amax_history_length")) return kKerasAmaxHistoryLength;
  const Json& length = config["amax_history_length"];
  // Python's True is an integer. A number beyond int64 is no valid history length.
  if (length.is_boolean()) return length.get<bool>() ? 1 : 0;
  if (!length.is_number_integer() || (length.is_number_unsigned() && length.get<uint64_t>() > uint64_t(INT64_MAX)))
    wrong_type(length, "an integer", place.of("amax_history_length"), "AmaxLengthNotInt");
  return length.get<int64_t>();
}

KerasPolicy read_tensorflow(const Object& object, const std::string& global) {
  const auto& [class_name, config, place] = object;
  check_keys(config, {"name", "loss_scale"}, place);
  KerasPolicy policy = construct_keras_policy(name_or_global(config, "name", global, place), place.of("name"));
  policy.class_name = class_name;
  if (!config.contains("loss_scale")) return policy;
  const TfLossScale scale = read_tf_loss_scale(config["loss_scale"], place.of("loss_scale"));
  policy.loss_scale = scale.field.is_string() ? scale.field.get<std::string>() : scale.field.dump();
  policy.loss_scale_numbers = scale.numbers;
  return policy;
}

KerasPolicy read_policy(const Object& object, const std::string& global) {
  const auto& [class_name, config, place] = object;
  if (of_tensorflow(class_name)) return read_tensorflow(object, global);
  if (class_name == "DTypePolicy" || class_name == "FloatDTypePolicy") {
    check_keys(config, {"name"}, place);
    KerasPolicy policy = construct_keras_policy(name_or_global(config, "name", global, place), place.of("name"));
    policy.class_name = class_name;
    return policy;
  }
  const bool float8 = class_name == "QuantizedFloat8DTypePolicy";
  if (float8) check_keys(config, {"mode", "source_name", "amax_history_length"}, place);
  else check_keys(config, {"mode", "source_name"}, place);
  if (!config.contains("mode"))
    place.refuse("MissingField", "mode is missing", "for example {\"mode\": \"int8\", \"source_name\": \"float32\"}");
  if (!config["mode"].is_string()) wrong_type(config["mode"], "a string", place.of("mode"));
  const std::string source = name_or_global(config, "source_name", global, place);
  KerasPolicy policy = construct_keras_quantized(class_name, config["mode"].get<std::string>(), source, place);
  if (float8) policy.amax_history_length = history_length(config, place);
  return policy;
}

KerasPolicy read_entry(const Json& json, const Place& place, const std::string& global) {
  if (json.is_string()) return parse_keras_policy(json.get<std::string>(), place);
  if (!json.is_object()) wrong_type(json, "the name of a policy or an object", place);
  const Object object = open_object(json, place);
  if (object.class_name == kMap) place.refuse("MapInMap", "a map of policies inside another", "join the two");
  return read_policy(object, global);
}

KerasObject read_map(const Object& object, const std::string& global);

// Gives `map` the default policy of `given`, a map that is the default of `map`. Recurses once for each nested map.
void take_default(const Json& given, const Place& place, const std::string& global, KerasObject& map) {
  KerasObject inner = read_map(open_object(given, place), global);
  map.policy = inner.policy;
  map.warnings = std::move(inner.warnings);
  if (inner.entries.empty()) return;
  map.warnings.push_back(
      fmt::format("{}: of a map that is the default of another only its own default counts, as in Keras, and its "
                  "policy_map does not",
                  place.text));
}

KerasObject read_map(const Object& object, const std::string& global) {
  const auto& [class_name, config, place] = object;
  check_keys(config, {"default_policy", "policy_map"}, place);
  KerasObject map;
  map.map = true;
  if (config.contains("default_policy") && !config["default_policy"].is_null()) {
    const Json& given = config["default_policy"];
    const Place inside = place.of("default_policy");
    if (given.is_object() && given.value("class_name", Json()) == kMap) take_default(given, inside, global, map);
    else map.policy = read_entry(given, inside, global);
  }
  if (!config.contains("policy_map")) place.refuse("MissingField", "policy_map is missing");
  const Json& entries = config["policy_map"];
  if (entries.is_null()) return map;
  if (!entries.is_object()) wrong_type(entries, "an object", place.of("policy_map"));
  for (const auto& [key, value] : entries.items())
    map.entries.emplace_back(key, read_entry(value, place.of("policy_map").of(key), global));
  return map;
}

}  // namespace

KerasObject read_keras_json(const Json& json, const Place& place, const std::string& global) {
  KerasObject read;
  if (json.is_string()) {
    read.policy = parse_keras_policy(json.get<std::string>(), place);
    return read;
  }
  if (!json.is_object()) wrong_type(json, "the name of a policy or an object", place);
  const Object object = open_object(json, place);
  if (object.class_name == kMap) return read_map(object, global);
  read.policy = read_policy(object, global);
  return read;
}

}  // namespace nacre::tools
