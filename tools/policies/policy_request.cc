#include "tools/policies/policy_request.h"

#include <fmt/format.h>

#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/policies/keras_json.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_file.h"
#include "tools/policies/policy_language.h"
#include "tools/policies/policy_map.h"

namespace nacre::tools {
namespace {

void add_warnings(PolicyRequest& request, const std::vector<std::string>& warnings) {
  request.warnings.insert(request.warnings.end(), warnings.begin(), warnings.end());
}

ParsedPolicy parsed_record(const Policy& policy, const std::string& text, const Place& place) {
  check_policy(policy, place);
  ParsedPolicy parsed;
  parsed.policy = policy;
  parsed.text = text;
  parsed.names_loss_scale = policy.loss_scale != LossScale::kNone;
  if (std::optional<std::string> warning = loss_scale_warning(policy, place)) parsed.warnings.push_back(*warning);
  return parsed;
}

// Reads an object of Nacre's own: {"policy": "float8_from_float32", "margin": 1, ...}.
ParsedPolicy read_record(const Json& object, const Place& place) {
  Policy policy;
  std::string text;
  bool names_loss_scale = object.contains("loss_scale");
  if (object.contains("policy")) {
    const Json& name = object["policy"];
    if (!name.is_string()) place.of("policy").refuse("WrongType", "expected the name of a policy");
    const ParsedPolicy named = parse_policy(name.get<std::string>(), place.of("policy"));
    if (named.source) {
      if (object.size() > 1) place.refuse("Contradiction", "'source' keeps the file's policy, so it takes no fields");
      return named;
    }
    policy = named.policy;
    text = named.text;
    names_loss_scale |= named.names_loss_scale;
  }
  for (const auto& [key, value] : object.items())
    if (key != "policy") set_policy_field(policy, key, value, place.of(key));
  ParsedPolicy parsed = parsed_record(policy, text, place);
  parsed.names_loss_scale |= names_loss_scale;
  return parsed;
}

ParsedPolicy parsed_keras(const KerasPolicy& keras, const Place& place) {
  ParsedPolicy parsed = parsed_record(policy_of(keras, place), keras.name, place);
  parsed.names_loss_scale |= !keras.loss_scale.empty();
  parsed.loss_scale_numbers = keras.loss_scale_numbers;
  return parsed;
}

ParsedPolicy read_policy_value(const Json& value, const Place& place, const std::string& global) {
  if (value.is_string()) return parse_policy(value.get<std::string>(), place);
  if (!value.is_object()) place.refuse("WrongType", "expected the name of a policy or an object");
  if (!value.contains("class_name")) return read_record(value, place);
  const KerasObject keras = read_keras_json(value, place, global);
  if (keras.map) place.refuse("MapInMap", "a map of policies is no policy of one layer");
  return parsed_keras(*keras.policy, place);
}

void add_base(PolicyRequest& request, const ParsedPolicy& parsed, const std::string& origin) {
  add_warnings(request, parsed.warnings);
  if (parsed.source) return;
  if (request.base)
    throw PolicyError("Contradiction", kUsage, request.base_origin + " and " + origin,
                      "are both the policy of all layers without a rule",
                      "keep one of them, or write " + option("set", "PATTERN=POLICY") + " for some layers");
  request.base = parsed.policy;
  request.base_text = parsed.text;
  request.base_origin = origin;
  request.base_names_loss_scale = parsed.names_loss_scale;
  request.base_loss_scale_numbers = parsed.loss_scale_numbers;
}

void add_rule(PolicyRequest& request, const std::string& pattern, const ParsedPolicy& parsed, const std::string& origin,
              bool in_file) {
  add_warnings(request, parsed.warnings);
  if (!parsed.loss_scale_numbers.empty())
    throw PolicyError(
        "Contradiction", kBadInput, origin,
        fmt::format("a layer's dynamic loss scale has numbers of its own, {}, and a training has one scale",
                    parsed.loss_scale_numbers),
        "name the loss scale \"dynamic\" here, and give " +
            option("loss-scale", "dynamic" + parsed.loss_scale_numbers));
  request.rules.push_back({.pattern = pattern,
                           .policy = parsed.policy,
                           .text = parsed.text,
                           .origin = origin,
                           .source = parsed.source,
                           .in_file = in_file,
                           .names_loss_scale = parsed.names_loss_scale});
}

// Returns the position of the '=' between pattern and policy: the first one, except that the '=' of a look-around, (?=
// or (?<=, belongs to the pattern. RE2 then refuses the look-around.
size_t find_equals(const std::string& text) {
  const auto looks = [&](size_t at) {
    const std::string before = text.substr(0, at);
    return before.ends_with("(?") || before.ends_with("(?<");
  };
  size_t at = text.find('=');
  while (at != std::string::npos && looks(at)) at = text.find('=', at + 1);
  return at;
}

void add_set(PolicyRequest& request, const std::string& text) {
  const Place place = {option("set", in_quotes(text)), kUsage};
  const size_t equals = find_equals(text);
  if (equals == std::string::npos || equals == 0)
    place.refuse("NotKeyValue", "is not PATTERN=POLICY", "for example " + option("set", "'dense.*=int8_from_float32'"));
  add_rule(request, text.substr(0, equals), parse_policy(text.substr(equals + 1), place), place.text, false);
}

std::vector<std::string> split_names(const std::vector<std::string>& texts, const Place& place) {
  std::vector<std::string> names;
  for (const std::string& text : texts)
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      names.push_back(text.substr(at, end - at));
      if (names.back().empty())
        place.refuse("UnknownOp", fmt::format("{} has an empty name", in_quotes(text)), "for example dense,batch_norm");
      at = end + 1;
    }
  return names;
}

void add_filter(PolicyRequest& request, std::vector<std::string> only, std::vector<std::string> except,
                const std::string& origin) {
  if (only.empty() && except.empty()) return;
  if (!only.empty() && !except.empty())
    throw PolicyError("Contradiction", kUsage, origin, "only and except were both given", "keep one of them");
  if (!request.filter_origin.empty())
    throw PolicyError("Contradiction", kUsage, request.filter_origin + " and " + origin,
                      "both choose the ops of the policy", "keep one of them");
  request.only = std::move(only);
  request.except = std::move(except);
  request.filter_origin = origin;
}

std::vector<std::string> read_names(const Json& json, const Place& place) {
  if (!json.is_array()) place.refuse("WrongType", "expected an array of names of ops");
  std::vector<std::string> names;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_string() || json[i].text().empty()) place.of(i).refuse("WrongType", "expected the name of an op");
    names.push_back(json[i].get<std::string>());
  }
  return names;
}

