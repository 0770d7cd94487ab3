#include "tools/policies/policy_language.h"

#include <fmt/format.h>

#include <charconv>

#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_names.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

constexpr size_t kLongestPolicy = 1000;

Place unsupported(const Place& place) { return {place.text, kUnsupported}; }

// ---- Nacre's extensions of Keras's grammar ----

// Returns H of "float8/H", which is 1 to 65535 because the record's field has 16 bits.
uint16_t history_length(const std::string& text, const Place& place) {
  uint32_t length = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, length);
  if (error != std::errc() || rest != end || length == 0 || length > 65535)
    place.refuse("BadHistoryLength", fmt::format("float8/{}: {} is no history length", text, in_quotes(text)),
                 "write 1 to 65535, as in float8/16_from_float32, or float8/current_from_float32");
  return uint16_t(length);
}

// Parses a name of Nacre's extensions. Returns nullopt for other names, which are jmp's or Keras's.
std::optional<Policy> parse_extension(const std::string& name, const Place& place) {
  const size_t from = name.find("_from_");
  const std::string mode = name.substr(0, from);
  if (mode == "int16x8")
    unsupported(place).refuse("NotConvertible",
                              fmt::format("{} cannot be made here: int16x8 is what layers of TensorFlow Lite files "
                                          "with int16 activations have",
                                          in_quotes(name)),
                              "take int8/static_from_float32 instead, or source for such a file");
  // Each quantization whose name is no mode of Keras is an extension: "int8/static", "float8/current".
  const std::optional<Quantization> extension =
      mode.find('/') == mode.npos ? std::nullopt : find_name<Quantization>(mode);
  const bool float8 = mode.starts_with("float8/");
  if (from == std::string::npos || (!extension && !float8)) return std::nullopt;
  // A source that is quantized itself, "int8_from_float32", is no plain or mixed policy, so it is refused here.
  const KerasPolicy source = construct_keras_policy(name.substr(from + 6), place);
  Policy policy = policy_of(source, place);
  policy.loss_scale = LossScale::kNone;
  if (extension) {
    policy.quantization = *extension;
  } else {
    policy.quantization = Quantization::kFloat8;
    policy.amax_history_length = history_length(mode.substr(7), place);
    policy.update_order = UpdateOrder::kKeras;
  }
  return policy;
}

// ---- jmp (jmp/_src/policy.py) and Axon (lib/axon/mixed_precision.ex) ----

struct JmpType {
  const char* name;
  ElementType type;
};
constexpr JmpType kJmpTypes[] = {
    {"half", ElementType::kFloat16},  // "half" of jmp, except on a TPU
    {"full", ElementType::kFloat32},      {"f32", ElementType::kFloat32},     {"float32", ElementType::kFloat32},
    {"f16", ElementType::kFloat16},       {"float16", ElementType::kFloat16}, {"bf16", ElementType::kBfloat16},
    {"bfloat16", ElementType::kBfloat16}, {"f64", ElementType::kFloat64},     {"float64", ElementType::kFloat64},
};

std::optional<ElementType> jmp_type(const std::string& name) {
  for (const JmpType& t : kJmpTypes)
    if (name == t.name) return t.type;
  return std::nullopt;
}

// The three types of a layer as Axon and jmp name them. A type that the text does not give is nullopt.
struct ThreeTypes {
  std::optional<ElementType> params, compute, output;
};

// Rewrites Axon's options in the form of jmp: "params: {:f, 32}, compute=:bf16" -> "params=f32,compute=bf16".
std::string without_elixir(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = text[at] == '{' ? text.find('}', at) : text.npos;
    if (end == text.npos) {
      plain += text[at];
      continue;
    }
    // {:f,16} is a kind and its bits. Other text in braces stays, and is refused later as a type.
    const std::string tuple = text.substr(at, end + 1 - at);
    const size_t comma = tuple.find(',');
    const bool whole = tuple.starts_with("{:") && comma != tuple.npos && tuple.find(',', comma + 1) == tuple.npos;
    plain += whole ? tuple.substr(2, comma - 2) + tuple.substr(comma + 1, tuple.size() - comma - 2) : tuple;
    at = end;
  }
  for (const std::string key : {"params:", "compute:", "output:"})
    for (size_t at = plain.find(key); at != plain.npos; at = plain.find(key, at + 1))
      if (at == 0 || plain[at - 1] == ',') plain[at + key.size() - 1] = '=';
  for (size_t at = plain.find("=:"); at != plain.npos; at = plain.find("=:", at)) plain.erase(at + 1, 1);
  return plain;
}

