// Facts of ops that work for any order of axes: the operands that share the axes of the result, and the attributes
// after all these axes are permuted.
#pragma once

#include "tools/graph/op_facts.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {

// Returns how many of a node's first inputs have the axes of its result, so that all can be permuted together.
inline size_t layout_inputs(const Node& node) {
  switch (facts_of(node.op).axes) {
    case Axes::kOfFirst: return 1;
    case Axes::kOfTwo: return 2;
    case Axes::kOfAll: return node.inputs.size();
    case Axes::kOwn: break;
  }
  return 0;
}

inline bool drops_axes(const Node& node) {
  return (node.op == Op::kMean || node.op == Op::kReduce) && get_integer(node, "keep_dims") == 0;
}

// Returns the permutation of a reduction's remaining axes, without keep_dims: y' = transpose(y, s) if x' =
// transpose(x, perm).
inline Permutation kept_axes(const Node& mean, const Permutation& perm) {
  const int axes = get_integer(mean, "axes");
  std::vector<int> position(perm.size(), 0);
  for (size_t axis = 0, next = 0; axis < perm.size(); ++axis)
    if ((axes >> axis & 1) == 0) position[axis] = int(next++);
  Permutation s;
  for (const int axis : perm)
    if ((axes >> axis & 1) == 0) s.push_back(position[size_t(axis)]);
  return s;
}

inline void permute_words(Node& node, const char* name, const Permutation& perm) {
  std::vector<int> words;
  for (const int axis : perm) words.push_back(get_integer(node, name, axis));
  for (size_t i = 0; i < words.size(); ++i) set_integer(node, name, words[i], int(i));
}

// Changes the attributes for permuted operands. Returns false if the op cannot work on the permuted axes.
inline bool permute_attributes(const Rewriter& r, Node& node, const Permutation& perm) {
  switch (node.op) {
    case Op::kSoftmax:
    case Op::kLogSoftmax:
    case Op::kConcat:
    case Op::kQuantize:
    case Op::kDequantize: {
      const int axis = get_integer(node, "axis");
      if (axis < 0 || size_t(axis) >= perm.size()) return false;
      const int moved = inverse(perm)[size_t(axis)];
      // Integer softmax works on the last axis only.
      const Value& x = r.value(node.inputs[0]);
      const bool codes = node.op == Op::kSoftmax && (x.type == ElementType::kInt8 || x.quantizer);
      if (codes && size_t(moved) + 1 != perm.size()) return false;
      set_integer(node, "axis", moved);
      return true;
    }
    case Op::kPad:
      permute_words(node, "before", perm);
      permute_words(node, "after", perm);
      return true;
    case Op::kSlice:
      for (const char* name : {"begin", "size", "step"}) permute_words(node, name, perm);
      return true;
    case Op::kMean:
    case Op::kReduce: {
      const int axes = get_integer(node, "axes");
      int moved = 0;
      for (size_t i = 0; i < perm.size(); ++i) moved |= (axes >> perm[i] & 1) << i;
      set_integer(node, "axes", moved);
      return true;
    }
    default: return true;
  }
}

}  // namespace nacre::tools
