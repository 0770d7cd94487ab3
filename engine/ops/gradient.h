// What gradient steps share: sums over broadcast axes, and sums over steps.
//
//   accumulate   s += x, the sum wider than x
//   zeros        y = 0, of the shape that the attributes say: what a step adds to that makes the gradient of a value
#pragma once

#include "engine/numeric/element.h"
#include "engine/ops/move.h"

namespace nacre {

struct Accumulate {
  int elements;

  static Accumulate from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  void forward(const T* x, Update<typename Element<T>::Accumulator> sum) const {
    using A = typename Element<T>::Accumulator;
    for (int i = 0; i < elements; ++i) sum.data[i] += A(x[i]);
  }

  static Code shapes(const Words&, const Operands& operands, Dims*) {
    return operands[0].elements() == operands[1].elements() ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"x", "&sum"};
};

struct Zeros {
  int elements;

  static Zeros from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  void forward(T* y) const {
    for (int i = 0; i < elements; ++i) y[i] = 0;
  }

  static Code shapes(const Words& words, const Operands&, Dims* y) {
    if (words[0] > uint32_t(kMaxRank)) return Code::kShapeRank;
    int64_t elements = 1;
    for (int axis = 0; axis < words.integer(0); ++axis) {
      const uint32_t dim = words[1 + axis];
      if (dim < 1 || dim > uint32_t(kMaxDim)) return Code::kAttribute;
      if ((elements *= dim) > INT32_MAX) return Code::kElements;
      y->push(int32_t(dim));
    }
    return Code::kOk;
  }

  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kZerosRule = {
    Op::kZeros, "zeros", Numerics::kMove, &Zeros::shapes, Reshape::kAttributes, {}, Zeros::kOutputs};
inline constexpr OpRule kAccumulateRule = {
    Op::kAccumulate, "accumulate", Numerics::kPointwise, &Accumulate::shapes, {}, Accumulate::kInputs, {}};

}  // namespace nacre
