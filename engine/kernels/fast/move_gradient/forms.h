// Kernel forms of the gradients of slice and of pad with a constant. Both copy rows of the last axis, or, for a slice
// with a step there, single elements. This is plain C++; the code is in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/move_gradient.h"

namespace nacre::inline NACRE_ISA {

// dx is a box of dy.
template <class T>
struct FastPadGradient {
  Walk<1> rows;  // over the rows of dx, with the offset into dy
  int width;

  [[gnu::cold, gnu::noinline]] static FastPadGradient from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], x = operands[1];
    FastPadGradient made = {{}, x.rank > 0 ? x.last() : 1};
    made.rows.rank = x.rank > 0 ? x.rank - 1 : 0;
    for (int axis = 0; axis < x.rank; ++axis) {
      const int stride = stride_of(y, axis);
      made.rows.first[0] += words.integer(Pad::kBefore + axis) * stride;
      if (axis == x.rank - 1) break;
      made.rows.size[axis] = x[axis];
      made.rows.stride[0][axis] = stride;
    }
    return made;
  }
  void run(const T* dy, T* dx) const;
  static bool accepts(const Words& words, const Operands&) {
    return words[Pad::kMode] != Pad::kReflect && words[Pad::kMode] != Pad::kEdge;
  }
};

// dx = dy in the elements that slice read, a box of x with steps; dx = 0 in all others.
template <class T>
struct FastSliceGradient {
  SliceGradient op;
  int width;  // length of rows that are contiguous in dx as in dy; else 1

  [[gnu::cold, gnu::noinline]] static FastSliceGradient from(const Words& words, const Operands& operands) {
    FastSliceGradient made = {SliceGradient::from(words, operands), 1};
    Walk<1>& walk = made.op.slice.walk;
    if (walk.rank > 0 && walk.stride[0][walk.rank - 1] == 1) made.width = walk.size[--walk.rank];
    return made;
  }
  void run(const T* dy, T* dx) const;
};

namespace fast::move_gradient {

template <class Tier>
constexpr auto lines() {
  return floats<FastPadGradient>("PadGradient", Op::kPadGradient, PadGradient::shapes) +
         floats<FastSliceGradient>("SliceGradient", Op::kSliceGradient, SliceGradient::shapes);
}

}  // namespace fast::move_gradient

}  // namespace nacre::inline NACRE_ISA
