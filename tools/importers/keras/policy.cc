// Reads the policy in a layer's dtype. The policy stays in Keras's words until it is resolved (tools/policies).
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

std::string text_of(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json.at(key).is_string() ? json.at(key).text() : "";
}

const Json* config_of(const Json& json) {
  return json.is_object() && json.contains("config") && json.at("config").is_object() ? &json.at("config") : nullptr;
}

// Returns the name of a policy: the text itself, or "name" of its config. A quantized policy's config has none.
std::string plain_name(const Json& dtype) {
  if (dtype.is_string()) return dtype.text();
  const Json* config = config_of(dtype);
  return config == nullptr ? "" : text_of(*config, "name");
}

}  // namespace

std::string source_policy(const Json& config) {
  if (!config.is_object() || !config.contains("dtype")) return "";
  const Json& dtype = config.at("dtype");
  const std::string name = plain_name(dtype);
  if (dtype.is_object() && text_of(dtype, "class_name").starts_with("Policy"))  // a policy of Keras 2
    return name.empty() || name == "float32" ? "" : Json(name).dump();
  const bool whole = (name.starts_with("int") || name == "bool") && name.find("_from_") == name.npos;  // a type of ids
  if (dtype.is_null() || name == "float32" || whole) return "";
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

std::string source_name(const Json& config) {
  const Json dtype = config.is_object() ? config.value("dtype", Json()) : Json();
  std::string name = dtype.is_string() ? dtype.text() : "";
  if (const Json* inner = config_of(dtype)) name = text_of(*inner, "source_name");
  else if (const size_t from = name.find("_from_"); from != name.npos) name = name.substr(from + 6);
  return name.empty() ? "float32" : name;
}

std::string compute_type(const Json& config) {
  if (!quantization_mode(config).empty()) return compute_type(Json::object({{"dtype", source_name(config)}}));
  const Json dtype = config.is_object() ? config.value("dtype", Json()) : Json();
  std::string name = plain_name(dtype);
  if (const Json* map = config_of(dtype); map != nullptr && map->contains("default_policy"))
    name = plain_name(map->at("default_policy"));
  if (name.starts_with("mixed_")) name = name.substr(6);
  return name.empty() ? "float32" : name;
}

// Returns how the layer codes its input's rows. If it was quantized after it was made, the file says how. If it was
// made under its policy, the file does not, and the policy's default holds.
std::optional<RowCodes> row_codes(const Call& call) {
  const Json* of = call.find("quantization_config");
  const Json* config = of == nullptr ? nullptr : config_of(*of);
  const bool standard = quantization_mode(call.config).starts_with("int8") || call.class_name == "ReversibleEmbedding";
  if (config == nullptr) return standard ? std::optional<RowCodes>(RowCodes()) : std::nullopt;
  if (!config->contains("activation_quantizer") || config->at("activation_quantizer").is_null()) return std::nullopt;
  const Json& quantizer = config->at("activation_quantizer");
  const Json* said = config_of(quantizer);
  if (text_of(quantizer, "class_name") != "AbsMaxQuantizer" || said == nullptr)
    call.unsupported("a quantizer of its input other than AbsMaxQuantizer");
  RowCodes made;
  if (said->contains("value_range") && said->at("value_range").size() == 2) {
    made.low = said->at("value_range").at(size_t(0)).get<float>();
    made.high = said->at("value_range").at(size_t(1)).get<float>();
  }
  if (said->contains("epsilon")) made.epsilon = said->at("epsilon").get<float>();
  return made;
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
