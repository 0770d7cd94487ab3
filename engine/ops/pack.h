// Puts weights into the layout of the kernels that read them (base/layout.h).
//
//   pack   y = x, stored in the layout of y's record; y is 0 where the layout has no element
//
// The converter runs it on constants. For trained parameters it is a step of the program `derive`. For the weights of
// a file that was made for no port, bind does the same work (run/packed_weights.h).
#pragma once

#include <cstring>

#include "engine/base/isa.h"
#include "engine/base/layout.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Pack {
  StoredMatrices matrices;
  bool channels;

  static constexpr Pack from(Layout layout, Shape shape) {
    return {stored_matrices(layout, shape), of_channels(layout)};
  }
  static constexpr Pack from(const Words&, const Operands& operands) {
    return from(operands.tensor[1].record->layout, operands[1]);
  }

  template <class T>
  constexpr void forward(const T* x, Packed<T, Layout::kAny> y) const {
    if (!in_order()) return;
    std::memset(static_cast<void*>(y.data), 0, size_t(matrices.elements()) * sizeof(T));
    matrices.each(channels, [&](size_t index, size_t position) { y.data[position] = x[index]; });
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    if (operands[0].rank < 2) return Code::kShapeRank;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kPackRule = {.op = Op::kPack,
                                     .name = "pack",
                                     .numerics = Numerics::kMove,
                                     .shapes = &Pack::shapes,
                                     .attributes = {},
                                     .inputs = Pack::kInputs,
                                     .outputs = Pack::kOutputs};

}  // namespace nacre::inline NACRE_ISA
