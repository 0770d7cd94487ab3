// Policies as Keras writes them into .keras files (config.json, key "dtype" of a layer):
//
//   "mixed_bfloat16"                                                                       a bare name
//   {"class_name": C, "config": {...}, "module": ..., "registered_name": ..., "shared_object_id": ...}
//
//   C                                              config
//   DTypePolicy, FloatDTypePolicy                  {"name"}
//   QuantizedDTypePolicy, Int4DTypePolicy,
//   GPTQ-, AWQ-, TernaryDTypePolicy                {"mode", "source_name"}
//   QuantizedFloat8DTypePolicy                     {"mode", "source_name", "amax_history_length"}
//   DTypePolicyMap                                 {"default_policy", "policy_map": {name or pattern: policy}}
//   Policy, PolicyV1 (tf.keras)                    {"name", "loss_scale"}: see tf_loss_scale.h
//
// module, registered_name and shared_object_id say how Python finds the class: they are not read. A null name,
// source_name or default_policy is the global policy. A default that is a map stands for its own default: Keras's
// constructor refuses such a map and its deserialize takes it, and the entries in it are then those of no layer.
// Everything unexpected is an error that says where it stands.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/base/print.h"
#include "tools/policies/keras_policy.h"

namespace nacre::tools {

struct KerasObject {
  std::optional<KerasPolicy> policy;  // of a map: its default; nothing: the global policy
  bool map = false;
  std::vector<std::pair<std::string, KerasPolicy>> entries;  // of a map, in order
  std::vector<std::string> warnings;                         // lines for the log
};

// `global` is the name of the global policy. Throws PolicyError, labelled as parse_keras_policy, and UnknownClass,
// UnknownField, MissingField, WrongType, NameNotString, AmaxLengthNotInt, MapInMap.
KerasObject read_keras_json(const Json& json, const Place& place, const std::string& global = "float32");

}  // namespace nacre::tools
