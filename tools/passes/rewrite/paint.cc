#include "tools/passes/rewrite/paint.h"

#include <algorithm>

#include "tools/base/names.h"
#include "tools/passes/rewrite/ops.h"

namespace nacre::tools {
namespace {

enum class Direction { kForward, kBackward, kBoth };

// Result of a walk. For each unit: the unit from which it was reached, and the root of that path. Both are kNone if it
// was not reached. A root was reached from itself and is its own root.
struct Reached {
  std::vector<int> from, root;

  bool has(int n) const { return from[size_t(n)] != kNone; }
};

// Walks breadth first from `roots` into the units that `enter` accepts. Each unit is reached from its nearest root.
template <class Enter>
Reached walk(const Painting& p, const std::vector<int>& roots, Direction direction, Enter enter) {
  Reached reached = {std::vector<int>(p.units.size(), kNone), std::vector<int>(p.units.size(), kNone)};
  std::vector<int> queue = roots;
  for (const int root : roots) reached.from[size_t(root)] = reached.root[size_t(root)] = root;
  const auto visit = [&](int at, const std::vector<int>& next) {
    for (const int n : next) {
      if (reached.has(n) || !enter(n)) continue;
      reached.from[size_t(n)] = at;
      reached.root[size_t(n)] = reached.root[size_t(at)];
      queue.push_back(n);
    }
  };
  for (size_t i = 0; i < queue.size(); ++i) {
    const int at = queue[i];
    if (direction != Direction::kBackward) visit(at, p.readers[size_t(at)]);
    if (direction != Direction::kForward) visit(at, p.writers[size_t(at)]);
  }
  return reached;
}

template <class Predicate>
std::vector<int> units_that(const Painting& p, Predicate predicate) {
  std::vector<int> found;
  for (const int n : p.order)
    if (predicate(p.units[size_t(n)])) found.push_back(n);
  return found;
}

void paint(Painting& p, int n, Paint color, int step, const std::string& reason) {
  Unit& unit = p.units[size_t(n)];
  unit.paint = color;
  unit.step = step;
  unit.reason = reason;
}

std::vector<int> allow_seeds(const Painting& p) {
  return units_that(p, [](const Unit& u) { return u.on(RewriteList::kAllow) && u.paint == Paint::kAllow; });
}

bool infer_or_clear(const Unit& u) { return u.on(RewriteList::kInfer) || u.on(RewriteList::kClear); }

// ---- The graph as the rewrite sees it

std::string own_name(const Graph& graph, const Node& node) {
  if (!node.name.empty() || node.outputs.empty()) return node.name;
  return graph.values[size_t(node.outputs[0])].name;
}

// Returns the name of each node's layer. Nodes of one layer share its name, so the node's op is added if there are
// others.
std::vector<std::string> unit_names(const Graph& graph) {
  std::vector<int> sizes(graph.layers.size());
  for (const Node& node : graph.nodes)
    if (node.layer != kNone) ++sizes[size_t(node.layer)];
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    names.push_back(node.layer == kNone ? own_name(graph, node) : graph.layers[size_t(node.layer)].name);
    const OpRule* rule = find_rule(node.op);
    const bool several = node.layer != kNone && sizes[size_t(node.layer)] > 1;
    if (several && rule != nullptr) names.back() += std::string(" (") + rule->name + ")";
  }
  return names;
}

// Step 7: returns why a node is not float32, or "": integer values, codes of a quantizer, or a layer that its source
// quantizes at run time. A quantized constant under float activations counts as a float constant.
std::string foreign_values(const Graph& graph, const Node& node) {
  for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs})
    for (const ValueId id : *ids)
      if (id != kNone && !graph.values[size_t(id)].constant() && graph.values[size_t(id)].quantizer)
        return std::string("its values are ") + name_of(graph.values[size_t(id)].quantizer->codes) + " codes";
  if (node.layer != kNone && graph.layers[size_t(node.layer)].policy.quantization != Quantization::kNone)
    return std::string("its source quantizes it: ") + name_of(graph.layers[size_t(node.layer)].policy.quantization);
  // An arg_max and a comparison have the type of their input, in TensorFlow too.
  const bool of_inputs = node.op == Op::kArgMax || node.op == Op::kCompare;
  for (const ValueId id : of_inputs ? node.inputs : node.outputs)
    if (graph.values[size_t(id)].type != ElementType::kFloat32)
      return std::string("its values are ") + name_of(graph.values[size_t(id)].type);
  return "";
}

bool preserved(const Graph& graph, const Node& node, const RewriteOptions& options) {
  const auto named = [&](const std::string& name) {
    return std::find(options.preserve.begin(), options.preserve.end(), name) != options.preserve.end();
  };
  return named(node.name) || (node.layer != kNone && named(graph.layers[size_t(node.layer)].name));
}

