// Simplifies reshapes: reshapes of reshapes, reshapes to the same shape, equal reshapes of one value, and reshapes
// that flatten a transposed array for a dense layer.
#include <algorithm>
#include <map>

#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

// Returns whether a reshape's output may replace its input: equal element types, and no quantizer that the input
// lacks.
bool pure_reshape(const Rewriter& r, const Node* node) {
  if (node == nullptr || node->op != Op::kReshape) return false;
  const Value &x = r.value(node->inputs[0]), &y = r.value(node->outputs[0]);
  return x.type == y.type && (same_quantizer(x, y) || (!y.quantizer && !r.is_output(node->outputs[0])));
}

bool merge_twin(Rewriter& r, Node& node) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (r.is_output(y)) return false;
  for (Node* twin : r.readers(x)) {
    if (twin == &node || !pure_reshape(r, twin)) continue;
    const ValueId kept = twin->outputs[0];
    if (r.value(kept).dims != r.value(y).dims || !same_quantizer(r.value(kept), r.value(y))) continue;
    r.log("removed " + title(r, node) + ": " + title(r, *twin) + " is the same");
    Node moved = *twin;
    r.remove(*twin);
    r.insert_after_writer(x, std::move(moved));
    r.remove(node);
    r.replace_reads(y, kept);
    return true;
  }
  return false;
}

// One axis of a reshape's output, longer than 1. It joins axes `first` to `last` of the array before the transpose.
struct JoinedAxis {
  int first = 0, last = 0;
  int64_t size = 1;
  size_t place = 0;  // index among the output's axes
};

// Returns the axes, without those of size 1, into which reshape joins transpose(u, perm). Empty if the reshape splits
// an axis, or joins axes that do not follow each other in u.
std::vector<JoinedAxis> joined_axes(const std::vector<int64_t>& u, const Permutation& perm,
                                    const std::vector<int64_t>& y) {
  std::vector<int> from;  // axes of u longer than 1, in the order of the transpose
  for (const int axis : perm)
    if (u[size_t(axis)] != 1) from.push_back(axis);
  const auto follow = [&](int a, int b) {
    return b > a && std::all_of(u.begin() + a + 1, u.begin() + b, [](int64_t size) { return size == 1; });
  };
  std::vector<JoinedAxis> joined;
  size_t next = 0;
  for (size_t place = 0; place < y.size(); ++place) {
    if (y[place] == 1) continue;
    if (next == from.size()) return {};
    JoinedAxis axis = {from[next], from[next], u[size_t(from[next])], place};
    while (++next < from.size() && axis.size < y[place]) {
      if (!follow(axis.last, from[next])) return {};
      axis.last = from[next];
      axis.size *= u[size_t(axis.last)];
    }
    if (axis.size != y[place]) return {};
    joined.push_back(axis);
  }
  return joined;
}

bool whole_bytes(const Value& v) { return v.constant() && element_bits(v.stored) >= 8; }

}  // namespace

