#include "tools/report/policy_name.h"

#include <fmt/format.h>

#include "tools/graph/names.h"

namespace nacre::tools {
namespace {

std::string float_name(const Policy& p) {
  if (p.variable == p.compute && p.output == p.compute) return name_of(p.compute);
  if (p.variable == ElementType::kFloat32 && p.output == p.compute)
    return fmt::format("mixed {}", name_of(p.compute));
  return fmt::format("{} (variables {}, output {})", name_of(p.compute), name_of(p.variable),
                     name_of(p.output));
}

std::string float8_name(const Policy& p) {
  if (p.quantization == Quantization::kFloat8Current) return "float8/current";
  return p.amax_history_length == 0 ? "float8" : fmt::format("float8/{}", p.amax_history_length);
}

}  // namespace

std::string policy_name(const Policy& policy) {
  switch (policy.quantization) {
    case Quantization::kNone:
      return float_name(policy);
    case Quantization::kInt8Dynamic:
      return policy.activation_zero == 0 ? "int8 (dynamic)" : "int8 (dynamic, asymmetric)";
    case Quantization::kInt4Weights:
      return policy.block == 0 ? "int4" : fmt::format("int4/{}", policy.block);
    case Quantization::kFloat8:
    case Quantization::kFloat8Current:
      return float8_name(policy);
    default:
      return name_of(policy.quantization);
  }
}

}  // namespace nacre::tools
