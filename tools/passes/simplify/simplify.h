// Internals of simplify: the Rewriter that its rules change, and the rules, one file per subject. A rule looks at one
// node and returns true if it changed the network. simplify() applies all rules until none changes anything.
#pragma once

#include <list>
#include <span>
#include <string>
#include <vector>

#include "tools/passes/passes.h"

namespace nacre::tools {

// perm[i] is the axis of the source that becomes axis i:  y = transpose(x, perm),  y.dims[i] = x.dims[perm[i]].
using Permutation = std::vector<int>;

Permutation identity_permutation(size_t rank);
Permutation inverse(const Permutation& perm);
// transpose(transpose(x, first), then) = transpose(x, compose(first, then)).
Permutation compose(const Permutation& first, const Permutation& then);
// Returns false if only axes of size 1 change places, because the bytes then stay as they are.
bool moves(const std::vector<int64_t>& dims, const Permutation& perm);

template <class T>
std::vector<T> permuted(const std::vector<T>& items, const Permutation& perm) {
  std::vector<T> out;
  for (const int axis : perm) out.push_back(items[size_t(axis)]);
  return out;
}

// A graph under rewriting. Its nodes are in a list, and the writer and readers of every value are kept up to date.
class Rewriter {
 public:
  using Place = std::list<Node>::iterator;

  explicit Rewriter(Graph& graph, bool keep_shared = false);
  void finish();  // gives the nodes back to the graph, in order; removes unused values

  Graph& graph;
  std::list<Node> nodes;

  Value& value(ValueId id) { return graph.values[size_t(id)]; }
  const Value& value(ValueId id) const { return graph.values[size_t(id)]; }

  Node* writer(ValueId id);  // null for an input or a constant
  const std::vector<Node*>& readers(ValueId id) const { return uses_[size_t(id)].readers; }  // once per slot
  bool is_input(ValueId id) const { return uses_[size_t(id)].input; }
  bool is_output(ValueId id) const { return uses_[size_t(id)].output; }
  bool only_reader(ValueId id, const Node& node) const;  // read once, by `node`, and no output of the graph

  // Returns whether a constant must stay the parameter that it is, for training: several steps read it, or it keeps its
  // steps. No step may get a changed copy of it.
  bool shared(ValueId id) const;

  // Returns whether a constant will be trained, so that steps that compute from it are not folded.
  bool keeps_steps(ValueId id) const { return keep_shared_ && value(id).keeps_steps; }

  // Returns whether `reader` stays a step in training: folding it would make its result the parameter. A transpose or
  // reshape of a parameter may be folded, unless the constant keeps its steps.
  bool stays_apart(ValueId id, const Node& reader) const {
    const bool arranges = reader.op == Op::kTranspose || reader.op == Op::kReshape;
    return keeps_steps(id) || (keep_shared_ && value(id).variable && !arranges);
  }

  // Adds a value. `origin` is the value for which the new one stands. It gives its name if it is dead in the end.
  ValueId add_value(Value value, ValueId origin = kNone);
  Node& insert_after_writer(ValueId id, Node inserted);  // at the front if no node writes the value
  void remove(Node& node);
  void set_input(Node& node, size_t slot, ValueId id);
  void set_output(Node& node, size_t slot, ValueId id);
  void keep_first_output(Node& node);  // for a node whose other outputs nothing reads
  void replace_reads(ValueId from, ValueId to);

  // Removes `node`, whose output equals its input `x`. Returns false if the output is one of the graph's, and x is an
  // input, a constant or another output.
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

// Returns "conv1 (conv2d)".
std::string title(const Rewriter& r, const Node& node);

// Sets the training flags of a constant computed from others: fixed if all of them are, frozen if none of them trains.
void take_training_flags(Value& made, std::span<const Value* const> sources);

// Returns whether codes of one value are codes of the other: neither has a quantizer, or both have equal ones.
bool same_quantizer(const Value& a, const Value& b);
// Returns `q` for a value whose axes were permuted.
std::optional<Quantizer> permuted(const std::optional<Quantizer>& q, const Permutation& perm);

// Returns the permutation of a transpose. Empty if `node` is not a transpose, or its output has other codes.
Permutation pure_transpose(const Rewriter& r, const Node* node);
Node transpose_node(ValueId x, const Permutation& perm, ValueId y, int layer);
Node reshape_node(ValueId x, const std::vector<int64_t>& dims, ValueId y, int layer);

// Adds a constant: `id` with its axes permuted, its codes unchanged.
ValueId permuted_constant(Rewriter& r, ValueId id, const Permutation& perm);

bool fold_constants(Rewriter& r, Node& node);

bool fold_batch_norm(Rewriter& r, Node& node);
bool fold_gelu(Rewriter& r, Node& node);
bool fold_silu(Rewriter& r, Node& node);
bool fold_hard_swish(Rewriter& r, Node& node);
bool fold_channel_arithmetic(Rewriter& r, Node& node, const SimplifyOptions& options);

bool share_quantizer(Rewriter& r, Node& node);     // between a transpose or reshape and the value before it
bool simplify_transpose(Rewriter& r, Node& node);  // cancels, merges, reshapes if nothing moves, joins equal ones
bool move_transposes(Rewriter& r);                 // through regions of ops that work for any order of axes

bool simplify_reshape(Rewriter& r, Node& node);  // merges reshapes, removes identities, joins equal ones
bool absorb_transpose(Rewriter& r, Node& node);  // before a flattening reshape, into the weights of dense
bool delay_transpose(Rewriter& r, Node& node);   // moves it behind a reshape that keeps the joined axes together

// Returns whether the node is a reshape to [axis 0, rest] that only dense layers with constant weights read.
bool is_flattening(const Rewriter& r, const Node& node);

bool remove_dead_nodes(Rewriter& r);
// Removes dead values, and gives their names to the values that stand for them. `origins` holds Rewriter::add_value's
// origin per value, and may be shorter than the values.
void remove_dead_values(Graph& graph, const std::vector<ValueId>& origins);

}  // namespace nacre::tools
