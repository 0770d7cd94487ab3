// Kernels in phases, for ops that carry a sum from one iteration to the next. A device's threads make its parts side by
// side in one phase, and read them in a later one:
//
//   phase 0          all of it, by one thread in order: how the host runs it
//   phase 1, 2, ..   one of phases_of(op), each a launch of its own; `data` is scratch of parts_of() numbers
//
// Terms and their order are the same either way, and so are the bytes.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/op.h"

namespace nacre::inline NACRE_ISA {

template <class A>
struct Parts {
  A* data = nullptr;
  int phase = 0;

  // sum_i f(i) in the order of i, in two phases. A team makes each f(i). True, for all of one team, where *total is it.
  template <class F>
  constexpr bool sum(int n, F f, A* total) const {
    if (phase == 1) {
      for (int i : teams(n)) {
        const A part = f(i);
        if (leads()) data[i] = part;
      }
      return false;
    }
    if (!first_team()) return false;
    A mine = 0;
    for (int i : of_team(n)) mine += phase == 0 ? f(i) : data[i];
    *total = team_sum(mine);
    return true;
  }
};

// Numbers that Verdict makes one part of, and how many such blocks there are.
inline constexpr int kVerdictBlock = 1024;
constexpr int verdict_blocks(int elements) { return (elements - 1) / kVerdictBlock + 1; }

constexpr int phases_of(Op op) {
  switch (op) {
    case Op::kVerdict: return 3;
    case Op::kSquaredError:
    case Op::kAbsoluteError:
    case Op::kHuber:
    case Op::kSigmoidCrossEntropy:
    case Op::kSoftmaxCrossEntropy:
    case Op::kDenseCrossEntropy:
    case Op::kLayerNormGradientScale: return 2;
    default: return 1;
  }
}

// Of an op of more than one phase: a largest number and two sums of each block of gradients, the loss of each row, the
// mean and the deviation of each row.
constexpr int64_t parts_of(Op op, const Operands& operands) {
  const Shape x = operands[0];
  if (op == Op::kVerdict) return int64_t{verdict_blocks(int(x.elements()))} * 3;
  const int64_t rows = x.product(0, x.rank - 1);
  if (op == Op::kLayerNormGradientScale) return rows * 2;
  return rows < x[0] ? x[0] : rows;  // of losses of single numbers a row is all behind axis 0
}

// How many iterations of an op are a team's, at most; 0: none.
constexpr int64_t teams_of(Op op, const Operands& operands) {
  const Shape x = operands[0];
  switch (op) {
    case Op::kSoftmax:
    case Op::kSoftmaxGradient:
    case Op::kLogSoftmax:
    case Op::kLogSoftmaxGradient: return x.elements();  // of an axis that no operand knows
    case Op::kLayerNorm:
    case Op::kLayerNormGradientX:
    case Op::kSoftmaxCrossEntropyGradient:
    case Op::kDenseCrossEntropyGradient: return x.product(0, x.rank - 1);
    case Op::kBatchNormGradientScale:
    case Op::kBatchNormTraining:
    case Op::kBatchNormTrainingGradientX:
    case Op::kBatchNormTrainingGradientScale: return x.last();
    case Op::kBiasGradient:
    case Op::kDepthwiseConv2dGradientW: return operands[operands.count - 1].elements();
    case Op::kLayerNormGradientScale: return parts_of(op, operands) + x.last();
    default: return phases_of(op) > 1 ? parts_of(op, operands) : 0;
  }
}

}  // namespace nacre::inline NACRE_ISA
