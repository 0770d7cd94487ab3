// One policy as text, in any of the languages that people know, made into the record of the engine:
//
//   policy := name (";" FIELD "=" VALUE)*
//   name   := what Keras takes (keras_policy.h)
//           | "int8/static_from_S" | "int8/full_from_S" | "int8/weights_from_S"
//           | "float8/H_from_S" | "float8/current_from_S"
//           | jmp: "jmp(params=T,compute=T,output=T)" | half | full | f16 | bf16 | f32 | f64
//           | Axon: "axon(params=T,compute=T,output=T)"       what is not given is float32; T also {:f, 16} and :f16,
//                                                          "=" also ": ", spaces are skipped
//           | "params=T,compute=T,output=T"                   as jmp; warns where Axon reads something else
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
  bool source = false;                // "source": there is no record
  bool names_loss_scale = false;      // the text says one, be it none; else what the record holds is a default
  std::string loss_scale_numbers;     // TfLossScale::numbers
  std::string text;                   // as written
  std::vector<std::string> warnings;  // lines for the log
};

// Throws PolicyError. Beside Keras's labels: BadHistoryLength, UnknownKey, UnknownType, NotKeyValue (jmp),
// UnknownField, BadField, Contradiction, and NotConvertible for what Keras takes and no layer here can run.
ParsedPolicy parse_policy(const std::string& text, const Place& place = {});

// Policies of a list that was cut at its commas: "axon(params=f32" and "output=f16)" become one again.
std::vector<std::string> whole_policies(const std::vector<std::string>& cut);

// The record of a policy that Keras took; NotConvertible names what to take instead.
Policy policy_of(const KerasPolicy& keras, const Place& place = {});

// Warns, as TensorFlow does, of a loss scale where nothing is computed in float16.
std::optional<std::string> loss_scale_warning(const Policy& policy, const Place& place);

}  // namespace nacre::tools