Unit make_unit(const Graph& graph, const Node& node, const RewriteLists& lists, const RewriteOptions& options) {
  Unit unit;
  const TensorflowOp op = tensorflow_op(graph, node);
  unit.op = op.name;
  unit.with = op.with;
  unit.refusal = foreign_values(graph, node);
  unit.foreign = !unit.refusal.empty();
  const auto list = lists.find(unit.op);
  if (!unit.foreign && list != lists.end()) unit.list = list->second;
  if (!unit.foreign && preserved(graph, node, options)) unit.refusal = "it is preserved";
  return unit;
}

void link(const Graph& graph, Painting& p) {
  std::vector<int> writer(graph.values.size(), kNone);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId id : graph.nodes[n].outputs) writer[size_t(id)] = int(n);
  for (const int n : p.order) {
    const std::vector<ValueId>& inputs = graph.nodes[size_t(n)].inputs;
    for (size_t slot = 0; slot < inputs.size(); ++slot) {
      const int w = inputs[slot] == kNone ? kNone : writer[size_t(inputs[slot])];
      if (w == kNone) continue;
      if (!has_rewritten_type(graph.nodes[size_t(n)], slot)) {
        p.read_as_float32[size_t(w)] = true;
        continue;
      }
      p.readers[size_t(w)].push_back(n);
      p.writers[size_t(n)].push_back(w);
    }
  }
  for (const Binding& output : graph.outputs)
    if (writer[size_t(output.value)] != kNone) p.gives_output[size_t(writer[size_t(output.value)])] = true;
}

}  // namespace

// Step 1. FusedBatchNorm becomes FusedBatchNormV3: x and y have type T, the parameters type U, which is always
// float32.
bool has_rewritten_type(const Node& node, size_t slot) {
  if (node.op == Op::kCast) return false;
  return node.op != Op::kBatchNorm || slot == 0;
}

Painting make_painting(const Graph& graph, const RewriteLists& lists, const RewriteOptions& options) {
  Painting p;
  const size_t count = graph.nodes.size();
  const std::vector<std::string> names = unit_names(graph);
  for (size_t n = 0; n < count; ++n) {
    p.units.push_back(make_unit(graph, graph.nodes[n], lists, options));
    p.units.back().name = names[n];
    p.order.push_back(int(n));
  }
  const auto first_output = [&](int n) {
    const std::vector<ValueId>& outputs = graph.nodes[size_t(n)].outputs;
    return outputs.empty() ? kNone : outputs[0];
  };
  std::sort(p.order.begin(), p.order.end(), [&](int a, int b) { return first_output(a) < first_output(b); });
  p.readers.resize(count);
  p.writers.resize(count);
  p.gives_output.resize(count);
  p.read_as_float32.resize(count);
  p.after.resize(count, kNone);
  link(graph, p);
  return p;
}

// Step 2 (AddAllowlistOps). Every op of the allow list that may be changed becomes ALLOW, whatever feeds it. At the
// level UNSAFE_FORCE_ALL every op is on that list.
bool seed_allow(Painting& p, bool force_all) {
  bool any = false;
  for (const int n : p.order) {
    Unit& unit = p.units[size_t(n)];
    if (!unit.refusal.empty() || !(force_all || unit.on(RewriteList::kAllow))) continue;
    paint(p, n, Paint::kAllow, 2, unit.on(RewriteList::kAllow) ? "on the allow list" : "forced: every float32 node");
    any = true;
  }
  return any;
}

// Step 3 (PropagateDenyFwdThroughClearAndInfer). With U = deny and infer ops, and clear ops that reach one of these
// through clear ops only:
//
//   DENY = the deny list's ops, and every unit of U that reads a DENY unit
//
// Preserved units take part, because a dangerous op in float32 code also endangers its readers. Nothing is painted
// backward.
void deny_forward(Painting& p) {
  const auto deny = units_that(p, [](const Unit& u) { return u.on(RewriteList::kDeny); });
  const auto numeric =
      units_that(p, [](const Unit& u) { return u.on(RewriteList::kDeny) || u.on(RewriteList::kInfer); });
  const Reached upstream =
      walk(p, numeric, Direction::kBackward, [&](int n) { return p.units[size_t(n)].on(RewriteList::kClear); });
  const Reached denied = walk(p, deny, Direction::kForward, [&](int n) { return upstream.has(n); });
  for (const int n : p.order) {
    if (!denied.has(n)) continue;
    const int before = denied.from[size_t(n)], root = denied.root[size_t(n)];
    const std::string fed = std::string(name_of(p.units[size_t(n)].list)) + ", fed by " + p.units[size_t(before)].name;
    if (root == n) paint(p, n, Paint::kDeny, 3, "on the deny list");
    else if (root == before) paint(p, n, Paint::kDeny, 3, fed + " (deny list)");
    else paint(p, n, Paint::kDeny, 3, fed + " (DENY), after " + p.units[size_t(root)].name + " (deny list)");
  }
}