// Parses spec := item ("," item)*, item := key "=" type. If a key is given twice, the last counts. Spaces are not
// skipped.
ThreeTypes parse_types(const std::string& text, const Place& place) {
  ThreeTypes types;
  if (text.empty()) return types;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    at = end + 1;
    if (equals == std::string::npos || item.find('=', equals + 1) != std::string::npos)
      place.refuse("NotKeyValue", fmt::format("{} of {} is not KEY=TYPE", in_quotes(item), in_quotes(text)),
                   "for example params=float32,compute=bfloat16,output=float32");
    const std::string key = item.substr(0, equals), word = item.substr(equals + 1);
    const std::optional<ElementType> type = jmp_type(word);
    if (!type)
      place.refuse("UnknownType", fmt::format("{} is no type for {}", in_quotes(word), in_quotes(key)),
                   "types are float32 (f32, full), float16 (f16, half), bfloat16 (bf16) and float64 (f64)");
    if (key == "p" || key == "params") types.params = type;
    else if (key == "c" || key == "compute") types.compute = type;
    else if (key == "o" || key == "output") types.output = type;
    else
      place.refuse("UnknownKey", fmt::format("{} of {} is none of the three keys", in_quotes(key), in_quotes(text)),
                   "keys are params, compute and output, or p, c and o");
  }
  return types;
}

Policy record_of(ElementType params, ElementType compute, ElementType output) {
  Policy policy;
  policy.variable = params;
  policy.compute = compute;
  policy.output = output;
  return policy;
}

// Makes a policy in the sense of jmp: params defaults to float32, compute to params, output to compute.
Policy by_jmp(const ThreeTypes& types) {
  const ElementType params = types.params.value_or(ElementType::kFloat32), compute = types.compute.value_or(params);
  return record_of(params, compute, types.output.value_or(compute));
}

// Makes a policy in the sense of Axon: a type that is not given is float32.
Policy by_axon(const ThreeTypes& types) {
  constexpr ElementType kDefault = ElementType::kFloat32;
  return record_of(types.params.value_or(kDefault), types.compute.value_or(kDefault), types.output.value_or(kDefault));
}

// Parses "jmp(SPEC)" and "axon(SPEC)". SPEC alone is read like jmp, with a warning if Axon reads it otherwise, or like
// Axon if it has types in Elixir's form. Returns nullopt for other names.
std::optional<Policy> parse_three_types(const std::string& name, const Place& place,
                                        std::vector<std::string>& warnings) {
  for (const char* system : {"jmp", "axon"}) {
    const std::string opening = std::string(system) + "(";
    if (!name.starts_with(opening)) continue;
    if (!name.ends_with(')'))
      place.refuse("NotKeyValue", fmt::format("{} has no closing bracket", in_quotes(name)),
                   fmt::format("write {}params=float32,compute=bfloat16,output=float32)", opening));
    const std::string spec = name.substr(opening.size(), name.size() - opening.size() - 1);
    if (opening == "axon(") return by_axon(parse_types(without_elixir(spec), place));
    if (const std::optional<ElementType> all = jmp_type(spec)) return record_of(*all, *all, *all);
    return by_jmp(parse_types(spec, place));
  }
  if (name.find("{:") != name.npos || name.find("=:") != name.npos)  // Elixir's types, which jmp does not have
    return by_axon(parse_types(without_elixir(name), place));
  if (name.find('=') == std::string::npos) return std::nullopt;
  const ThreeTypes types = parse_types(name, place);
  const Policy jmp = by_jmp(types), axon = by_axon(types);
  if (!equal(jmp, axon))
    warnings.push_back(fmt::format("{}: is read as jmp does, {}; Axon reads {}: write jmp({}) or axon({})",
                                   place.text.empty() ? in_quotes(name) : place.text, policy_text(jmp),
                                   policy_text(axon), name, name));
  return jmp;
}

std::optional<Policy> parse_jmp_word(const std::string& name) {
  const std::optional<ElementType> type = jmp_type(name);
  if (!type) return std::nullopt;
  return record_of(*type, *type, *type);
}

// ---- records of Keras's policies ----

ElementType compute_type(const std::string& type, const KerasPolicy& keras, const Place& place) {
  const std::optional<ElementType> found = find_name<ElementType>(type);
  if (found && floating(*found)) return *found;
  unsupported(place).refuse("NotConvertible",
                            fmt::format("{} computes in {}, which no layer here does", in_quotes(keras.name), type),
                            "take float32, float16, bfloat16 or float64; for integer arithmetic int8_from_float32 or "
                            "int8/static_from_float32; for float8 float8_from_float32");
}

[[noreturn]] void refuse_ternary(const KerasPolicy& keras, const Place& place) {
  unsupported(place).refuse("NotConvertible",
                            fmt::format("{} cannot be made here: layers have no ternary form, and no Keras release up "
                                        "to 3.15.1 has this policy",
                                        in_quotes(keras.name)),
                            "take int4_from_" + keras.source + " or gptq/2/32_from_" + keras.source + " instead");
}

