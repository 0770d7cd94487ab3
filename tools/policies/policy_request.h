// The user's choice of a network's numbers, from the options of the command line and a policy file:
//
//   --policy POLICY            for every layer (--only OPS, --except OPS: for some, by op)
//   --policy-file F.json       Keras's JSON of any policy class, or Nacre's own object, all keys optional:
//                                {"default": policy, "layers": {NAME or PATTERN: policy, ...},
//                                 "only": [OP, ...], "except": [OP, ...]}
//                              where a policy is a name or {"policy": name, FIELD: value, ...} or Keras's object
//   --set PATTERN=POLICY       for the layers of this name, or that match it as a whole
//
// A later source overrides an earlier one, in this order; only two policies for every layer, from --policy and from
// the file, are an error. Within one source an exact name goes before patterns, and two patterns that match one layer
// are an error (policy_map.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/numeric/policy.h"
#include "tools/base/print.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

struct PolicyRule {
  std::string pattern;
  Policy policy;
  std::string text, origin;       // as written; "--set 'dense.*=int8_from_float32'", "F.json: $.layers['dense.*']"
  bool source = false;            // the layer stays as the file has it
  bool in_file = false;           // of the policy file: overwritten by rules of the command line
  bool names_loss_scale = false;  // ParsedPolicy
  bool of_keras = false;          // a key of a DTypePolicyMap: where it matches no layer the log says so
};

struct PolicyRequest {
  std::optional<Policy> base;  // nothing: layers without a rule stay as the network's file has them
  std::string base_text, base_origin;
  bool base_names_loss_scale = false;
  std::string base_loss_scale_numbers;  // TfLossScale::numbers
  std::vector<PolicyRule> rules;
  std::vector<std::string> only, except;  // ops that the base is for, or not for
  std::string filter_origin;
  std::vector<std::string> warnings;

  bool empty() const { return !base && rules.empty() && only.empty() && except.empty(); }
};

struct PolicyArguments {
  std::string policy = {};             // --policy
  std::vector<std::string> set = {};   // --set, each PATTERN=POLICY, split at the first '='
  std::string file = {};               // --policy-file
  std::vector<std::string> only = {};  // --only and --except, each a name or several with commas between
  std::vector<std::string> except = {};
};

// Throws PolicyError or Error naming the option, or the file and the path in it.
PolicyRequest parse_policy_options(const PolicyArguments& arguments);

// Adds what the JSON of a policy file says. `name`: of the file. `global`: the name of Keras's global policy.
void read_policy_object(const Json& json, const std::string& name, const std::string& global, PolicyRequest& request);

// Sets policy and asked of every layer that a rule or the base is for. Throws for a rule that matches no layer of the
// source, for a layer that two rules match, for an op that no layer is. graph.log reports keys of a DTypePolicyMap that
// match none, of which Keras says nothing, and rules that hit only layers which other passes folded. The base leaves
// layers that a rewrite painted (asked) alone; rules do not. A graph is resolved once: a second call does nothing.
void resolve_policies(Graph& graph, const PolicyRequest& request);

// Refuses a graph rewrite (`rewrite` as the user wrote it: "--rewrite mixed_float16") beside a base policy: the rewrite
// gives every layer a policy, so the base would be that of none.
void check_against_rewrite(const PolicyRequest& request, const std::string& rewrite);

// Refuses to write a policy file without the numbers of a dynamic loss scale.
void check_loss_scale_numbers(const PolicyRequest& request);

// Returns the policy file that --emit-policy writes, after resolve_policies and before later passes: the default, and
// every layer by its exact name with all fields, or "source". Read by --policy-file, it gives the same records for the
// same network.
Json policy_json(const Graph& resolved, const PolicyRequest& request = {});

}  // namespace nacre::tools
