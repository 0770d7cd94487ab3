// Writes policies as Keras's JSON for --emit-policy keras=FILE. keras.dtype_policies.deserialize reads it.
//
//   all layers have one policy    (Quantized)DTypePolicy, Int4-, QuantizedFloat8-, GPTQ- or AWQDTypePolicy
//   else                          DTypePolicyMap: default_policy, and in policy_map a key for every layer
//
// A key is the layer's name, with '\' before characters that are special in a regular expression, in (?:..) if another
// layer has that name. If Keras cannot express the policy of one layer, that layer is refused and no file is written.
#pragma once

#include <string>
#include <vector>

#include "tools/policies/keras_policy.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

// Returns the policies in Keras's JSON, after resolve_policies and before any later pass, as policy_json does. The
// default is the base policy if Keras has it, else float32, the policy of a layer without one. If --policy-file reads
// the JSON, the records are the same, except rounding=each and group_range=keras, which the JSON cannot hold. Throws
// PolicyError "NoKerasPolicy" naming the layer, and "SameName" if two layers would have the same key.
Json keras_policies_json(const Graph& resolved, const PolicyRequest& request = {});

// Returns one policy as Keras serializes it.
Json keras_json(const KerasPolicy& policy);

// Returns for each name a regular expression that matches it and no other of the names. No key equals another layer's
// name.
std::vector<std::string> keras_keys(const std::vector<std::string>& names);

}  // namespace nacre::tools
