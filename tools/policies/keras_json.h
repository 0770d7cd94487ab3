// Reads policies as Keras writes them into .keras files (config.json, key "dtype" of a layer):
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
// module, registered_name and shared_object_id tell Python where the class is, and are not read. If name, source_name
// or default_policy is null, the global policy takes its place. If a map's default is a map itself, the default of that
// map counts. Keras's constructor refuses such a map, but its deserialize takes it. The entries of the inner map apply
// to no layer. Unknown keys and values of a wrong type are errors that name their position in the file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/base/print.h"
#include "tools/policies/keras_policy.h"

namespace nacre::tools {

struct KerasObject {
  std::optional<KerasPolicy> policy;  // the default if the object is a map; nullopt stands for the global policy
  bool map = false;
  std::vector<std::pair<std::string, KerasPolicy>> entries;  // entries of a map, in the file's order
  std::vector<std::string> warnings;                         // lines for the log
};

// Reads a policy object. `global` is the name of the global policy. Throws PolicyError with the labels of
// parse_keras_policy, or UnknownClass, UnknownField, MissingField, BadField, WrongType, NameNotString,
// AmaxLengthNotInt, MapInMap.
KerasObject read_keras_json(const Json& json, const Place& place, const std::string& global = "float32");

}  // namespace nacre::tools
