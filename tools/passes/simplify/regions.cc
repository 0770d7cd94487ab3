// Moves transposes through regions of ops that work for any order of axes.
//
// A region is a connected set of such nodes (pointwise ops, concat, pad, slice, mean, softmax, quantize and others)
// over values of one rank. All its values can be permuted together. Attributes and constants follow, and only the
// region's border needs transposes. For every permutation that would cancel a transpose at the border, the bytes that
// the border's transposes move are counted. The region is rewritten if they become fewer. It is also rewritten if they
// stay equal and fewer transposes stand away from the graph's inputs and outputs. Each rewriting lowers the bytes, or
// keeps them and lowers that number, so rewriting ends. A residual trunk of an NCHW network changes its order as a
// whole, which no rule on single nodes can do.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tools/passes/simplify/axes.h"

namespace nacre::tools {
namespace {

struct PointwiseRegion {
  std::vector<Node*> nodes;
  size_t rank = 0;
  std::set<const Node*> members;
  std::set<ValueId> inside;  // values written by members, with the region's axes
};

struct Cost {
  uint64_t bytes = 0;
  int interior = 0;  // transposes that neither read a graph input nor write a graph output
  bool possible = true;

  bool operator<(const Cost& other) const {
    if (!possible || !other.possible) return possible && !other.possible;
    return bytes != other.bytes ? bytes < other.bytes : interior < other.interior;
  }
};

std::vector<int64_t> expanded(const std::vector<int64_t>& dims, size_t rank) {
  std::vector<int64_t> out(rank - dims.size(), 1);
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

class Mover {
 public:
  explicit Mover(Rewriter& r) : r_(r) {}

  // Rewrites every region that gains. Returns whether there is one. A region beside a region just rewritten waits for
  // the next round, in which the transposes between them are merged.
  bool run(bool join_readers) {
    bool changed = false;
    for (const PointwiseRegion& region : regions(join_readers)) {
      if (beside_rewritten(region)) continue;
      const Permutation* best = nullptr;
      const std::set<Permutation> all = candidates(region);
      Cost least = all.empty() ? Cost() : cost(region, identity_permutation(region.rank));
      for (const Permutation& perm : all)
        if (const Cost c = cost(region, perm); c < least) least = c, best = &perm;
      if (best == nullptr) continue;
      rewrite(region, *best);
      changed = true;
    }
    return changed;
  }

 private:
  bool beside_rewritten(const PointwiseRegion& region) {
    const auto rewritten = [this](const Node* node) { return rewritten_.contains(node); };
    return std::any_of(region.nodes.begin(), region.nodes.end(), [&](const Node* node) {
      const std::vector<Node*>& readers = r_.readers(node->outputs[0]);
      return std::any_of(readers.begin(), readers.end(), rewritten) ||
             std::any_of(node->inputs.begin(), node->inputs.end(),
                         [&](ValueId id) { return id != kNone && rewritten(r_.writer(id)); });
    });
  }

  size_t rank(ValueId id) const { return r_.value(id).dims.size(); }

  size_t region_rank(const Node& node) const {
    return facts_of(node.op).axes == Axes::kOfTwo ? rank(node.outputs[0]) : rank(node.inputs[0]);
  }

  // Returns the connected sets of nodes. With join_readers, nodes that read one value from outside belong together
  // too. A transpose that all of them read can then go.
  std::vector<PointwiseRegion> regions(bool join_readers) {
    std::vector<Node*> nodes;
    std::map<const Node*, size_t> index;
    for (Node& node : r_.nodes)
      if (facts_of(node.op).axes != Axes::kOwn && region_rank(node) > 1)
        index[&node] = nodes.size(), nodes.push_back(&node);
    std::vector<size_t> parent(nodes.size());
    std::iota(parent.begin(), parent.end(), size_t{0});
    const auto root = [&](size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    std::map<ValueId, size_t> first_reader;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (size_t slot = 0; slot < layout_inputs(*nodes[i]); ++slot) {
        const ValueId v = nodes[i]->inputs[slot];
        if (rank(v) != region_rank(*nodes[i]) || r_.value(v).constant()) continue;
        const auto writer = index.find(r_.writer(v));
        if (writer != index.end() && !drops_axes(*nodes[writer->second])) parent[root(i)] = root(writer->second);
        else if (join_readers) parent[root(i)] = root(first_reader.emplace(v, i).first->second);
      }
    std::map<size_t, PointwiseRegion> found;
    for (size_t i = 0; i < nodes.size(); ++i) {
      PointwiseRegion& region = found[root(i)];
      region.nodes.push_back(nodes[i]);
      region.members.insert(nodes[i]);
      region.rank = region_rank(*nodes[i]);
      if (!drops_axes(*nodes[i])) region.inside.insert(nodes[i]->outputs[0]);
    }
    std::vector<PointwiseRegion> out;
    for (auto& [key, region] : found) out.push_back(std::move(region));
    return out;
  }

  // Returns the permutations that cancel a transpose at the border. Axis 0 stays in place if it is the batch.
  std::set<Permutation> candidates(const PointwiseRegion& region) {
    std::set<Permutation> found;
    bool batched = false;
    for (const Node* node : region.nodes) {
      for (size_t slot = 0; slot < layout_inputs(*node); ++slot) {
        const ValueId v = node->inputs[slot];
        batched = batched || r_.value(v).batched;
        if (const Permutation q = pure_transpose(r_, r_.writer(v)); q.size() == region.rank) found.insert(inverse(q));
      }
      for (const Node* reader : r_.readers(node->outputs[0]))
        if (const Permutation q = pure_transpose(r_, reader); q.size() == region.rank) found.insert(q);
    }
    found.erase(identity_permutation(region.rank));
    std::erase_if(found, [&](const Permutation& p) { return batched && p[0] != 0; });
    return found;
  }

  // The transposes that the border needs if x' = transpose(x, perm) for all x inside.
  struct Needed {
    std::map<std::pair<ValueId, Permutation>, std::pair<uint64_t, bool>> transposes;  // bytes; at the graph's border
    void add(ValueId root, const Value& v, const std::vector<int64_t>& dims, const Permutation& perm, bool edge) {
      if (!moves(dims, perm)) return;
      auto& entry = transposes[{root, perm}];
      entry.first = storage_bytes(v.type, uint64_t(v.elements()));
      entry.second = entry.second || edge;
    }
  };

  Cost cost(const PointwiseRegion& region, const Permutation& perm) {
    Needed needed;
    const bool same = perm == identity_permutation(region.rank);
    for (const Node* node : region.nodes) {
      Node copy = *node;
      if (!same && !permute_attributes(r_, copy, perm)) return {.possible = false};
      for (size_t slot = 0; slot < layout_inputs(*node); ++slot)
        if (!need_input(region, node->inputs[slot], perm, same, needed)) return {.possible = false};
      need_outputs(region, *node, perm, needed);
    }
    Cost total;
    for (const auto& [key, entry] : needed.transposes) {
      total.bytes += entry.first;
      total.interior += entry.second ? 0 : 1;
    }
    return total;
  }

  bool read_outside(const PointwiseRegion& region, ValueId v) const {
    const std::vector<Node*>& readers = r_.readers(v);
    return r_.is_output(v) ||
           std::any_of(readers.begin(), readers.end(), [&](const Node* n) { return !region.members.contains(n); });
  }

  bool need_input(const PointwiseRegion& region, ValueId v, const Permutation& perm, bool same, Needed& needed) {
    const Value& value = r_.value(v);
    if (region.inside.contains(v)) return true;
    if (value.constant()) return same || (element_bits(value.stored) >= 8 && !r_.shared(v));
    if (rank(v) < region.rank) {
      needed.add(v, value, expanded(value.dims, region.rank), perm, r_.is_input(v));
      return true;
    }
    const Node* writer = r_.writer(v);
    const Permutation q = pure_transpose(r_, writer);
    if (q.empty()) {
      needed.add(v, value, value.dims, perm, r_.is_input(v));
      return true;
    }
    const ValueId u = writer->inputs[0];
    if (region.inside.contains(u)) return same;
    needed.add(u, r_.value(u), r_.value(u).dims, compose(q, perm), r_.is_input(u));
    if (read_outside(region, v)) needed.add(u, r_.value(u), r_.value(u).dims, q, r_.is_input(u) || r_.is_output(v));
    return true;
  }

  void need_outputs(const PointwiseRegion& region, const Node& node, const Permutation& perm, Needed& needed) {
    const ValueId v = node.outputs[0];
    const Value& value = r_.value(v);
    if (drops_axes(node)) {
      const Permutation s = kept_axes(node, perm);
      return needed.add(v, value, permuted(value.dims, s), inverse(s), r_.is_output(v));
    }
    const Permutation back = inverse(perm);
    const std::vector<int64_t> dims = permuted(value.dims, perm);
    if (r_.is_output(v)) needed.add(v, value, dims, back, true);
    for (const Node* reader : r_.readers(v)) {
      if (reads_inside(region, *reader, v)) continue;
      const Permutation q = pure_transpose(r_, reader);
      const Permutation m = q.empty() ? back : compose(back, q);
      if (!absorbed(*reader, q, m)) needed.add(v, value, dims, m, !q.empty() && r_.is_output(reader->outputs[0]));
    }
  }

  // Returns whether the node reads v in a slot whose axes are the region's.
  static bool reads_inside(const PointwiseRegion& region, const Node& reader, ValueId v) {
    if (!region.members.contains(&reader)) return false;
    for (size_t slot = layout_inputs(reader); slot < reader.inputs.size(); ++slot)
      if (reader.inputs[slot] == v) return false;
    return true;
  }

  // Returns whether a dense layer's weights absorb a transpose by `m` before this reader.
  bool absorbed(const Node& reader, const Permutation& q, const Permutation& m) const {
    if (m[0] != 0) return false;
    if (q.empty()) return is_flattening(r_, reader);
    const std::vector<Node*>& next = r_.readers(reader.outputs[0]);
    return !next.empty() && !r_.is_output(reader.outputs[0]) &&
           std::all_of(next.begin(), next.end(), [&](const Node* n) { return is_flattening(r_, *n); });
  }

  void insert_transpose(ValueId x, const Permutation& perm, ValueId y, int layer) {
    rewritten_.insert(&r_.insert_after_writer(x, transpose_node(x, perm, y, layer)));
  }

  ValueId transposed(ValueId x, const Permutation& perm, int layer) {
    if (perm == identity_permutation(perm.size())) return x;
    Value y = r_.value(x);
    y.dims = permuted(y.dims, perm);
    y.quantizer = permuted(y.quantizer, perm);
    const ValueId id = r_.add_value(std::move(y));
    insert_transpose(x, perm, id, layer);
    return id;
  }

  // Returns `v` with leading axes of 1.
  ValueId with_rank(ValueId v, size_t wanted, int layer) {
    Value y = r_.value(v);
    const auto added = int(wanted - y.dims.size());
    if (added == 0) return v;
    const bool constant = y.constant();
    y.dims = expanded(y.dims, wanted);
    y.batched = false;
    if (y.quantizer) y.quantizer->axis += added;
    const std::vector<int64_t> dims = y.dims;
    const ValueId id = r_.add_value(std::move(y), constant ? v : kNone);
    if (!constant) rewritten_.insert(&r_.insert_after_writer(v, reshape_node(v, dims, id, layer)));
    return id;
  }

  ValueId moved_input(ValueId v, const PointwiseRegion& region, const Permutation& perm, int layer) {
    const Node* writer = r_.writer(v);
    const Permutation q = rank(v) == region.rank ? pure_transpose(r_, writer) : Permutation();
    if (!q.empty()) return transposed(writer->inputs[0], compose(q, perm), layer);
    const ValueId full = with_rank(v, region.rank, layer);
    return r_.value(v).constant() ? permuted_constant(r_, full, perm) : transposed(full, perm, layer);
  }

  void rewrite(const PointwiseRegion& region, const Permutation& perm) {
    r_.log("moved transposes through " + std::to_string(region.nodes.size()) + " nodes from " +
           title(r_, *region.nodes.front()) + " to " + title(r_, *region.nodes.back()));
    std::map<ValueId, ValueId> moved;
    for (Node* node : region.nodes)
      for (size_t slot = 0; slot < layout_inputs(*node); ++slot) {
        const ValueId v = node->inputs[slot];
        if (region.inside.contains(v)) continue;
        if (!moved.contains(v)) moved[v] = moved_input(v, region, perm, node->layer);
        r_.set_input(*node, slot, moved[v]);
      }
    for (Node* node : region.nodes) {
      if (drops_axes(*node)) restore_mean(*node, perm);
      permute_attributes(r_, *node, perm);
    }
    for (Node* node : region.nodes)
      if (!drops_axes(*node)) move_output(region, *node, perm);
  }

  // Handles a mean or reduction without keep_dims: its output keeps its axes. A transpose behind it undoes the rest of
  // the permutation.
  void restore_mean(Node& node, const Permutation& perm) {
    const Permutation s = kept_axes(node, perm);
    if (s == identity_permutation(s.size())) return;
    const ValueId y = node.outputs[0];
    Value inner = r_.value(y);
    inner.dims = permuted(inner.dims, s);
    inner.quantizer = permuted(inner.quantizer, s);
    const ValueId id = r_.add_value(std::move(inner));
    r_.set_output(node, 0, id);
    insert_transpose(id, inverse(s), y, node.layer);
  }

  // Permutes the value that `node` writes. Readers outside get it transposed back.
  void move_output(const PointwiseRegion& region, Node& node, const Permutation& perm) {
    const ValueId v = node.outputs[0];
    const std::vector<Node*> readers = r_.readers(v);
    const bool output = r_.is_output(v);
    Value value = r_.value(v);
    value.dims = permuted(value.dims, perm);
    value.quantizer = permuted(value.quantizer, perm);
    const ValueId inner = output ? r_.add_value(value) : v;
    const Permutation back = inverse(perm);
    std::map<Node*, Permutation> transposes;  // found before the values change
    for (Node* reader : readers)
      if (const Permutation q = pure_transpose(r_, reader); !q.empty()) transposes[reader] = q;
    ValueId restored = kNone;
    if (output) {
      r_.set_output(node, 0, inner);
      insert_transpose(inner, back, restored = v, node.layer);
    } else {
      r_.value(v) = std::move(value);
    }
    for (auto& [reader, q] : transposes) {
      rewritten_.insert(reader);
      r_.set_input(*reader, 0, inner);
      reader->words = transpose_node(inner, compose(back, q), reader->outputs[0], reader->layer).words;
    }
    for (Node* reader : readers)
      for (size_t slot = 0; slot < reader->inputs.size() && !transposes.contains(reader); ++slot) {
        if (reader->inputs[slot] != v) continue;
        const bool member = region.members.contains(reader) && slot < layout_inputs(*reader);
        if (!member && restored == kNone) restored = transposed(inner, back, node.layer);
        r_.set_input(*reader, slot, member ? inner : restored);
      }
  }

  Rewriter& r_;
  std::set<const Node*> rewritten_;  // transposes and reshapes made or changed by this round
};

}  // namespace

bool move_transposes(Rewriter& r) {
  const bool any = std::any_of(r.nodes.begin(), r.nodes.end(), [](const Node& n) { return n.op == Op::kTranspose; });
  return any && (Mover(r).run(false) || Mover(r).run(true));
}

}  // namespace nacre::tools
