// What gradient steps share: sums over broadcast axes, and sums over steps.
//
//   accumulate   s += x, the sum wider than x
#pragma once

#include "engine/numeric/element.h"
#include "engine/ops/parameters.h"

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

inline constexpr OpRule kAccumulateRule = {
    Op::kAccumulate, "accumulate", Numerics::kPointwise, &Accumulate::shapes, {}, Accumulate::kInputs, {}};

}  // namespace nacre
