// Evaluates ensembles of decision trees: gradient boosting and random forests (ONNX, ai.onnx.ml TreeEnsemble). It has
// no gradient.
//
//   x [.., features]   y [.., targets]
//   nodes [n, 3], int32: {16 feature + turns, left, right}   thresholds [n]
//   roots [trees], int32   leaves [m], int32: 2 target + last   weights [m]
//
// A node compares v = x_feature with its threshold t. It goes left if `turns` has the bit of the result:
//
//   1: v < t     2: v = t     4: v > t     8: none of these, because v or t is NaN (a missing value)
//
// So each of <=, <, >=, >, = and != is one node, with missing values on either side. `left`, `right` and a root are
// indices. An index of 0 or more is a node; it is greater than the index of its parent node. A negative index i is a
// leaf. Its weights are the entries from -1 - i on, up to one that is `last`, at most one for each target.
//
//   y_k = the sum of the weights of target k in the leaves that the trees reach; with aggregate 1 the least of them,
//         with 2 the greatest; 0 if no leaf names target k
//
// Sums are compensated (W. Kahan, CACM 8, 1965: within 2 roundings of the sum of magnitudes, however many trees),
// because a forest decides at 1/2, and sums are often close to it. No walk is longer than `depth`. An index is
// refused at run time with Code::kIndex if it is outside its tensor, or not greater than its parent's. Rows before
// that one stay written.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct TreeEnsemble {
  int rows, features, targets, nodes, trees, entries, depth;
  uint32_t aggregate;

  enum Operand { kX, kNodes, kThresholds, kRoots, kLeaves, kWeights };
  enum Word { kTargets, kDepth, kAggregate };
  enum Aggregate : uint32_t { kSum, kMinimum, kMaximum };
  enum Turn : int32_t { kBelow = 1, kEqual = 2, kAbove = 4, kNoNumber = 8 };
  static constexpr int kTurnBits = 4, kNodeWords = 3;

  static constexpr TreeEnsemble from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    return {.rows = x.product(0, x.rank - 1),
            .features = x.last(),
            .targets = words.integer(kTargets),
            .nodes = operands[kNodes][0],
            .trees = operands[kRoots][0],
            .entries = operands[kLeaves][0],
            .depth = words.integer(kDepth),
            .aggregate = words[kAggregate]};
  }

  // `aside` holds a number per row and target. It is the compensation of a sum; with aggregate 1 or 2 it says whether
  // a leaf has named the target.
  template <class T>
  constexpr Code forward(const T* x, const int32_t* node, const T* threshold, const int32_t* root, const int32_t* leaf,
                         const T* weight, T* y, Scratch<T> aside) const {
    for (int r : independent(rows)) {
      const Totals<T> totals = {y + r * targets, aside.data + r * targets};
      for (int k = 0; k < targets; ++k) totals.y[k] = totals.aside[k] = 0;
      for (int t = 0; t < trees; ++t) {
        int at = root[t];
        NACRE_TRY_CODE(walk(x + r * features, node, threshold, at));
        NACRE_TRY_CODE(take(leaf, weight, at, totals));
      }
    }
    return Code::kOk;
  }

  static constexpr size_t scratch_bytes(const Words& words, const Operands& operands) {
    const TreeEnsemble op = from(words, operands);
    const size_t size = operands.element(kX) == ElementType::kFloat64 ? sizeof(double) : sizeof(float);
    return size_t(op.rows) * size_t(op.targets) * size;
  }

  constexpr uint64_t work() const {
    const uint64_t walks = uint64_t(rows) * uint64_t(trees), each = uint64_t(depth) + uint64_t(targets);
    constexpr uint64_t kMost = uint64_t{1} << 62;
    return walks > kMost / each ? kMost : walks * each;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], nodes = operands[kNodes];
    if (x.rank == 0 || nodes.rank != 2 || operands[kRoots].rank != 1 || operands[kLeaves].rank != 1)
      return Code::kShapeRank;
    if (nodes[1] != kNodeWords || !is(operands, kThresholds, nodes[0]) || !is(operands, kWeights, operands[kLeaves][0]))
      return Code::kShapeWeights;
    const uint32_t targets = words[kTargets];
    if (targets == 0 || targets > kMostTargets || words[kDepth] > uint32_t(nodes[0]) || words[kAggregate] > kMaximum)
      return Code::kAttribute;
    if (int64_t{x.product(0, x.rank - 1)} * targets > INT32_MAX) return Code::kElements;
    *y = dims_of(x);
    y->size[x.rank - 1] = int32_t(targets);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"targets"}, {"depth"}, {"aggregate"}};
  static constexpr const char* kInputs[] = {"x", "nodes", "thresholds", "roots", "leaves", "weights"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  static constexpr uint32_t kMostTargets = 1 << 28;

  template <class T>
  struct Totals {  // the sums and their compensations for one row
    T *y, *aside;
  };

  // Walks from a root to a leaf. `next` becomes the first entry of that leaf.
  template <class T>
  constexpr Code walk(const T* x, const int32_t* node, const T* threshold, int& next) const {
    int before = -1;
    for (int turn = 0; next >= 0; ++turn) {
      if (turn == depth || next <= before || next >= nodes) return Code::kIndex;
      const int32_t* const words = node + uint32_t(next) * kNodeWords;
      const uint32_t feature = uint32_t(words[0]) >> kTurnBits;
      if (feature >= uint32_t(features)) return Code::kIndex;
      const T v = x[feature], t = threshold[next];
      const int32_t found = v < t ? kBelow : v == t ? kEqual : v > t ? kAbove : kNoNumber;
      before = next;
      next = words[(words[0] & found) != 0 ? 1 : 2];
    }
    next = -1 - next;
    return Code::kOk;
  }

  template <class T>
  constexpr Code take(const int32_t* leaf, const T* weight, int first, Totals<T> totals) const {
    if (first >= entries) return Code::kIndex;
    const int end = targets < entries - first ? first + targets : entries;
    for (int e = first; e < end; ++e) {
      const uint32_t k = uint32_t(leaf[e]) >> 1;
      if (k >= uint32_t(targets)) return Code::kIndex;
      add(weight[e], totals.y[k], totals.aside[k]);
      if ((leaf[e] & 1) != 0) break;
    }
    return Code::kOk;
  }

  template <class T>
  constexpr void add(T w, T& y, T& aside) const {
    if (aggregate == kSum) {
      const T term = w - aside, sum = y + term;
      aside = (sum - y) - term;
      y = sum;
      return;
    }
    if (aside == 0 || (aggregate == kMinimum ? w < y : w > y)) y = w;
    aside = 1;
  }
};

inline constexpr OpRule kTreeEnsembleRule = {.op = Op::kTreeEnsemble,
                                             .name = "tree_ensemble",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &TreeEnsemble::shapes,
                                             .attributes = TreeEnsemble::kAttributes,
                                             .inputs = TreeEnsemble::kInputs,
                                             .outputs = TreeEnsemble::kOutputs};

}  // namespace nacre::inline NACRE_ISA
