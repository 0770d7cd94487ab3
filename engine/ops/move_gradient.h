// Defines the gradients of pad and slice, which are not moves themselves.
//
//   pad     dx_j = sum of dy_i over all i that copy x_j: i = j + before, and in the modes reflect and edge also the i
//           that mirror or repeat it
//   slice   dx[begin + i step] = dy[i], 0 elsewhere
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/move.h"

namespace nacre::inline NACRE_ISA {

struct PadGradient {
  Shape x, y;
  Words words;

  static constexpr PadGradient from(const Words& words, const Operands& operands) {
    return {operands[1], operands[0], words};
  }

  template <class T>
  constexpr void forward(const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const Dims size = dims_of(x);
    each_index_independent(size.rank, size.size, [&](const int32_t* index, int e) {
      int32_t uses[kMaxRank] = {};
      for (int axis = 0; axis < x.rank; ++axis) uses[axis] = count(axis, index[axis]);
      A sum = 0;
      each_index(size.rank, uses, [&](const int32_t* use) {
        int at = 0;
        for (int axis = 0; axis < x.rank; ++axis) at = at * y[axis] + position(axis, index[axis], use[axis]);
        sum += A(dy[at]);
      });
      dx[e] = T(sum);
    });
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(y.elements())); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    if (words[Pad::kMode] > Pad::kEdge) return Code::kAttribute;
    for (int axis = 0; axis < y.rank; ++axis) {
      const int64_t before = words[Pad::kBefore + axis], after = words[Pad::kAfter + axis];
      const int64_t dim = y[axis] - before - after;
      if (dim < 1) return Code::kPadding;
      if (words[Pad::kMode] == Pad::kReflect && (before >= dim || after >= dim)) return Code::kPadding;
      dx->push(int32_t(dim));
    }
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  constexpr int before(int axis) const { return words.integer(Pad::kBefore + axis); }
  constexpr int after(int axis) const { return words.integer(Pad::kAfter + axis); }
  constexpr bool mirrored_before(int axis, int i) const {
    return words[Pad::kMode] == Pad::kReflect && i > 0 && i <= before(axis);
  }
  constexpr bool mirrored_after(int axis, int i) const {
    const int last = x[axis] - 1;
    return words[Pad::kMode] == Pad::kReflect && i < last && last - i <= after(axis);
  }

  // count() returns how many indices of y along `axis` copy index i of x. position() returns number `use` of them.
  constexpr int count(int axis, int i) const {
    int uses = 1 + int{mirrored_before(axis, i)} + int{mirrored_after(axis, i)};
    if (words[Pad::kMode] == Pad::kEdge) uses += (i == 0 ? before(axis) : 0) + (i == x[axis] - 1 ? after(axis) : 0);
    return uses;
  }
  constexpr int position(int axis, int i, int use) const {
    if (words[Pad::kMode] == Pad::kEdge) return (i == 0 ? 0 : before(axis) + i) + use;
    if (use == 0) return before(axis) + i;
    if (use == 1 && mirrored_before(axis, i)) return before(axis) - i;
    return before(axis) + 2 * (x[axis] - 1) - i;
  }
};

struct SliceGradient {
  Slice slice;
  Shape x;
  Words words;

  enum Word { kDims = Slice::kStep + kMaxRank };

  static constexpr SliceGradient from(const Words& words, const Operands& operands) {
    return {Slice::make(words, operands[1], operands[0]), operands[1], words};
  }

  template <class T>
  constexpr void forward(const T* dy, T* dx) const {
    if constexpr (kThreads) {
      for (int e : independent(x.elements())) {
        const int source = source_of(e);
        dx[e] = source < 0 ? T(0.0f) : dy[source];
      }
    } else {
      for (int i = 0; i < x.elements(); ++i) dx[i] = T(0.0f);
      slice.walk.each([&](const int32_t* at) { dx[at[0]] = *dy++; });
    }
  }

  // Checks the slice that takes dy from dx, with both shapes as compiled. A run with fewer rows takes whole rows.
  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    TensorRecord record = {};
    record.rank = uint8_t(y.rank);
    int64_t elements = 1;
    for (int axis = 0; axis < y.rank; ++axis) {
      const uint32_t dim = words[kDims + axis];
      if (dim < 1 || dim > uint32_t(kMaxDim)) return Code::kAttribute;
      if ((elements *= dim) > INT32_MAX) return Code::kElements;
      record.dims[axis] = int32_t(dim);
      dx->push(int32_t(dim));
    }
    const Tensor x = {nullptr, &record};
    Dims expected;
    NACRE_TRY_CODE(Slice::shapes(words, {&x, 1, 0}, &expected));
    for (int axis = 0; axis < y.rank; ++axis)
      if (y.dims[axis] != expected.size[axis]) return Code::kShapeInput;
    if (y.rows == 0) return Code::kOk;
    if (words[Slice::kBegin] != 0 || words[Slice::kStep] != 0 || y.dims[0] != dx->size[0])
      return Code::kRowsUnsupported;
    dx->size[0] = y.rows;
    return Code::kOk;
  }

  static constexpr auto kAttributes = joined(Slice::kAttributes, {{"dims", Coding::kInteger, kMaxRank}});
  static constexpr const char* kInputs[] = {"dy"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  // Returns the element of dy that becomes element e of dx, or -1 if there is none.
  constexpr int source_of(int e) const {
    int source = 0, stride = 1;
    for (int axis = x.rank - 1; axis >= 0; e /= x[axis--]) {
      const int step = int(words[Slice::kStep + axis] + 1), size = slice.walk.size[axis];
      const int offset = e % x[axis] - words.integer(Slice::kBegin + axis), i = offset / step;
      if (offset % step != 0 || i < 0 || i >= size) return -1;
      source += i * stride;
      stride *= size;
    }
    return source;
  }
};

inline constexpr OpRule kPadGradientRule = {.op = Op::kPadGradient,
                                            .name = "pad_gradient",
                                            .numerics = Numerics::kReduction,
                                            .shapes = &PadGradient::shapes,
                                            .attributes = Pad::kAttributes,
                                            .inputs = PadGradient::kInputs,
                                            .outputs = PadGradient::kOutputs};
inline constexpr OpRule kSliceGradientRule = {.op = Op::kSliceGradient,
                                              .name = "slice_gradient",
                                              .numerics = Numerics::kMove,
                                              .shapes = &SliceGradient::shapes,
                                              .attributes = SliceGradient::kAttributes,
                                              .inputs = SliceGradient::kInputs,
                                              .outputs = SliceGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
