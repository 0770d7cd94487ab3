// Policies in Keras's JSON, which keras.dtype_policies.deserialize takes: what --emit-policy keras=FILE writes.
//
//   all layers have one policy    DTypePolicy, QuantizedDTypePolicy, Int4DTypePolicy or QuantizedFloat8DTypePolicy
//   else                          DTypePolicyMap: default_policy, and in policy_map a key for every layer
//
// A key is the layer's name, with '\' before what a regular expression takes in another sense. A policy of a layer that
// Keras has no words for is refused: the file says all or is not written.
#pragma once

#include <string>
#include <vector>

#include "tools/policies/keras_policy.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

// Returns the policies in Keras's JSON, after resolve_policies and before any later pass, as policy_json does. The
// default is the base policy if Keras has it, else float32, in which a layer without a policy computes. Read by
// --policy-file, the JSON gives the same records. Throws PolicyError "NoKerasPolicy" naming the layer, and "SameName"
// if two layers would have one key.
Json keras_policies_json(const Graph& resolved, const PolicyRequest& request = {});

// One policy as Keras serializes it.
Json keras_json(const KerasPolicy& policy);

// For each name a regular expression that it alone matches, of all names; no key is the name of another layer.
std::vector<std::string> keras_keys(const std::vector<std::string>& names);

}  // namespace nacre::tools
