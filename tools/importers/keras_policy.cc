// What a layer's dtype says of its numbers. It stays in Keras's words until policies are resolved (tools/policies).
#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

std::string text_of(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json.at(key).is_string() ? json.at(key).text() : "";
}

const Json* config_of(const Json& json) {
  return json.is_object() && json.contains("config") && json.at("config").is_object() ? &json.at("config") : nullptr;
}

// Of a policy by itself: its name where it is not quantized.
std::string plain_name(const Json& dtype) {
  if (dtype.is_string()) return dtype.text();
  const Json* config = config_of(dtype);
  return config == nullptr ? "" : text_of(*config, "name");
}

}  // namespace

std::string source_policy(const Json& config) {
  if (!config.is_object() || !config.contains("dtype")) return "";
  const Json& dtype = config.at("dtype");
  if (dtype.is_null() || plain_name(dtype) == "float32" || plain_name(dtype).starts_with("int")) return "";
  return dtype.is_object() || dtype.is_string() ? dtype.dump() : "";
}

std::string quantization_mode(const Json& config) {
  if (!config.is_object() || !config.contains("dtype")) return "";
  const Json& dtype = config.at("dtype");
  if (dtype.is_string()) {
    const std::string name = dtype.text();
    const size_t end = name.find("_from_");
    return end == name.npos ? "" : name.substr(0, end);
  }
  const Json* inner = config_of(dtype);
  return inner == nullptr ? "" : text_of(*inner, "mode");
}

Json quantized(const std::string& mode) {
  const bool int4 = mode.starts_with("int4"), float8 = mode == "float8";
  Json config = {{"mode", mode}, {"source_name", "float32"}};
  if (float8) config["amax_history_length"] = 1024;
  const char* class_name = float8 ? "QuantizedFloat8DTypePolicy" : int4 ? "Int4DTypePolicy" : "QuantizedDTypePolicy";
  return {
      {"module", "keras.dtype_policies"}, {"class_name", class_name}, {"config", config}, {"registered_name", nullptr}};
}

}  // namespace nacre::tools::keras
