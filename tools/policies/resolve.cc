#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/policies/op_filter.h"
#include "tools/policies/policy_fields.h"
#include "tools/policies/policy_map.h"
#include "tools/policies/policy_request.h"
#include "tools/policies/policy_text.h"

namespace nacre::tools {
namespace {

// Most work of matching the rules of one source: instructions of the patterns' automata times characters of the layers'
// names.
constexpr int64_t kMostWork = 1'000'000'000;

// The rules of one source: the policy file, or the command line.
struct RuleSet {
  PolicyMap map;
  std::vector<const PolicyRule*> rules;  // by the index of its key in `map`
};

RuleSet rule_set(const PolicyRequest& request, bool in_file) {
  RuleSet set;
  for (const PolicyRule& rule : request.rules) {
    if (rule.in_file != in_file) continue;
    set.map.insert(rule.pattern, {rule.origin, in_file ? kBadInput : kUsage});
    set.rules.push_back(&rule);
  }
  return set;
}

std::vector<std::string> mended_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Layer& layer : graph.layers) names.push_back(mended(layer.name));
  return names;
}

void check_work(const RuleSet& set, const std::vector<std::string>& names) {
  int64_t characters = 0;
  for (const std::string& name : names) characters += int64_t(name.size()) + 1;
  if (set.map.cost() <= kMostWork / std::max<int64_t>(characters, 1)) return;
  throw PolicyError("TooManyRules", kBadInput, set.rules.front()->origin,
                    fmt::format("matching these patterns against {} layers would take too long", names.size()),
                    "use fewer or simpler patterns, or exact names");
}

std::vector<bool> folded_layers(const Graph& graph) {
  std::vector<bool> folded(graph.layers.size(), true);
  for (const Node& node : graph.nodes)
    if (node.layer != kNone) folded[size_t(node.layer)] = false;
  return folded;
}

void report_unmatched(Graph& graph, const PolicyRule& rule, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest_names(rule.pattern, names);
  const std::string fact = fmt::format("no layer of the network is named {} or matches it", in_quotes(rule.pattern));
  const std::string remedy = near.empty() ? "layers are " + listed(names) + "; a pattern must match the whole name"
                                          : "did you mean " + alternatives(near) + "?";
  if (!rule.of_keras) throw PolicyError("NoSuchLayer", rule.in_file ? kBadInput : kUsage, rule.origin, fact, remedy);
  graph.log.push_back(fmt::format("policy rule {}: {}; {}", rule.origin, fact, remedy));
}

// Returns the options that keep a layer apart from the layers that simplify would fold it into.
std::string kept_apart() {
  return fmt::format("{} keeps batch norms apart, {} gelu,silu,hard_swish activations", option("no-fold-bn"),
                     option("keep"));
}

// Throws if a rule matches no layer, except that a key of Keras's map may match none. A rule that matches only layers
// that passes folded has no effect. The log tells of a key without a layer and of a rule without effect.
void report_hits(Graph& graph, const RuleSet& set, const std::vector<std::string>& names) {
  const std::vector<bool> folded = folded_layers(graph);
  std::vector<std::vector<size_t>> hits(set.rules.size());
  for (size_t i = 0; i < names.size(); ++i)
    for (const size_t rule : set.map.matches(names[i])) hits[rule].push_back(i);
  for (size_t r = 0; r < hits.size(); ++r) {
    if (hits[r].empty()) {
      report_unmatched(graph, *set.rules[r], names);
      continue;
    }
    if (!std::ranges::all_of(hits[r], [&](size_t i) { return folded[i]; })) continue;
    std::vector<std::string> hit;
    for (const size_t i : hits[r]) hit.push_back(names[i]);
    graph.log.push_back(fmt::format("policy rule {} hits only layers that were folded: {}; {}", set.rules[r]->origin,
                                    listed(hit), kept_apart()));
  }
}

// Gives a layer the policy of its Keras file, unless a graph rewrite gave it one. In a DTypePolicyMap an entry of the
// layer's name wins over patterns, and other layers get the default.
void read_source_policy(const Graph& graph, Layer& layer) {
  if (layer.source_policy.empty() || layer.asked) return layer.source_policy.clear();
  PolicyRequest request;
  const std::string place = graph.source + ": " + layer.name;
  read_policy_object(Json::parse(layer.source_policy), place, "float32", request);
  for (PolicyRule& rule : request.rules) rule.in_file = true;
  const RuleSet set = rule_set(request, true);
  const std::optional<size_t> hit = set.map.find(mended(layer.name));
  if (hit) {
    layer.policy = set.rules[*hit]->policy;
    layer.names_loss_scale = set.rules[*hit]->names_loss_scale;
  } else if (request.base) {
    layer.policy = *request.base;
    layer.names_loss_scale = request.base_names_loss_scale;
  }
  layer.asked = hit.has_value() || request.base.has_value();
}

