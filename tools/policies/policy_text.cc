#include "tools/policies/policy_text.h"

#include <fmt/format.h>

#include "tools/base/names.h"
#include "tools/policies/keras_policy.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_language.h"

namespace nacre::tools {
namespace {

bool mixed(const Policy& p) {
  return p.variable == ElementType::kFloat32 &&
         (p.compute == ElementType::kFloat16 || p.compute == ElementType::kBfloat16);
}

std::string source_name(const Policy& p) { return (mixed(p) ? "mixed_" : "") + std::string(name_of(p.compute)); }

// Returns whether Keras's name "float8" fits. Keras's float8 from a 16-bit source rounds after each operation, Nacre's
// float8/H after the last one.
bool named_by_keras(const Policy& p) { return !narrow(p.compute) || p.operation_rounding == OperationRounding::kEach; }

// Returns a name like "gptq/4/128". If none has these bits and quantization, returns a near one; policy_text writes the
// fields that differ after it.
std::string fit_name(const Policy& p) {
  const bool gptq = p.weight_fit == WeightFit::kGptq;
  const int standard = gptq && p.quantization == Quantization::kInt8Weights ? 8 : 4;
  const int bits = gptq && fit_bits(p.weight_bits) ? p.weight_bits : standard;
  return fmt::format("{}/{}/{}", name_of(p.weight_fit), bits, p.block == 0 ? int64_t{-1} : int64_t{p.block});
}

std::string mode_name(const Policy& p) {
  const bool weights = p.quantization == Quantization::kInt4Weights || p.quantization == Quantization::kInt8Weights;
  if (weights && p.weight_fit != WeightFit::kNearest) return fit_name(p);
  switch (p.quantization) {
    case Quantization::kInt4Weights: return p.block == 0 ? "int4" : fmt::format("int4/{}", p.block);
    case Quantization::kFloat8:
      return p.amax_history_length == kKerasAmaxHistoryLength && named_by_keras(p)
                 ? "float8"
                 : fmt::format("float8/{}", p.amax_history_length);
    default: return name_of(p.quantization);
  }
}

// Returns a value's text: for a real number the shortest text that reads back as the same float32.
std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const bool fits =
      value.is_number_float() && std::abs(value.get<double>()) <= double(std::numeric_limits<float>::max());
  return fits ? fmt::format("{}", value.get<float>()) : value.dump();
}

std::string three_types(const Policy& p) {
  return fmt::format("params={},compute={},output={}", name_of(p.variable), name_of(p.compute), name_of(p.output));
}

std::string name_without_fields(const Policy& p) {
  if (p.quantization != Quantization::kNone) {
    // int8 from a policy that computes in float16 has no name, because Keras refuses it.
    const bool refused = p.quantization == Quantization::kInt8Dynamic && p.compute == ElementType::kFloat16;
    return mode_name(p) + "_from_" + (refused ? "float32" : source_name(p));
  }
  const bool same = p.variable == p.compute || mixed(p);
  if (same && p.output == p.compute) return source_name(p);
  return three_types(p);
}

}  // namespace

bool is_mixed_float16(const Policy& p) {
  return p.variable == ElementType::kFloat32 && p.compute == ElementType::kFloat16 &&
         p.output == ElementType::kFloat16 && p.quantization == Quantization::kNone;
}

std::string policy_text(const Policy& policy) {
  // A layer of a converted model may compute in integers. No policy asks for that, so this text is for reading only.
  const bool asked = floating(policy.variable) && floating(policy.compute) && floating(policy.output);
  std::string text = asked ? name_without_fields(policy) : three_types(policy);
  Policy named = policy;
  if (asked) named = parse_policy(text).policy;
  else named.quantization = Quantization::kNone;
  for (const PolicyField& field : policy_fields()) {
    const Json value = field.get(policy);
    if (field.get(named) == value) continue;
    text += fmt::format(";{}={}", field.key, value_text(value));
    field.set(named, value);
  }
  return text;
}

}  // namespace nacre::tools
