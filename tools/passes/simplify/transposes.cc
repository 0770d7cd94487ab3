// Simplifies single transposes: those that cancel, merge, move nothing, or are equal.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {

Permutation identity_permutation(size_t rank) {
  Permutation perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Permutation inverse(const Permutation& perm) {
  Permutation out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[size_t(perm[i])] = int(i);
  return out;
}

Permutation compose(const Permutation& first, const Permutation& then) { return permuted(first, then); }

bool moves(const std::vector<int64_t>& dims, const Permutation& perm) {
  int last = -1;  // the last axis longer than 1
  for (const int axis : perm) {
    if (dims[size_t(axis)] == 1) continue;
    if (axis < last) return true;
    last = axis;
  }
  return false;
}

std::optional<Quantizer> permuted(const std::optional<Quantizer>& q, const Permutation& perm) {
  std::optional<Quantizer> out = q;
  if (out && out->scale.size() > 1) out->axis = inverse(perm)[size_t(out->axis)];
  return out;
}

Permutation pure_transpose(const Rewriter& r, const Node* node) {
  if (node == nullptr || node->op != Op::kTranspose) return {};
  const Value &x = r.value(node->inputs[0]), &y = r.value(node->outputs[0]);
  Permutation perm;
  for (size_t i = 0; i < x.dims.size(); ++i) perm.push_back(get_integer(*node, "perm", int(i)));
  Value moved;
  moved.quantizer = permuted(x.quantizer, perm);
  const bool same = same_quantizer(moved, y) || (!y.quantizer && !r.is_output(node->outputs[0]));
  return same && x.type == y.type ? perm : Permutation();
}

Node transpose_node(ValueId x, const Permutation& perm, ValueId y, int layer) {
  Node node;
  node.op = Op::kTranspose;
  node.layer = layer;
  node.inputs = {x};
  node.outputs = {y};
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  return node;
}

ValueId permuted_constant(Rewriter& r, ValueId id, const Permutation& perm) {
  const Value& source = r.value(id);
  const size_t size = element_bits(source.stored) / 8, rank = perm.size();
  Value out = source;
  out.dims = permuted(source.dims, perm);
  out.quantizer = permuted(source.quantizer, perm);
  std::vector<size_t> stride(rank, size);  // bytes between neighbours along an axis of the source
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * size_t(source.dims[i]);
  const std::vector<size_t> step = permuted(stride, perm);
  std::vector<uint8_t> bytes(source.data->size());
  std::vector<int64_t> index(rank, 0);
  const uint8_t* from = source.data->data();
  for (size_t at = 0; at < bytes.size(); at += size) {
    std::memcpy(&bytes[at], from, size);
    for (size_t axis = rank; axis-- > 0;) {
      from += step[axis];
      if (++index[axis] < out.dims[axis]) break;
      from -= step[axis] * size_t(out.dims[axis]);
      index[axis] = 0;
    }
  }
  out.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return r.add_value(std::move(out), id);
}

bool share_quantizer(Rewriter& r, Node& node) {
  if (node.op != Op::kTranspose && node.op != Op::kReshape) return false;
  const ValueId xi = node.inputs[0], yi = node.outputs[0];
  Value &x = r.value(xi), &y = r.value(yi);
  const bool down = x.quantizer && !y.quantizer && !r.is_output(yi);
  const bool up = y.quantizer && !x.quantizer && !x.constant() && !r.is_input(xi) && r.only_reader(xi, node);
  if ((!down && !up) || x.type != y.type) return false;
  const std::optional<Quantizer>& known = down ? x.quantizer : y.quantizer;
  if (node.op == Op::kReshape && known->scale.size() > 1) return false;
  Permutation perm;
  if (node.op == Op::kTranspose)
    for (size_t i = 0; i < x.dims.size(); ++i) perm.push_back(get_integer(node, "perm", int(i)));
  if (down) y.quantizer = node.op == Op::kReshape ? known : permuted(known, perm);
  else x.quantizer = node.op == Op::kReshape ? known : permuted(known, inverse(perm));
  r.log("gave " + (down ? y.name : x.name) + " the quantizer of " + (down ? x.name : y.name) + ": the same elements");
  return true;
}

namespace {

// Merges two transposes of x by one permutation. The one that stays moves to the writer of x, before all readers.
bool merge_twin(Rewriter& r, Node& node, const Permutation& perm) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (r.is_output(y)) return false;
  for (Node* twin : r.readers(x)) {
    if (twin == &node || pure_transpose(r, twin) != perm) continue;
    const ValueId kept = twin->outputs[0];
    if (!same_quantizer(r.value(kept), r.value(y)) || r.value(kept).type != r.value(y).type) continue;
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

}  // namespace

bool simplify_transpose(Rewriter& r, Node& node) {
  const Permutation perm = pure_transpose(r, &node);
  if (perm.empty()) return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const std::string name = title(r, node);
  if (!moves(r.value(x).dims, perm)) {
    const Node reshape = reshape_node(x, r.value(y).dims, y, node.layer);
    node.op = reshape.op;
    node.words = reshape.words;
    r.log("made " + name + " a reshape: it moves no byte");
    return true;
  }
  Node* before = r.writer(x);
  if (const Permutation first = pure_transpose(r, before); !first.empty()) {
    const Permutation merged = compose(first, perm);
    r.log("merged " + title(r, *before) + " and " + name);
    r.set_input(node, 0, before->inputs[0]);
    node.words.clear();
    for (size_t i = 0; i < merged.size(); ++i) set_integer(node, "perm", merged[i], int(i));
    return true;
  }
  return merge_twin(r, node, perm);
}

}  // namespace nacre::tools
