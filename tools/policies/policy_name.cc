#include "tools/policies/policy_name.h"

#include <fmt/format.h>

#include "tools/base/names.h"
#include "tools/policies/policy_error.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

std::string name_of_file_layer(const Policy& policy) {
  switch (policy.quantization) {
    case Quantization::kNone:
      return policy.variable == policy.compute && policy.output == policy.compute
                 ? name_of(policy.compute)
                 : fmt::format("{} (variables {}, output {})", name_of(policy.compute), name_of(policy.variable),
                               name_of(policy.output));
    case Quantization::kInt8Static:
      return policy.compute == ElementType::kInt16 || policy.compute == ElementType::kInt32
                 ? "int16x8"
                 : name_of(policy.quantization);
    case Quantization::kInt8Dynamic:
      return policy.activation_zero == 0 ? "int8 (dynamic)" : "int8 (dynamic, asymmetric)";
    default: return name_of(policy.quantization);
  }
}

}  // namespace

std::string policy_name(const Policy& policy) {
  if (!floating(policy.variable) || !floating(policy.compute) || !floating(policy.output))
    return name_of_file_layer(policy);
  try {
    return policy_text(policy);
  } catch (const PolicyError&) {  // a file's policy may combine fields that no named policy combines
    return name_of_file_layer(policy);
  }
}

}  // namespace nacre::tools