// Sets the record's fields for a GPTQDTypePolicy or AWQDTypePolicy. A group of -1 is a whole channel.
void set_fit(const KerasPolicy& keras, Policy& policy, const Place& place) {
  // QuantizedDTypePolicy takes "gptq" too, without bits and group, but no layer of Keras's runs under it.
  if (!fit_bits(keras.weight_bits))
    unsupported(place).refuse("NotConvertible", fmt::format("{} names no bits and no group", in_quotes(keras.name)),
                              fmt::format("take {}/4/128_from_{}", keras.mode, keras.source));
  policy.weight_fit = keras.mode == "gptq" ? WeightFit::kGptq : WeightFit::kAwq;
  policy.weight_bits = uint8_t(keras.weight_bits);
  policy.quantization = keras.weight_bits == 8 ? Quantization::kInt8Weights : Quantization::kInt4Weights;
  policy.block = keras.group_size > 0 ? uint32_t(keras.group_size) : 0;
}

void set_float8(const KerasPolicy& keras, Policy& policy, const Place& place) {
  // QuantizedDTypePolicy takes "float8" too, without a length. Its layers then use the default length.
  const int64_t length =
      keras.class_name == "QuantizedFloat8DTypePolicy" ? keras.amax_history_length : kKerasAmaxHistoryLength;
  if (length < 1 || length > 65535)
    unsupported(place).refuse(
        "NotConvertible",
        fmt::format("amax_history_length is {}, and {}", length,
                    length > 65535 ? "Nacre keeps 1 to 65535 magnitudes"
                    : length == 0
                        ? "the largest of no magnitudes is no number: Keras's layers fail when they are called"
                        : "a history has no such length: Keras builds no layer with it"),
        "Keras's default is 1024; for none at all take float8/current_from_" + keras.source);
  policy.quantization = Quantization::kFloat8;
  policy.amax_history_length = uint16_t(length);
  policy.update_order = UpdateOrder::kKeras;
  if (narrow(policy.compute)) policy.operation_rounding = OperationRounding::kEach;
}

}  // namespace

Policy policy_of(const KerasPolicy& keras, const Place& place) {
  Policy policy;
  policy.compute = policy.output = compute_type(keras.compute, keras, place);
  policy.variable = compute_type(keras.variable, keras, place);
  if (keras.mode == "ternary") refuse_ternary(keras, place);
  if (keras.mode == "gptq" || keras.mode == "awq") set_fit(keras, policy, place);
  if (keras.mode.empty() && keras.name == "mixed_float16") policy.loss_scale = LossScale::kDynamic;
  if (!keras.loss_scale.empty()) set_policy_field(policy, "loss_scale=" + keras.loss_scale, place);
  if (keras.mode == "float8") set_float8(keras, policy, place);
  if (keras.mode == "int8") {
    policy.quantization = Quantization::kInt8Dynamic;
    policy.scale_form = ScaleForm::kReciprocal;
  }
  if (keras.mode == "int4") {
    policy.quantization = Quantization::kInt4Weights;
    policy.block = keras.block_size > 0 ? uint32_t(keras.block_size) : 0;
    policy.scale_form = policy.block == 0 ? ScaleForm::kReciprocal : ScaleForm::kStep;
  }
  return policy;
}

std::optional<std::string> loss_scale_warning(const Policy& policy, const Place& place) {
  if (policy.loss_scale == LossScale::kNone || policy.compute == ElementType::kFloat16) return std::nullopt;
  return fmt::format("{}: a loss scale serves float16 only, and this policy computes in {}", place.text,
                     name_of(policy.compute));
}

std::vector<std::string> whole_policies(const std::vector<std::string>& cut) {
  std::vector<std::string> whole;
  bool open = false;  // true if the last policy lacks its closing bracket
  for (const std::string& part : cut) {
    if (open) whole.back() += "," + part;
    else whole.push_back(part);
    open = whole.back().find('(') != part.npos && whole.back().find(')') == part.npos;
  }
  return whole;
}

ParsedPolicy parse_policy(const std::string& text, const Place& place) {
  if (text.size() > kLongestPolicy)
    place.refuse("CannotConvert", fmt::format("{} is longer than any policy", in_quotes(text)), nearest_policies(""));
  ParsedPolicy parsed;
  parsed.text = text;
  size_t at = std::min(text.find(';'), text.size());
  const std::string name = text.substr(0, at);
  if (name == "source") {
    parsed.source = true;
    if (at < text.size()) place.refuse("Contradiction", "'source' keeps the file's policy, so it takes no fields");
    return parsed;
  }
  std::optional<Policy> policy = parse_three_types(name, place, parsed.warnings);
  if (!policy) policy = parse_extension(name, place);
  if (!policy) policy = parse_jmp_word(name);
  parsed.policy = policy ? *policy : policy_of(parse_keras_policy(name, place), place);
  while (at < text.size()) {
    const size_t end = std::min(text.find(';', at + 1), text.size());
    const std::string field = text.substr(at + 1, end - at - 1);
    set_policy_field(parsed.policy, field, place);
    parsed.names_loss_scale |= field.starts_with("loss_scale=");
    at = end;
  }
  check_policy(parsed.policy, place);
  parsed.names_loss_scale |= parsed.policy.loss_scale != LossScale::kNone;
  if (std::optional<std::string> warning = loss_scale_warning(parsed.policy, place))
    parsed.warnings.push_back(*warning);
  return parsed;
}

}  // namespace nacre::tools
