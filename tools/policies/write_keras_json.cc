#include "tools/policies/write_keras_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/policies/pattern.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

std::string write_remedy() {
  return "write it in Nacre's own form, " + option("emit-policy", "FILE") +
         ", or give the layer a policy that Keras has";
}

std::string field_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Returns the name of Keras's policy with these types, such as "mixed_bfloat16"; nullopt if Keras has none.
std::optional<std::string> keras_source(const Policy& p) {
  if (p.output != p.compute || !floating(p.compute) || !floating(p.variable)) return std::nullopt;
  if (p.variable == p.compute) return name_of(p.compute);
  if (p.variable == ElementType::kFloat32 && narrow(p.compute)) return "mixed_" + std::string(name_of(p.compute));
  return std::nullopt;
}

// Returns the policy of Keras's with this quantization; nullopt if Keras has none.
std::optional<KerasPolicy> nearest_of_keras(const Policy& p, const std::string& source) {
  const auto fitted = [&](const char* class_name, const char* word) {
    const std::string group = p.block == 0 ? "-1" : std::to_string(p.block);
    return construct_keras_quantized(class_name, fmt::format("{}/{}/{}", word, p.weight_bits, group), source);
  };
  if (p.weight_fit == WeightFit::kGptq) return fitted("GPTQDTypePolicy", "gptq");
  if (p.weight_fit == WeightFit::kAwq) return fitted("AWQDTypePolicy", "awq");
  switch (p.quantization) {
    case Quantization::kNone: return construct_keras_policy(source);
    case Quantization::kInt8Dynamic: return construct_keras_quantized("QuantizedDTypePolicy", "int8", source);
    case Quantization::kInt4Weights:
      return construct_keras_quantized("Int4DTypePolicy", p.block == 0 ? "int4/-1" : fmt::format("int4/{}", p.block),
                                       source);
    case Quantization::kFloat8: {
      KerasPolicy policy = construct_keras_quantized("QuantizedFloat8DTypePolicy", "float8", source);
      policy.amax_history_length = p.amax_history_length;
      return policy;
    }
    default: return std::nullopt;
  }
}

// Returns the policy of Keras's that means this record. Throws if another field than those two below differs.
KerasPolicy in_words_of_keras(const Policy& p, bool names_loss_scale, const Place& place) {
  const std::string text = in_quotes(policy_text(p));
  const std::optional<std::string> source = keras_source(p);
  if (!source)
    place.refuse("NoKerasPolicy",
                 fmt::format("{} is no policy of Keras's, which gives out what it computes in and keeps variables in "
                             "that type or under a 16-bit one in float32",
                             text),
                 write_remedy());
  const std::optional<KerasPolicy> keras = nearest_of_keras(p, *source);
  if (!keras)
    place.refuse("NoKerasPolicy",
                 fmt::format("{} is no policy of Keras's, which has no quantization {}", text, name_of(p.quantization)),
                 write_remedy());
  Policy read = policy_of(*keras, place);
  // A Keras policy has no word for rounding=each and group_range=keras: Keras's own layers do so in any case.
  if (p.operation_rounding == OperationRounding::kEach) read.operation_rounding = OperationRounding::kEach;
  if (p.group_range == GroupRange::kKeras) read.group_range = GroupRange::kKeras;
  for (const PolicyField& field : policy_fields())
    if (field.get(p) != field.get(read))
      place.refuse("NoKerasPolicy",
                   fmt::format("{} is no policy of Keras's: {} is {}, and Keras's {} has {}", text, field.key,
                               field_text(field.get(p)), keras->name, field_text(field.get(read))),
                   write_remedy());
  if (names_loss_scale && read.loss_scale == LossScale::kNone)
    place.refuse("NoKerasPolicy",
                 fmt::format("{} names the loss scale none, and Keras's {} names none at all", text, keras->name),
                 write_remedy());
  return *keras;
}

