#include "tools/passes/rewrite/rewrite.h"

#include <algorithm>
#include <set>

#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/passes/rewrite/paint.h"

namespace nacre::tools {
namespace {

constexpr const char* kAsSource = "as its source";

std::string remedy_of(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = alternatives(nearest_names(name, known));
  return near.empty() ? "nacre convert NETWORK " + option("stop-after", "import") + " prints the layers"
                      : "did you mean " + near + "?";
}

void check_options(const Graph& graph, const RewriteOptions& options) {
  if (options.type != ElementType::kFloat16 && options.type != ElementType::kBfloat16)
    throw Error(kUsage, option("rewrite"), std::string("mixed_") + name_of(options.type) + " is not possible",
                "give mixed_float16 or mixed_bfloat16");
  std::set<std::string> names;
  for (const Layer& layer : graph.layers) names.insert(layer.name);
  for (const Node& node : graph.nodes) names.insert(node.name);
  const std::vector<std::string> list(names.begin(), names.end());
  for (const std::string& name : options.preserve)
    if (!names.contains(name))
      throw Error(kUsage, option("preserve"), "the network has no layer " + in_quotes(name), remedy_of(name, list));
}

bool does_step_5(const RewriteOptions& options) {
  return options.infer_after_allow || (options.type == ElementType::kBfloat16 && options.tf2_lists);
}

// Does steps 2 to 6 and 9, if the options ask for them. Returns false if there is no allow op.
bool paint_graph(const Graph& graph, const RewriteOptions& options, Painting& p) {
  const bool force_all = options.level == RewriteLevel::kUnsafeForceAll;
  if (!seed_allow(p, force_all)) return false;
  if (!force_all) deny_forward(p);
  allow_between(p);
  if (does_step_5(options)) allow_after_allow(p);
  allow_through_clear(p);
  allow_casts(graph, p);
  return true;
}

// Returns the weight of a node in its layer's decision, by its numeric class. A move or a cast weighs least.
int strength(const Node& node) {
  constexpr int kStrength[] = {4, 2, 3, 1};  // kMatmul, kPointwise, kReduction, kMove
  const OpRule* rule = find_rule(node.op);
  return rule == nullptr || node.op == Op::kCast ? 0 : kStrength[size_t(rule->numerics)];
}

// Returns the node that decides for each layer: among those of the strongest class the first that is not ALLOW, else
// the first. A node of codes or integers comes before all others.
std::vector<int> deciding_nodes(const Graph& graph, const Painting& p) {
  std::vector<int> deciding(graph.layers.size(), kNone);
  const auto rank = [&](int n) {
    const Unit& unit = p.units[size_t(n)];
    return std::make_pair(unit.foreign ? 5 : strength(graph.nodes[size_t(n)]), unit.paint != Paint::kAllow);
  };
  for (const int n : p.order) {
    if (graph.nodes[size_t(n)].layer == kNone) continue;
    int& at = deciding[size_t(graph.nodes[size_t(n)].layer)];
    if (at == kNone || rank(n) > rank(at)) at = n;
  }
  return deciding;
}

std::string runs_as(const Unit& deciding, const RewriteOptions& options) {
  if (deciding.foreign) return kAsSource;
  return deciding.paint == Paint::kAllow ? rewrite_name(options) : name_of(ElementType::kFloat32);
}

void set_policies(Graph& graph, const Painting& p, const std::vector<int>& deciding, const RewriteOptions& options) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const Unit* unit = deciding[i] == kNone ? nullptr : &p.units[size_t(deciding[i])];
    if (unit != nullptr && unit->foreign) continue;
    const bool mixed = unit != nullptr && unit->paint == Paint::kAllow;
    graph.layers[i].policy = mixed ? mixed_policy(options.type) : Policy();
    graph.layers[i].asked = true;
  }
}

RewriteDecision decision_of(const Graph& graph, const Painting& p, int n, int deciding, const std::string& runs) {
  const Node& node = graph.nodes[size_t(n)];
  const Unit& unit = p.units[size_t(n)];
  const OpRule* rule = find_rule(node.op);
  RewriteDecision d;
  d.layer = node.layer == kNone ? "" : graph.layers[size_t(node.layer)].name;
  d.node = unit.name;
  d.op = rule != nullptr ? rule->name : "";
  d.tensorflow_op = unit.op + unit.with;
  d.list = unit.list;
  d.paint = unit.paint;
  d.step = unit.step;
  d.reason = unit.reason;
  d.runs_as = runs;
  d.foreign = unit.foreign;
  d.decides = deciding == n;
  if (deciding != n && p.units[size_t(deciding)].paint != unit.paint)
    d.reason += "; runs as " + p.units[size_t(deciding)].name + ", which decides for the layer";
  return d;
}