void apply_rules(Graph& graph, const RuleSet& set, const std::vector<std::string>& names,
                 const std::vector<Layer>& source) {
  static const Policy kPlain;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<size_t> hit = set.map.find(names[i]);
    if (!hit) continue;
    const PolicyRule& rule = *set.rules[*hit];
    const bool own = !source[i].source_policy.empty();
    const Policy& of_file = source[i].asked && !own ? kPlain : source[i].policy;  // asked: a rewrite set it
    graph.layers[i].policy = rule.source ? of_file : rule.policy;
    graph.layers[i].asked = rule.source ? own && source[i].asked : true;
    graph.layers[i].names_loss_scale = rule.source ? own && source[i].names_loss_scale : rule.names_loss_scale;
  }
}

// Logs the layers that --only or --except names but a pass folded into another layer: they have that layer's policy.
void report_folded(Graph& graph, const PolicyRequest& request, const OpFilter& filter) {
  if (request.filter_origin.empty()) return;
  const std::vector<bool> folded = folded_layers(graph);
  std::vector<std::string> named;
  for (size_t i = 0; i < graph.layers.size(); ++i)
    if (folded[i] && filter.takes(graph, int(i)) == request.except.empty()) named.push_back(graph.layers[i].name);
  if (named.empty()) return;
  graph.log.push_back(fmt::format("policy: {} names layers that were folded into others and have their policy: {}; {}",
                                  request.filter_origin, listed(named), kept_apart()));
}

void apply_base(Graph& graph, const PolicyRequest& request) {
  const Place place = {request.filter_origin, kUsage};
  for (const auto* names : {&request.only, &request.except})
    for (const std::string& name : *names) check_op_name(graph, name, place);
  const OpFilter filter(request.only, request.except);
  report_folded(graph, request, filter);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    Layer& layer = graph.layers[i];
    if ((layer.asked && layer.source_policy.empty()) || !filter.takes(graph, int(i))) continue;
    layer.policy = *request.base;
    layer.asked = true;
    layer.names_loss_scale = request.base_names_loss_scale;
  }
}

// Returns a record as JSON. Leaves out the loss scale of a float16 record that names none, because a file that says
// "none" would ask for a training without a loss scale.
Json record_json(const Policy& policy, bool names_loss_scale) {
  Json record = {{"policy", policy_text(policy)}};
  for (const PolicyField& field : policy_fields())
    if (names_loss_scale || policy.compute != ElementType::kFloat16 || std::string_view(field.key) != "loss_scale")
      record[field.key] = field.get(policy);
  return record;
}

}  // namespace

void resolve_policies(Graph& graph, const PolicyRequest& request) {
  if (graph.resolved) return;
  for (const std::string& warning : request.warnings) graph.log.push_back("policy: " + warning);
  const std::vector<std::string> names = mended_names(graph);
  for (Layer& layer : graph.layers) read_source_policy(graph, layer);
  const std::vector<Layer> source = graph.layers;
  if (request.base) apply_base(graph, request);
  for (const bool in_file : {true, false}) {
    const RuleSet set = rule_set(request, in_file);
    if (set.rules.empty()) continue;
    check_work(set, names);
    report_hits(graph, set, names);
    apply_rules(graph, set, names, source);
  }
  graph.resolved = true;
}

void check_against_rewrite(const PolicyRequest& request, const std::string& rewrite) {
  if (!request.base) return;
  throw PolicyError("Contradiction", kUsage, rewrite + " and " + request.base_origin,
                    "contradict each other: both give every layer its policy",
                    "keep one of them, or give some layers a policy with " + option("set", "PATTERN=POLICY"));
}

void check_loss_scale_numbers(const PolicyRequest& request) {
  if (request.base_loss_scale_numbers.empty()) return;
  throw PolicyError("NotConvertible", kUnsupported, request.base_origin,
                    fmt::format("its dynamic loss scale has numbers of its own, {}, and the policy file that is to be "
                                "written holds none",
                                request.base_loss_scale_numbers),
                    "name the loss scale \"dynamic\" there, and give " +
                        option("loss-scale", "dynamic" + request.base_loss_scale_numbers) + " in training");
}

Json policy_json(const Graph& resolved, const PolicyRequest& request) {
  check_loss_scale_numbers(request);
  Json layers = Json::object();
  for (const Layer& layer : resolved.layers)
    layers[mended(layer.name)] = layer.asked ? record_json(layer.policy, layer.names_loss_scale) : Json("source");
  return {{"default", request.base ? record_json(*request.base, request.base_names_loss_scale) : Json("source")},
          {"layers", layers}};
}

}  // namespace nacre::tools