// Step 4 (AddClearAndInferToAllowIfBetweenAllow). With D = the infer and clear units that are not DENY and can be
// reached from an allow op through such units: ALLOW = D that also reaches an allow op inside D.
void allow_between(Painting& p) {
  const std::vector<int> seeds = allow_seeds(p);
  const Reached down = walk(p, seeds, Direction::kForward, [&](int n) {
    return p.units[size_t(n)].may_allow() && infer_or_clear(p.units[size_t(n)]);
  });
  const Reached up = walk(p, seeds, Direction::kBackward, [&](int n) { return down.has(n); });
  p.after = down.root;
  for (const int n : p.order) {
    if (!up.has(n) || p.units[size_t(n)].paint != Paint::kUnpainted) continue;
    const std::string& first = p.units[size_t(down.root[size_t(n)])].name;
    const std::string& last = p.units[size_t(up.root[size_t(n)])].name;
    const std::string list = name_of(p.units[size_t(n)].list);
    paint(p, n, Paint::kAllow, 4, list + ", between " + first + " and " + last + " (allow list)");
  }
}

// Step 5 (AddInferToAllowIfFollowAllow). An unpainted infer unit that reads an ALLOW unit becomes ALLOW. One pass
// follows chains, because every unit comes after the units that it reads. No such unit reads a DENY unit, because step
// 3 would have painted it.
void allow_after_allow(Painting& p) {
  for (size_t n = 0; n < p.units.size(); ++n) {
    if (!p.units[n].may_allow() || !p.units[n].on(RewriteList::kInfer)) continue;
    for (const int w : p.writers[n]) {
      if (p.units[size_t(w)].paint != Paint::kAllow) continue;
      paint(p, int(n), Paint::kAllow, 5, "infer, fed by " + p.units[size_t(w)].name + " (ALLOW)");
      break;
    }
  }
}

// Step 6 (PropagateAllowThroughClear). ALLOW spreads to unpainted clear units, with and against the data flow.
void allow_through_clear(Painting& p) {
  const auto allow = units_that(p, [](const Unit& u) { return u.paint == Paint::kAllow; });
  const Reached reached = walk(p, allow, Direction::kBoth, [&](int n) {
    return p.units[size_t(n)].may_allow() && p.units[size_t(n)].on(RewriteList::kClear);
  });
  for (const int n : p.order) {
    if (!reached.has(n) || reached.from[size_t(n)] == n) continue;
    paint(p, n, Paint::kAllow, 6, "clear, next to " + p.units[size_t(reached.from[size_t(n)])].name + " (ALLOW)");
  }
}

// Step 9 (MakeCastsAllowIfAllOutputsAllow). A cast to float32 becomes a cast to 16 bits if only ALLOW units read it,
// in slots of the rewritten type, and it is no output.
void allow_casts(const Graph& graph, Painting& p) {
  for (const int n : p.order) {
    const size_t at = size_t(n);
    if (graph.nodes[at].op != Op::kCast || !p.units[at].may_allow()) continue;
    const bool all = std::all_of(p.readers[at].begin(), p.readers[at].end(),
                                 [&](int r) { return p.units[size_t(r)].paint == Paint::kAllow; });
    if (all && !p.readers[at].empty() && !p.gives_output[at] && !p.read_as_float32[at])
      paint(p, n, Paint::kAllow, 9, "a cast to float32 that only ALLOW nodes read");
  }
}

void explain_unpainted(const Graph& graph, Painting& p) {
  for (size_t n = 0; n < p.units.size(); ++n) {
    Unit& unit = p.units[n];
    if (unit.paint != Paint::kUnpainted) continue;
    if (!unit.refusal.empty()) unit.reason = unit.refusal;
    else if (graph.nodes[n].op == Op::kCast) unit.reason = "a cast that not only ALLOW nodes read";
    else if (unit.on(RewriteList::kUnlisted)) unit.reason = (unit.op.empty() ? "its op" : unit.op) + " is on no list";
    else if (unit.on(RewriteList::kClear)) unit.reason = "clear, next to no ALLOW node";
    else if (p.after[n] == kNone) unit.reason = "infer, no allow op before it";
    else unit.reason = "infer, after " + p.units[size_t(p.after[n])].name + " (allow list), but before no allow op";
  }
}

}  // namespace nacre::tools
