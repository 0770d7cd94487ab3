// Inside of simplify: the Rewriter that its rules work on, and the rules, one file a subject. A rule looks at one node
// and returns true if it changed the network; simplify() applies all of them until none does.
#pragma once

#include <list>
#include <span>
#include <string>
#include <vector>

#include "tools/passes/passes.h"

namespace nacre::tools {

// perm[i] = axis of the source that becomes axis i:  y = transpose(x, perm),  y.dims[i] = x.dims[perm[i]].
using Permutation = std::vector<int>;

Permutation identity_permutation(size_t rank);
Permutation inverse(const Permutation& perm);
// transpose(transpose(x, first), then) = transpose(x, compose(first, then)).
Permutation compose(const Permutation& first, const Permutation& then);
// False if only axes of size 1 change places: the bytes stay as they are.
bool moves(const std::vector<int64_t>& dims, const Permutation& perm);

template <class T>
std::vector<T> permuted(const std::vector<T>& items, const Permutation& perm) {
  std::vector<T> out;
  for (const int axis : perm) out.push_back(items[size_t(axis)]);
  return out;
}

// A graph under rewriting: nodes in a list, with writer and readers of every value kept up to date.
class Rewriter {
 public:
  using Place = std::list<Node>::iterator;

  explicit Rewriter(Graph& graph, bool keep_shared = false);
  void finish();  // gives the nodes back to the graph, in order, and removes the values that nothing uses

  Graph& graph;
  std::list<Node> nodes;

  Value& value(ValueId id) { return graph.values[size_t(id)]; }
  const Value& value(ValueId id) const { return graph.values[size_t(id)]; }

  Node* writer(ValueId id);  // null: an input or a constant
  const std::vector<Node*>& readers(ValueId id) const { return uses_[size_t(id)].readers; }  // once per slot
  bool is_input(ValueId id) const { return uses_[size_t(id)].input; }
  bool is_output(ValueId id) const { return uses_[size_t(id)].output; }
  bool only_reader(ValueId id, const Node& node) const;  // read once, by `node`, and no output of the graph

  // A constant that may be one parameter of several steps, where such stay one: none of them may get a changed copy.
  bool shared(ValueId id) const;

  // A constant that is to be trained, and stays apart from what steps make of it.
  bool keeps_steps(ValueId id) const { return keep_shared_ && value(id).keeps_steps; }

  // A parameter of the source that arithmetic reads: what it makes of it is no other parameter.
  bool stays_apart(ValueId id, const Node& reader) const {
    const bool arranges = reader.op == Op::kTranspose || reader.op == Op::kReshape;
    return keeps_steps(id) || (keep_shared_ && value(id).variable && !arranges);
  }

  // `origin`: the value that the new one stands for; it gives its name if it is dead in the end.
  ValueId add_value(Value value, ValueId origin = kNone);
  Node& insert_after_writer(ValueId id, Node inserted);  // first of all where nothing writes it
  void remove(Node& node);
  void set_input(Node& node, size_t slot, ValueId id);
  void set_output(Node& node, size_t slot, ValueId id);
  void keep_first_output(Node& node);  // nothing reads the others
  void replace_reads(ValueId from, ValueId to);

  // Removes `node`, whose output equals its input `x`. Returns false where both are bound to the outside.
  bool bypass(Node& node, ValueId x);

  void log(const std::string& text) { graph.log.push_back("simplify: " + text); }
  void sweep();  // forgets removed nodes

 private:
  struct Uses {
    Place writer;
    std::vector<Node*> readers;
    bool written = false, input = false, output = false;
  };

  void attach(Place place);
  void detach(Node& node);
  Place place_of_node(Node& node);

  bool keep_shared_;
  std::vector<Uses> uses_;
  std::vector<ValueId> origins_;
};

// "conv1 (conv2d)"
std::string title(const Rewriter& r, const Node& node);

// To training, a constant that is computed of others is what they are: fixed where all are, frozen where none trains.
void take_training_flags(Value& made, std::span<const Value* const> sources);

// True if codes of one are codes of the other: no quantizers, or the same.
bool same_quantizer(const Value& a, const Value& b);
// `q` of a value whose axes were permuted.
std::optional<Quantizer> permuted(const std::optional<Quantizer>& q, const Permutation& perm);

// The permutation of a transpose; empty if `node` is none, or one that also requantizes.
Permutation pure_transpose(const Rewriter& r, const Node* node);
Node transpose_node(ValueId x, const Permutation& perm, ValueId y, int layer);
Node reshape_node(ValueId x, const std::vector<int64_t>& dims, ValueId y, int layer);

// A new constant: `id` with its axes permuted, codes untouched.
ValueId permuted_constant(Rewriter& r, ValueId id, const Permutation& perm);

bool fold_constants(Rewriter& r, Node& node);

bool fold_batch_norm(Rewriter& r, Node& node);
bool fold_gelu(Rewriter& r, Node& node);
bool fold_channel_arithmetic(Rewriter& r, Node& node, const SimplifyOptions& options);

bool share_quantizer(Rewriter& r, Node& node);     // of a transpose or reshape with the value before it
bool simplify_transpose(Rewriter& r, Node& node);  // cancel, merge, reshape where nothing moves, one for several
bool move_transposes(Rewriter& r);                 // through regions of ops that do not care about the order of axes

bool simplify_reshape(Rewriter& r, Node& node);  // of reshapes, identities, one for several
bool absorb_transpose(Rewriter& r, Node& node);  // before a flattening reshape, into the weights of dense
bool delay_transpose(Rewriter& r, Node& node);   // behind a reshape that joins axes which it keeps together

// A reshape to [axis 0, rest] that only dense layers with constant weights read.
bool is_flattening(const Rewriter& r, const Node& node);

bool remove_dead_nodes(Rewriter& r);
// origins[i]: see Rewriter::add_value; may be shorter than the values.
void remove_dead_values(Graph& graph, const std::vector<ValueId>& origins);

}  // namespace nacre::tools