Node reshape_node(ValueId x, const std::vector<int64_t>& dims, ValueId y, int layer) {
  Node node;
  node.op = Op::kReshape;
  node.layer = layer;
  node.inputs = {x};
  node.outputs = {y};
  set_integer(node, "rank", int(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "dims", int(dims[i]), int(i));
  return node;
}

bool simplify_reshape(Rewriter& r, Node& node) {
  if (!pure_reshape(r, &node)) return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const std::string name = title(r, node);
  if (r.value(x).dims == r.value(y).dims && r.bypass(node, x)) {
    r.log("removed " + name + ": the shape is the same");
    return true;
  }
  if (Node* before = r.writer(x); pure_reshape(r, before)) {
    r.log("merged " + title(r, *before) + " and " + name);
    r.set_input(node, 0, before->inputs[0]);
    return true;
  }
  return merge_twin(r, node);
}

bool is_flattening(const Rewriter& r, const Node& node) {
  if (node.op != Op::kReshape) return false;
  const std::vector<int64_t>&x = r.value(node.inputs[0]).dims, &y = r.value(node.outputs[0]).dims;
  const std::vector<Node*>& readers = r.readers(node.outputs[0]);
  if (x.empty() || y.size() != 2 || y[0] != x[0] || readers.empty() || r.is_output(node.outputs[0])) return false;
  return std::all_of(readers.begin(), readers.end(), [&](const Node* dense) {
    if (dense->op != Op::kDense || dense->inputs[0] != node.outputs[0]) return false;
    const Value& w = r.value(dense->inputs[1]);
    const bool rows = !w.quantizer || w.quantizer->scale.size() == 1 || w.quantizer->axis == 0;
    return whole_bytes(w) && w.dims.size() == 2 && rows && !r.shared(dense->inputs[1]);
  });
}

// x = transpose(u, p), p_0 = 0; y = flatten(x); dense: sum_i y_i w_ki. Makes the dense read u, and orders the columns
// of w as u: w as [out, dims of x without axis 0] is transposed by the inverse of p. The products stay, and are summed
// in another order.
bool absorb_transpose(Rewriter& r, Node& node) {
  if (!is_flattening(r, node)) return false;
  Node* before = r.writer(node.inputs[0]);
  const Permutation perm = pure_transpose(r, before);
  if (perm.empty() || perm[0] != 0) return false;
  const std::vector<int64_t> x_dims = r.value(node.inputs[0]).dims;
  std::map<ValueId, ValueId> reordered;
  const std::vector<Node*> readers = r.readers(node.outputs[0]);
  for (Node* dense : readers) {
    const ValueId w = dense->inputs[1];
    if (!reordered.contains(w)) {
      Value view = r.value(w);
      const std::vector<int64_t> flat = view.dims;
      view.dims = x_dims;
      view.dims[0] = flat[0];
      const ValueId id = permuted_constant(r, r.add_value(std::move(view), w), inverse(perm));
      r.value(id).dims = flat;
      reordered[w] = id;
    }
    r.set_input(*dense, 1, reordered[w]);
    r.log("reordered the weights of " + title(r, *dense) + " instead of " + title(r, *before));
  }
  r.set_input(node, 0, before->inputs[0]);
  return true;
}

// y = reshape(transpose(u, p)) = transpose(reshape(u), q). It moves a transpose behind the reshape, where it may meet
// its inverse. The two directions of a recurrence do so: they are joined on one axis between two swaps of batch and
// time.
bool delay_transpose(Rewriter& r, Node& node) {
  if (!pure_reshape(r, &node)) return false;
  Node* before = r.writer(node.inputs[0]);
  const Permutation perm = pure_transpose(r, before);
  const ValueId y = node.outputs[0];
  const Value target = r.value(y);
  if (perm.empty() || !r.only_reader(node.inputs[0], node) || target.dims.size() >= perm.size()) return false;
  const ValueId u = before->inputs[0];
  if (r.value(u).quantizer && r.value(u).quantizer->scale.size() > 1) return false;
  std::vector<JoinedAxis> axes = joined_axes(r.value(u).dims, perm, target.dims);
  if (axes.empty()) return false;
  // Axes of size 1 that lead y come first, others last. So axis 0 stays the batch, even if the batch is 1.
  std::vector<size_t> order;
  const size_t leading = axes[0].place;
  std::ranges::sort(axes, {}, &JoinedAxis::first);
  for (size_t place = 0; place < leading; ++place) order.push_back(place);
  for (const JoinedAxis& axis : axes) order.push_back(axis.place);
  for (size_t place = leading; place < target.dims.size(); ++place)
    if (target.dims[place] == 1) order.push_back(place);
  Value joined = target;
  joined.dims.clear();
  Permutation back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    joined.dims.push_back(target.dims[order[i]]);
    back[order[i]] = int(i);
  }
  joined.quantizer = r.value(u).quantizer;
  joined.batched = r.value(u).batched;
  r.log("moved " + title(r, *before) + " behind " + title(r, node));
  const std::vector<int64_t> dims = joined.dims;
  const ValueId id = r.add_value(std::move(joined), y);
  Node reshape = reshape_node(u, dims, id, node.layer);
  reshape.name = node.name;
  r.remove(*before);
  r.insert_after_writer(u, std::move(reshape));
  r.set_input(node, 0, id);
  const Node moved = transpose_node(id, back, y, node.layer);
  node.op = moved.op;
  node.words = moved.words;
  return true;
}

}  // namespace nacre::tools
