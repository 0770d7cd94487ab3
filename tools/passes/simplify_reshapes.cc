// Reshapes: of reshapes, to the same shape, twice the same, and those that flatten a transposed array for a dense
// layer.
#include <algorithm>
#include <map>

#include "tools/passes/simplify.h"

namespace nacre::tools {
namespace {

// A reshape whose output may stand for its input: one element type, and no quantizer that the input has not.
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

// x = transpose(u, p), p_0 = 0; y = flatten(x); dense: sum_i y_i w_ki. Reading u instead, the columns of w are put into
// the order of u: w, seen as [out, dims of x without axis 0], is transposed by the inverse of p. The same products,
// summed in another order.
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

}  // namespace nacre::tools