// Returns whether all floating-point values of the layer are float32 and not quantized, as under the policy float32.
bool runs_in_float32(const Graph& graph, size_t layer) {
  const auto plain = [&](ValueId id) {
    if (id == kNone) return true;
    const Value& value = graph.values[size_t(id)];
    return !value.quantizer && (value.type == ElementType::kFloat32 || !floating(value.type));
  };
  return std::ranges::all_of(graph.nodes, [&](const Node& node) {
    return node.layer != int(layer) ||
           (std::ranges::all_of(node.inputs, plain) && std::ranges::all_of(node.outputs, plain));
  });
}

KerasPolicy of_layer(const Graph& graph, size_t i) {
  const Layer& layer = graph.layers[i];
  const Place place = {"layer " + in_quotes(layer.name), kUnsupported};
  if (!layer.asked && (!equal(layer.policy, Policy()) || !runs_in_float32(graph, i)))
    place.refuse("NoKerasPolicy", "runs as the network's file has it, which no policy of Keras's says", write_remedy());
  return in_words_of_keras(layer.policy, layer.asked && layer.names_loss_scale, place);
}

KerasPolicy default_policy(const PolicyRequest& request) {
  try {
    if (request.base) return in_words_of_keras(*request.base, request.base_names_loss_scale, {});
  } catch (const PolicyError&) {
    // No layer has this policy: such layers were refused already.
  }
  return construct_keras_policy("float32");
}

std::string escaped_key(const std::string& name) {
  std::string key;
  for (const char c : name) {
    if (!literal(std::string(1, c))) key += '\\';
    key += c;
  }
  return key;
}

Json keras_object(const char* module, const std::string& class_name, Json config) {
  return {{"module", module}, {"class_name", class_name}, {"config", std::move(config)}, {"registered_name", nullptr}};
}

}  // namespace

Json keras_json(const KerasPolicy& policy) {
  if (policy.mode.empty()) return keras_object("keras", policy.class_name, Json::object({{"name", policy.name}}));
  const std::string mode = policy.name.substr(0, policy.name.size() - policy.source.size() - 6);  // 6: size of "_from_"
  Json config = Json::object({{"mode", mode}, {"source_name", policy.source}});
  if (policy.class_name == "QuantizedFloat8DTypePolicy") config["amax_history_length"] = policy.amax_history_length;
  return keras_object("keras.dtype_policies", policy.class_name, std::move(config));
}

std::vector<std::string> keras_keys(const std::vector<std::string>& names) {
  const std::set<std::string> taken(names.begin(), names.end());
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    std::string key = escaped_key(name);
    // Keras compares a layer's name with the keys before it tries patterns, so no key may equal another layer's name.
    while (key != name && taken.contains(key)) key = "(?:" + key + ")";
    keys.push_back(key);
  }
  return keys;
}

Json keras_policies_json(const Graph& resolved, const PolicyRequest& request) {
  check_loss_scale_numbers(request);
  std::vector<std::string> names;
  std::vector<KerasPolicy> policies;
  for (size_t i = 0; i < resolved.layers.size(); ++i) {
    names.push_back(mended(resolved.layers[i].name));
    policies.push_back(of_layer(resolved, i));
  }
  if (policies.empty()) return keras_json(default_policy(request));
  if (std::ranges::all_of(policies, [&](const KerasPolicy& p) { return p == policies[0]; }))
    return keras_json(policies[0]);
  const std::vector<std::string> keys = keras_keys(names);
  Json map = Json::object();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (map.contains(keys[i]))
      Place{"layer " + in_quotes(resolved.layers[i].name), kUnsupported}.refuse(
          "SameName", "has the name of another layer once bytes that are no UTF-8 are replaced, as JSON needs it",
          "give the layers of the network other names");
    map[keys[i]] = keras_json(policies[i]);
  }
  return keras_object("keras.dtype_policies", "DTypePolicyMap",
                      Json::object({{"default_policy", keras_json(default_policy(request))}, {"policy_map", map}}));
}

}  // namespace nacre::tools
