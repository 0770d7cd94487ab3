// Finds the index of the largest or the smallest element along one axis.
//
//   y_oi = the first j (with last = 1 the last) at which x_oji is max_j x_oji, or with minimum = 1 min_j x_oji
//
// A NaN counts as the extreme, as in numpy. y is int32 or int64. It has no gradient.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct ArgMax {
  int outer, width, inner;
  bool minimum, last;

  enum Word { kAxis = 0, kKeepDims = 1, kMinimum = 2, kLast = 3 };

  static constexpr ArgMax from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    const int axis = words.integer(kAxis);
    return {.outer = x.product(0, axis),
            .width = x[axis],
            .inner = x.product(axis + 1, x.rank),
            .minimum = words[kMinimum] != 0,
            .last = words[kLast] != 0};
  }

  template <class T, class I>
  constexpr void forward(const T* x, I* y) const {
    using A = typename Element<T>::Accumulator;
    const auto step = uint32_t(inner), size = uint32_t(width) * step;
    each_independent(outer, inner, [&](int o, int i, int e) {
      const T* from = x + uint32_t(o) * size + uint32_t(i);
      A best = A(from[0]);
      int at = 0;
      for (int j = 1; j < width; ++j) {
        const A v = A(from[uint32_t(j) * step]);
        if (takes(v, best)) best = v, at = j;
      }
      y[e] = I(at);
    });
  }

  constexpr uint64_t work() const { return uint64_t(outer) * uint64_t(width) * uint64_t(inner); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kAxis] >= uint32_t(x.rank)) return Code::kAttributeAxis;
    if (words[kKeepDims] > 1 || words[kMinimum] > 1 || words[kLast] > 1) return Code::kAttribute;
    for (int axis = 0; axis < x.rank; ++axis) {
      const bool reduced = axis == words.integer(kAxis);
      if (!reduced || words[kKeepDims] != 0) y->push(reduced ? 1 : x[axis]);
    }
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"axis"}, {"keep_dims"}, {"minimum"}, {"last"}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  template <class A>
  constexpr bool takes(A v, A best) const {
    if (best != best) return last && v != v;
    return v != v || (minimum ? v < best : v > best) || (last && v == best);
  }
};

inline constexpr OpRule kArgMaxRule = {.op = Op::kArgMax,
                                       .name = "arg_max",
                                       .numerics = Numerics::kReduction,
                                       .shapes = &ArgMax::shapes,
                                       .attributes = ArgMax::kAttributes,
                                       .inputs = ArgMax::kInputs,
                                       .outputs = ArgMax::kOutputs};

}  // namespace nacre::inline NACRE_ISA
