// The policies that the user asks for, read from options of the command line and from a policy file:
//
//   --policy POLICY            for every layer (--only OPS, --except OPS: for some, by op)
//   --policy-file F.json       Keras's JSON of any policy class, or Nacre's own object, all keys optional:
//                                {"default": policy, "layers": {NAME or PATTERN: policy, ...},
//                                 "only": [OP, ...], "except": [OP, ...]}
//                              where a policy is a name or {"policy": name, FIELD: value, ...} or Keras's object
//   --set PATTERN=POLICY       for the layers of this name, or that match it as a whole
//
// A later source overrides an earlier one, in this order. But it is an error if both --policy and the file give a
// policy for every layer. Within one source an exact name wins over patterns, and two patterns that match one layer are
// an error (policy_map.h).
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
  std::string text, origin;       // the policy as written; its place: "--set 'dense.*=int8'", "F.json: $.layers.fc1"
  bool source = false;            // the layer stays as the network's file has it
  bool in_file = false;           // the rule is from the policy file, so rules of the command line override it
  bool names_loss_scale = false;  // ParsedPolicy::names_loss_scale
  bool of_keras = false;          // a key of a DTypePolicyMap: if it matches no layer, the log says so
};

struct PolicyRequest {
  std::optional<Policy> base;  // nullopt if layers without a rule stay as the network's file has them
  std::string base_text, base_origin;
  bool base_names_loss_scale = false;
  std::string base_loss_scale_numbers;  // TfLossScale::numbers
  std::vector<PolicyRule> rules;
  std::vector<std::string> only, except;  // ops that the base policy applies to, or does not apply to
  std::string filter_origin;
  std::vector<std::string> warnings;

  bool empty() const { return !base && rules.empty() && only.empty() && except.empty(); }
};

struct PolicyArguments {
  std::string policy = {};             // --policy
  std::vector<std::string> set = {};   // --set, each PATTERN=POLICY
  std::string file = {};               // --policy-file
  std::vector<std::string> only = {};  // --only and --except, each a name or several with commas between
  std::vector<std::string> except = {};
};

// Reads the options. Throws PolicyError or Error naming the option, or the file and the path in it.
PolicyRequest parse_policy_options(const PolicyArguments& arguments);

// Adds the policies in the JSON of a policy file. `name` is the file's, `global` the name of Keras's global policy.
void read_policy_object(const Json& json, const std::string& name, const std::string& global, PolicyRequest& request);

// Sets `policy` and `asked` of layers, from their Keras file, the base policy and the rules, in this order. Throws if a
// rule matches no layer, if two patterns of one source match one layer, or if no layer has an op of --only or --except.
// Two cases only go to graph.log: a key of a DTypePolicyMap that matches no layer, which Keras ignores too, and a rule
// that matches only layers that other passes folded. The base policy does not apply to a layer that a graph rewrite
// gave a policy (asked); rules do. A second call on the same graph does nothing.
void resolve_policies(Graph& graph, const PolicyRequest& request);

// Refuses a graph rewrite beside a base policy, because the rewrite gives every layer a policy and the base would apply
// to none. `rewrite` is the rewrite as the user wrote it: "--rewrite mixed_float16".
void check_against_rewrite(const PolicyRequest& request, const std::string& rewrite);

// Throws if the base policy's dynamic loss scale has numbers of its own, because a policy file cannot hold them.
void check_loss_scale_numbers(const PolicyRequest& request);

// Returns the policy file that --emit-policy writes, after resolve_policies and before later passes. It holds the
// default, and for every layer, by its exact name, its fields or "source". If --policy-file reads it for the same
// network, the records are the same.
Json policy_json(const Graph& resolved, const PolicyRequest& request = {});

}  // namespace nacre::tools
