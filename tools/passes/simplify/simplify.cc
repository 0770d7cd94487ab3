#include "tools/passes/simplify/simplify.h"

#include <algorithm>

#include "tools/graph/batch.h"
#include "tools/graph/operands.h"
#include "tools/model/model_limits.h"

namespace nacre::tools {

Rewriter::Rewriter(Graph& g, bool keep_shared)
    : graph(g), keep_shared_(keep_shared), uses_(g.values.size()), origins_(g.values.size(), kNone) {
  for (Node& node : g.nodes) nodes.push_back(std::move(node));
  g.nodes.clear();
  for (Place p = nodes.begin(); p != nodes.end(); ++p) attach(p);
  for (const Binding& b : g.inputs) uses_[size_t(b.value)].input = true;
  for (const Binding& b : g.outputs) uses_[size_t(b.value)].output = true;
}

void Rewriter::finish() {
  sweep();
  for (Node& node : nodes) graph.nodes.push_back(std::move(node));
  nodes.clear();
  remove_dead_values(graph, origins_);
}

Node* Rewriter::writer(ValueId id) { return uses_[size_t(id)].written ? &*uses_[size_t(id)].writer : nullptr; }

bool Rewriter::only_reader(ValueId id, const Node& node) const {
  const Uses& uses = uses_[size_t(id)];
  return uses.readers.size() == 1 && uses.readers[0] == &node && !uses.output;
}

bool Rewriter::shared(ValueId id) const {
  const Value& v = value(id);
  const bool real = v.constant() && (v.stored == ElementType::kFloat32 || v.quantizer);
  return keep_shared_ && real && (v.keeps_steps || (v.elements() > 1 && uses_[size_t(id)].readers.size() > 1));
}

ValueId Rewriter::add_value(Value v, ValueId origin) {
  uses_.emplace_back();
  origins_.push_back(origin);
  return graph.add(std::move(v));
}

void Rewriter::attach(Place place) {
  for (const ValueId id : place->inputs)
    if (id != kNone) uses_[size_t(id)].readers.push_back(&*place);
  for (const ValueId id : place->outputs) {
    uses_[size_t(id)].writer = place;
    uses_[size_t(id)].written = true;
  }
}

void Rewriter::detach(Node& node) {
  for (const ValueId id : node.inputs) {
    if (id == kNone) continue;
    std::vector<Node*>& readers = uses_[size_t(id)].readers;
    const auto found = std::find(readers.begin(), readers.end(), &node);
    if (found != readers.end()) readers.erase(found);
  }
  for (const ValueId id : node.outputs)
    if (writer(id) == &node) uses_[size_t(id)].written = false;
}

Rewriter::Place Rewriter::place_of_node(Node& node) {
  if (!node.outputs.empty() && writer(node.outputs[0]) == &node) return uses_[size_t(node.outputs[0])].writer;
  return std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return &n == &node; });
}

Node& Rewriter::insert_after_writer(ValueId id, Node inserted) {
  const Place before = writer(id) == nullptr ? nodes.begin() : std::next(uses_[size_t(id)].writer);
  const Place place = nodes.insert(before, std::move(inserted));
  attach(place);
  return *place;
}

void Rewriter::remove(Node& node) {
  detach(node);
  node = Node();
}

void Rewriter::set_input(Node& node, size_t slot, ValueId id) {
  const Place place = place_of_node(node);
  detach(node);
  if (slot >= node.inputs.size()) node.inputs.resize(slot + 1, kNone);
  node.inputs[slot] = id;
  attach(place);
}

void Rewriter::set_output(Node& node, size_t slot, ValueId id) {
  const Place place = place_of_node(node);
  detach(node);
  node.outputs[slot] = id;
  attach(place);
}

void Rewriter::keep_first_output(Node& node) {
  const Place place = place_of_node(node);
  detach(node);
  node.outputs.resize(1);
  attach(place);
}

void Rewriter::replace_reads(ValueId from, ValueId to) {
  const std::vector<Node*> readers = uses_[size_t(from)].readers;
  for (Node* node : readers)
    for (size_t slot = 0; slot < node->inputs.size(); ++slot)
      if (node->inputs[slot] == from) set_input(*node, slot, to);
}

bool Rewriter::bypass(Node& node, ValueId x) {
  const ValueId y = node.outputs[0];
  if (!is_output(y)) {
    remove(node);
    replace_reads(y, x);
    return true;
  }
  // The output keeps its value. The node that writes x writes it instead.
  Node* source = writer(x);
  if (source == nullptr || is_output(x)) return false;
  const auto slot = std::find(source->outputs.begin(), source->outputs.end(), x) - source->outputs.begin();
  remove(node);
  replace_reads(x, y);
  set_output(*source, size_t(slot), y);
  return true;
}

void Rewriter::sweep() {
  nodes.remove_if([](const Node& node) { return node.op == Op::kNone; });
}

std::string title(const Rewriter& r, const Node& node) {
  const std::string& source = r.graph.source;
  const std::string place = place_of(r.graph, node);
  return source.empty() ? place : place.substr(source.size() + 2);
}

void take_training_flags(Value& made, std::span<const Value* const> sources) {
  bool any = false, fixed = true, trains = false, variable = false;
  for (const Value* v : sources) {
    if (!is_float_type(v->stored) && !v->quantizer) continue;
    any = true;
    fixed = fixed && v->fixed;
    trains = trains || (!v->fixed && !v->frozen);
    variable = variable || v->variable;
  }
  made.fixed = any && fixed;
  made.frozen = any && !fixed && !trains;
  made.variable = variable;
}

bool same_quantizer(const Value& a, const Value& b) {
  if (!a.quantizer || !b.quantizer) return !a.quantizer && !b.quantizer;
  const Quantizer &p = *a.quantizer, &q = *b.quantizer;
  return p.codes == q.codes && p.scale == q.scale && p.zero == q.zero && (p.scale.size() == 1 || p.axis == q.axis);
}

namespace {

// Applies one rule to every node. Returns whether any changed.
template <class Rule>
bool each_node(Rewriter& r, Rule rule) {
  bool changed = false;
  for (auto place = r.nodes.begin(); place != r.nodes.end(); ++place)
    while (place->op != Op::kNone && rule(*place)) changed = true;
  r.sweep();
  return changed;
}

bool apply_rules(Rewriter& r, const SimplifyOptions& options) {
  bool changed = each_node(r, [&](Node& node) {
    return fold_constants(r, node) || share_quantizer(r, node) || simplify_transpose(r, node) ||
           absorb_transpose(r, node) || delay_transpose(r, node) || simplify_reshape(r, node) ||
           (options.fold_gelu && fold_gelu(r, node)) || (options.fold_silu && fold_silu(r, node)) ||
           (options.fold_hard_swish && fold_hard_swish(r, node)) ||
           (options.fold_batch_norm && fold_batch_norm(r, node)) || fold_channel_arithmetic(r, node, options);
  });
  changed = remove_dead_nodes(r) || changed;
  return changed;
}

}  // namespace

void simplify(Graph& graph, const SimplifyOptions& options) {
  Rewriter r(graph, options.keep_shared);
  // This ends: every rule removes a node or bytes that transposes move, brings transposes nearer to the border, or
  // gives them fewer axes. The bound guards against a mistake in that argument. Such a mistake then costs a slower
  // program, not a hang.
  const size_t bound = 16 + 4 * r.nodes.size();
  for (size_t round = 0; round < bound; ++round)
    if (!apply_rules(r, options) && !move_transposes(r)) break;
  r.finish();
  require_operators(graph);
  mark_batched_again(graph);
}

}  // namespace nacre::tools