void read_keras_object(const Json& json, const Place& place, const std::string& global, PolicyRequest& request) {
  const KerasObject keras = read_keras_json(json, place, global);
  add_warnings(request, keras.warnings);
  if (keras.policy) add_base(request, parsed_keras(*keras.policy, place), place.text);
  for (const auto& [key, policy] : keras.entries) {
    const Place inside = place.of("config").of("policy_map").of(key);
    add_rule(request, key, parsed_keras(policy, inside), inside.text, true);
    request.rules.back().of_keras = true;
  }
}

// Throws on duplicate keys and on patterns that RE2 cannot take, before the network is read.
void check_rules(const PolicyRequest& request) {
  PolicyMap of_file, of_command;
  for (const PolicyRule& rule : request.rules)
    (rule.in_file ? of_file : of_command).insert(rule.pattern, {rule.origin, rule.in_file ? kBadInput : kUsage});
}

}  // namespace

void read_policy_object(const Json& json, const std::string& name, const std::string& global, PolicyRequest& request) {
  const Place place = {name + ": $", kBadInput};
  if (json.is_string()) return add_base(request, parse_policy(json.get<std::string>(), place), place.text);
  if (!json.is_object()) place.refuse("WrongType", "expected the name of a policy or an object");
  if (json.contains("class_name")) return read_keras_object(json, place, global, request);
  std::vector<std::string> only, except;
  for (const auto& [key, value] : json.items()) {
    const Place inside = place.of(key);
    if (key == "default") add_base(request, read_policy_value(value, inside, global), inside.text);
    else if (key == "only") only = read_names(value, inside);
    else if (key == "except") except = read_names(value, inside);
    else if (key != "layers")
      inside.refuse("UnknownField", "is no key of a policy file", "keys are default, layers, only and except");
    if (key != "layers") continue;
    if (!value.is_object()) inside.refuse("WrongType", "expected an object: names of layers and their policies");
    for (const auto& [pattern, policy] : value.items())
      add_rule(request, pattern, read_policy_value(policy, inside.of(pattern), global), inside.of(pattern).text, true);
  }
  add_filter(request, std::move(only), std::move(except), name);
}

PolicyRequest parse_policy_options(const PolicyArguments& arguments) {
  PolicyRequest request;
  if (!arguments.policy.empty()) {
    const Place place = {option("policy", in_quotes(arguments.policy)), kUsage};
    add_base(request, parse_policy(arguments.policy, place), place.text);
  }
  if (!arguments.file.empty()) {
    // In Keras, null stands for the global policy. Its name has no fields (";..."), which are Nacre's.
    const std::string global =
        arguments.policy.empty() ? "float32" : arguments.policy.substr(0, arguments.policy.find(';'));
    read_policy_object(read_policy_json(arguments.file), arguments.file, global, request);
  }
  const Place only = {option("only"), kUsage}, except = {option("except"), kUsage};
  if (!arguments.only.empty() && !arguments.except.empty())
    throw PolicyError("Contradiction", kUsage, option("only") + " and " + option("except"), "were both given",
                      "keep one of them");
  add_filter(request, split_names(arguments.only, only), split_names(arguments.except, except),
             arguments.only.empty() ? except.text : only.text);
  if (!request.base && !request.filter_origin.empty())
    throw PolicyError("Contradiction", kUsage, request.filter_origin, "chooses the ops of a policy that was not given",
                      "add " + option("policy", "POLICY"));
  for (const std::string& text : arguments.set) add_set(request, text);
  check_rules(request);
  return request;
}

}  // namespace nacre::tools
