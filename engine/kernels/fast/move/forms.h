// Kernel forms of moves for which the reference goes element by element, in plain C++. The code is in run.h. Elements
// are moved as words of their size, whatever their type.
//
//   transpose, slice   Axes that are contiguous in both x and y are joined. If the last axis of y is not contiguous in
//                      x but another axis is, both form a matrix, which is transposed by blocks.
//   pad                Whole rows within x are copied.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/move.h"

namespace nacre::inline NACRE_ISA {

// A walk over y with the offset into x, without axes of one element. Axes that follow each other in x too are joined.
struct Moves {
  Walk<1> walk;

  static Moves of(const Walk<1>& from) {
    Moves moves;
    Walk<1>& to = moves.walk;
    to.first[0] = from.first[0];
    for (int axis = 0; axis < from.rank; ++axis) {
      const int size = from.size[axis], stride = from.stride[0][axis], last = to.rank - 1;
      if (size == 1) continue;
      if (last >= 0 && to.stride[0][last] == size * stride) {
        to.size[last] *= size, to.stride[0][last] = stride;
        continue;
      }
      to.size[to.rank] = size;
      to.stride[0][to.rank++] = stride;
    }
    return moves;
  }
};

template <class O, class T>
struct FastMove {
  Moves moves;

  [[gnu::cold, gnu::noinline]] static Moves moves_of(const Words& words, const Operands& operands) {
    return Moves::of(O::from(words, operands).walk);
  }
  static FastMove from(const Words& words, const Operands& operands) { return {moves_of(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};

// x and y as [outer axes][axis][inner], where `axis` is the last axis with padding, or 0 if there is none.
struct PadRows {
  Shape x, y;
  Words words;
  int axis, inner;

  int before(int of) const { return words.integer(Pad::kBefore + of); }
  bool constant() const { return words[Pad::kMode] == Pad::kConstant; }
  // Returns the index in x of index i of an axis of y; below 0 if i lies outside x and padding is constant.
  int source(int of, int i) const {
    i -= before(of);
    if (i >= 0 && i < x[of]) return i;
    if (constant()) return -1;
    if (words[Pad::kMode] == Pad::kReflect) return i < 0 ? -i : 2 * (x[of] - 1) - i;
    return i < 0 ? 0 : x[of] - 1;
  }

  [[gnu::cold, gnu::noinline]] static PadRows of(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    int axis = x.rank - 1;
    while (axis > 0 && words[Pad::kBefore + axis] + words[Pad::kAfter + axis] == 0) --axis;
    return {x, operands[operands.count - 1], words, axis, x.product(axis + 1, x.rank)};
  }
};

template <class T>
struct FastPad {
  PadRows rows;
  static FastPad from(const Words& words, const Operands& operands) { return {PadRows::of(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
  static bool accepts(const Words&, const Operands& operands) { return operands[0].rank > 0; }
};

namespace fast::move {

template <class O>
struct MoveOf {
  template <class T>
  using Form = FastMove<O, T>;
};
template <template <class> class Form>
constexpr auto moves(const char* name, Op op, ShapeRule shapes) {
  return floats<Form>(name, op, shapes) + line<Form<double>>({name, "F64"}, op, shapes) +
         line<Form<int8_t>>({name, "I8"}, op, shapes) + line<Form<uint8_t>>({name, "U8"}, op, shapes) +
         line<Form<int32_t>>({name, "I32"}, op, shapes) + line<Form<int64_t>>({name, "I64"}, op, shapes) +
         line<Form<Bool>>({name, "Bool"}, op, shapes);
}

// Reshape, copy, concat and embedding are left to the reference, which copies whole rows.
template <class Tier>
constexpr auto lines() {
  return moves<MoveOf<Transpose>::Form>("Transpose", Op::kTranspose, Transpose::shapes) +
         moves<FastPad>("Pad", Op::kPad, Pad::shapes) + moves<MoveOf<Slice>::Form>("Slice", Op::kSlice, Slice::shapes);
}

}  // namespace fast::move

}  // namespace nacre::inline NACRE_ISA
