// Parses a policy in the language of Keras, jmp, Axon or Nacre, and makes the engine's record of it:
//
//   policy := name (";" FIELD "=" VALUE)*
//   name   := what Keras takes (keras_policy.h)
//           | "int8/static_from_S" | "int8/full_from_S" | "int8/weights_from_S"
//           | "float8/H_from_S" | "float8/current_from_S"
//           | jmp: "jmp(params=T,compute=T,output=T)" | half | full | f16 | bf16 | f32 | f64
//           | Axon: "axon(params=T,compute=T,output=T)"       what is not given is float32; T also {:f, 16} and :f16,
//                                                          "=" also ": ", spaces are skipped
//           | "params=T,compute=T,output=T"                   as Axon if T is {:f, 16} or :f16; else as jmp; may warn
//           | "source"                                    the layer stays as the network's file has it
//
// S is a plain or mixed policy, H the length of the amax history.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/policy.h"
#include "tools/policies/keras_policy.h"

namespace nacre::tools {

struct ParsedPolicy {
  Policy policy;
  bool source = false;                // the text is "source", so there is no record
  bool names_loss_scale = false;      // true if the text names a loss scale, even none, or the record has one
  std::string loss_scale_numbers;     // TfLossScale::numbers
  std::string text;                   // as written
  std::vector<std::string> warnings;  // lines for the log
};

// Parses a policy. Throws PolicyError with Keras's labels, or BadHistoryLength, UnknownKey, UnknownType, NotKeyValue
// (jmp), UnknownField, BadField, Contradiction. NotConvertible is for a known policy that cannot be made here, such as
// Keras's ternary or int16x8.
ParsedPolicy parse_policy(const std::string& text, const Place& place = {});

// Joins the policies of a list that was cut at all commas: "axon(params=f32" and "output=f16)" become one policy again.
std::vector<std::string> whole_policies(const std::vector<std::string>& cut);

// Returns the record of a policy of Keras's. The error NotConvertible names a policy to take instead.
Policy policy_of(const KerasPolicy& keras, const Place& place = {});

// Returns a warning, like TensorFlow's, if the policy has a loss scale but computes nothing in float16.
std::optional<std::string> loss_scale_warning(const Policy& policy, const Place& place);

}  // namespace nacre::tools
