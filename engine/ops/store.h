// Stores a value for the next run. s is a tensor of the stream region, which earlier steps of this run have read.
//
//   x, s, y [..] of one shape   s = x, y = x
//
// Later steps of the run read y instead of x.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Store {
  int elements;

  static constexpr Store from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  constexpr void forward(const T* x, Update<T> s, T* y) const {
    for (int i : independent(elements)) s.data[i] = y[i] = x[i];
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    if (!same(operands[0], operands[1])) return Code::kShapeInput;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x", "&s"};
  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kStoreRule = {.op = Op::kStore,
                                      .name = "store",
                                      .numerics = Numerics::kMove,
                                      .shapes = &Store::shapes,
                                      .attributes = {},
                                      .inputs = Store::kInputs,
                                      .outputs = Store::kOutputs};

}  // namespace nacre::inline NACRE_ISA