// Returns whether the node runs in 16 bits, as a mixed layer.
bool runs_mixed(const RewriteDecision& d) { return d.runs_as.starts_with("mixed_"); }

struct Casts {
  int down = 0, up = 0;  // to 16 bits, to float32; casts of constants do not count
};

// Counts one cast at each value that has readers on the other side, as TensorFlow does.
Casts count_casts(const Graph& graph, const std::vector<RewriteDecision>& decisions) {
  enum : uint8_t { kByMixed = 1, kByFloat32 = 2 };
  std::vector<uint8_t> read(graph.values.size()), written(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size() && n < decisions.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const bool mixed = runs_mixed(decisions[n]) && has_rewritten_type(node, slot);
      if (node.inputs[slot] != kNone) read[size_t(node.inputs[slot])] |= mixed ? kByMixed : kByFloat32;
    }
    for (const ValueId id : node.outputs) written[size_t(id)] = runs_mixed(decisions[n]) ? 1 : 0;
  }
  for (const Binding& output : graph.outputs) read[size_t(output.value)] |= kByFloat32;
  Casts casts;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.constant() || value.type != ElementType::kFloat32) continue;
    if (written[id] == 0 && (read[id] & kByMixed) != 0) ++casts.down;
    if (written[id] != 0 && (read[id] & kByFloat32) != 0) ++casts.up;
  }
  return casts;
}

std::string of(int part, size_t whole) { return std::to_string(part) + " of " + std::to_string(whole); }

}  // namespace

const char* name_of(Paint paint) {
  constexpr const char* kNames[] = {"-", "ALLOW", "DENY"};
  return kNames[size_t(paint)];
}

std::string rewrite_name(const RewriteOptions& options) { return std::string("mixed_") + name_of(options.type); }

// Variables stay float32. Training in float16 needs a loss scale, and the rewrite's default is a dynamic one.
Policy mixed_policy(ElementType type) {
  return {.variable = ElementType::kFloat32,
          .compute = type,
          .output = type,
          .loss_scale = type == ElementType::kFloat16 ? LossScale::kDynamic : LossScale::kNone};
}

std::vector<RewriteDecision> rewrite_mixed(Graph& graph, const RewriteOptions& options) {
  check_options(graph, options);
  const RewriteLists lists = rewrite_lists(options.type, options.tf2_lists, options.level, options.edits);
  Painting p = make_painting(graph, lists, options);
  const bool painted = paint_graph(graph, options, p);
  explain_unpainted(graph, p);
  const std::vector<int> deciding = deciding_nodes(graph, p);
  std::vector<RewriteDecision> decisions;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const int layer = graph.nodes[n].layer, decider = layer == kNone ? int(n) : deciding[size_t(layer)];
    const std::string runs = painted && layer != kNone ? runs_as(p.units[size_t(decider)], options) : kAsSource;
    decisions.push_back(decision_of(graph, p, int(n), decider, runs));
  }
  if (painted) set_policies(graph, p, deciding, options);
  // TensorFlow's lists decide the type of every step, so no ALLOW node stays wide.
  for (size_t n = 0; painted && n < graph.nodes.size(); ++n)
    if (p.units[n].paint == Paint::kAllow) graph.nodes[n].wide = false;
  graph.log.push_back("rewrite: " + rewrite_summary(graph, options, decisions));
  return decisions;
}

std::string rewrite_summary(const Graph& graph, const RewriteOptions& options,
                            const std::vector<RewriteDecision>& decisions) {
  const std::string name = rewrite_name(options), level = name_of(options.level);
  const std::string what =
      name + ", lists of " + (options.tf2_lists ? "tf2" : "tf1") + (level.empty() ? "" : ", " + level) + ": ";
  int painted[3] = {}, foreign = 0;  // by Paint; nodes of codes or integers
  std::set<std::string> layers, mixed;
  for (const RewriteDecision& d : decisions) {
    ++painted[size_t(d.paint)];
    foreign += d.foreign ? 1 : 0;
    layers.insert(d.layer);
    if (runs_mixed(d)) mixed.insert(d.layer);
  }
  const auto [none, allow, deny] = painted;
  if (allow == 0)
    return what + "no float32 node is of an op on the allow list, so nothing is rewritten" +
           (foreign == 0 ? "" : " (" + of(foreign, decisions.size()) + " nodes are of codes or integers)");
  const Casts casts = count_casts(graph, decisions);
  return what + of(allow, decisions.size()) + " nodes ALLOW, " + std::to_string(deny) + " DENY, " +
         std::to_string(none) + " not painted; " + of(int(mixed.size()), layers.size()) + " layers run in " + name +
         "; values cast to " + name_of(options.type) + ": " + std::to_string(casts.down) +
         ", to float32: " + std::to_string(casts.up);
}

}  // namespace nacre::tools
