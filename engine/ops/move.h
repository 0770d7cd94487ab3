// Defines ops that move elements and compute nothing. y has the quantizer of x.
//
//   reshape    y = x in the same order, other dims
//   copy       y = x
//   transpose  y[i_0, i_1, ..] = x[j],  j_perm(a) = i_a
//   concat     y = the inputs one after another along `axis`
//   pad        y[i] = x[i - before] inside x; outside x `value`, or the mirrored (edge not repeated) or nearest element
//   slice      y[i] = x[begin + i step]
//
// Most gradients are moves themselves. That of reshape is a reshape to the dims of x, that of copy a copy, that of
// transpose the inverse transpose, and that of an input of concat a slice of dy. The gradients of pad and slice are
// in move_gradient.h.
#pragma once

#include <cstring>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/walk.h"

namespace nacre::inline NACRE_ISA {

inline constexpr int32_t kMaxDim = 1 << 28;  // the limit of Model::open on every dim

// Copies y = x, `count` elements. If `runs` is over 1, copies as many runs, which lie `stride` apart in y.
template <class T>
constexpr void move_run(const T* x, T* y, int count, int runs = 1, int stride = 0) {
  if constexpr (kThreads) {
    each_independent(runs, count, [&](int run, int i, int e) { y[run * stride + i] = x[e]; });
  } else {
    for (int run = 0; run < runs; ++run) std::memcpy(y + run * stride, x + run * count, size_t(count) * sizeof(T));
  }
}

struct Copy {
  int elements;

  static constexpr Copy from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    move_run(x, y, elements);
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {{.of = kOf<0>, .by = Op::kCopy, .reads = kReads<gradient_of(0)>}};
};

struct Reshape {  // the kernels of copy serve reshape too
  enum Word { kRank = 0, kDims = 1 };

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kRank] > uint32_t(kMaxRank)) return Code::kShapeRank;
    int64_t elements = 1;
    for (int axis = 0; axis < words.integer(kRank); ++axis) {
      const uint32_t dim = words[kDims + axis];
      if (dim < 1 || dim > uint32_t(kMaxDim)) return Code::kAttribute;
      if ((elements *= dim) > INT32_MAX) return Code::kElements;
      y->push(int32_t(dim));
    }
    const Shape compiled = {x.rank, x.dims, 0};
    if (elements != compiled.elements()) return Code::kElements;
    if (x.rows == 0) return Code::kOk;
    if (y->rank < 1 || y->size[0] != x.dims[0]) return Code::kRowsUnsupported;
    y->size[0] = x.rows;
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"rank"}, {"dims", Coding::kInteger, kMaxRank}};

  static constexpr int words_of_x(const Words&, const Operands& operands, int, uint32_t* made) {
    return words_of_dims(operands[0], made);
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kReshape, .reads = kReads<gradient_of(0)>, .words = &words_of_x}};
};

struct Transpose {
  Walk<1> walk;

  static constexpr Transpose from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    Transpose transpose;
    transpose.walk.rank = x.rank;
    for (int axis = 0; axis < x.rank; ++axis) {
      transpose.walk.size[axis] = x[words.integer(axis)];
      transpose.walk.stride[0][axis] = stride_of(x, words.integer(axis));
    }
    return transpose;
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = x[at[0]]; });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    uint32_t seen = 0;
    for (int axis = 0; axis < x.rank; ++axis) {
      if (words[axis] >= uint32_t(x.rank) || (seen >> words[axis] & 1) != 0) return Code::kPermutation;
      seen |= 1u << words[axis];
      y->push(x[words.integer(axis)]);
    }
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"perm", Coding::kInteger, kMaxRank}};

  static constexpr int inverse(const Words& words, const Operands& operands, int, uint32_t* made) {
    for (int axis = 0; axis < kMaxRank; ++axis) made[axis] = 0;
    for (int axis = 0; axis < operands[0].rank; ++axis) made[words[axis]] = uint32_t(axis);
    return kMaxRank;
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kTranspose, .reads = kReads<gradient_of(0)>, .words = &inverse}};
};

struct Concat {
  Operands operands;
  int axis;

  static constexpr Concat from(const Words& words, const Operands& operands) { return {operands, words.integer(0)}; }

  template <class T>
  constexpr void forward(Inputs<T> x, T* y) const {
    const Shape shape = operands[operands.count - 1];
    const int outer = shape.product(0, axis);
    const int stride = shape.product(axis, shape.rank);
    for (int i = 0; i + 1 < operands.count; ++i) {
      const int run = operands[i].product(axis, shape.rank);
      move_run(x[i], y, run, outer, stride);
      y += run;
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (operands.count < 1) return Code::kOperandCount;
    const Shape x = operands[0];
    if (words[0] >= uint32_t(x.rank)) return Code::kAttributeAxis;
    const int axis = words.integer(0);
    *y = dims_of(x);
    int64_t sum = x[axis];
    for (int i = 1; i < operands.count; ++i) {
      if (operands[i].rank != x.rank) return Code::kShapeRank;
      for (int j = 0; j < x.rank; ++j)
        if (j != axis && operands[i][j] != x[j]) return Code::kShapeInput;
      sum += operands[i][axis];
    }
    if (sum > kMaxDim) return Code::kOverflow;
    y->size[axis] = int32_t(sum);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"axis"}};
  static constexpr const char* kInputs[] = {"x", "..."};
  static constexpr const char* kOutputs[] = {"y"};

  // Makes the attributes of the slice of y that input `input` became.
  static int slice_words(const Words& words, const Operands& operands, int input, uint32_t* made);
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kSlice, .reads = kReads<gradient_of(0)>, .words = &slice_words}};
};

struct Pad {
  Shape x, y;
  Words words;

  enum Word { kBefore = 0, kAfter = kMaxRank, kValue = 2 * kMaxRank, kMode };
  enum Mode : uint32_t { kConstant = 0, kReflect = 1, kEdge = 2 };

  static constexpr Pad from(const Words& words, const Operands& operands) {
    return {operands[0], operands[operands.count - 1], words};
  }

  template <class T>
  constexpr void forward(const T* input, T* output) const {
    const T outside = value<T>(words[kValue]);
    Dims size = dims_of(y);
    each_index_independent(size.rank, size.size, [&](const int32_t* index, int e) {
      const int source = position(index);
      output[e] = source < 0 ? outside : input[source];
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kMode] > kEdge) return Code::kAttribute;
    const ElementType type = operands.element(0);
    if (holds_codes(type) && !is_code(words.integer(kValue), type)) return Code::kAttribute;
    for (int axis = 0; axis < x.rank; ++axis) {
      const uint32_t before = words[kBefore + axis], after = words[kAfter + axis];
      const auto limit = uint32_t(words[kMode] == kReflect ? x[axis] - 1 : kMaxDim);
      if (before > limit || after > limit) return Code::kPadding;
      const int64_t dim = int64_t{x[axis]} + before + after;
      if (dim > kMaxDim) return Code::kOverflow;
      y->push(int32_t(dim));
    }
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"before", Coding::kInteger, kMaxRank},
                                              {"after", Coding::kInteger, kMaxRank},
                                              {"value", Coding::kBound},
                                              {"mode"}};
  static constexpr Gradient kGradients[] = {{.of = kOf<0>, .by = Op::kPadGradient, .reads = kReads<gradient_of(0)>}};

 private:
  template <class T>
  static constexpr T value(uint32_t word) {
    if constexpr (std::is_same_v<T, Bool>) return {uint8_t(word & 1)};
    else if constexpr (std::is_integral_v<T>) return T(int32_t(word));
    else return T(std::bit_cast<float>(word));
  }

  // Returns the index into x that output `index` copies, or -1 if it lies outside x.
  constexpr int position(const int32_t* index) const {
    int source = 0;
    for (int axis = 0; axis < x.rank; ++axis) {
      int i = index[axis] - words.integer(kBefore + axis);
      if (i < 0 || i >= x[axis]) {
        if (words[kMode] == kConstant) return -1;
        if (words[kMode] == kReflect) i = i < 0 ? -i : 2 * (x[axis] - 1) - i;
        else i = i < 0 ? 0 : x[axis] - 1;
      }
      source = source * x[axis] + i;
    }
    return source;
  }
};

struct Slice {
  Walk<1> walk;

  enum Word { kBegin = 0, kSize = kMaxRank, kStep = 2 * kMaxRank };

  static constexpr Slice from(const Words& words, const Operands& operands) {
    return make(words, operands[0], operands[operands.count - 1]);
  }
  static constexpr Slice make(const Words& words, Shape x, Shape y) {
    Slice slice;
    slice.walk.rank = x.rank;
    for (int axis = 0; axis < x.rank; ++axis) {
      const int stride = stride_of(x, axis);
      slice.walk.size[axis] = y[axis];
      slice.walk.stride[0][axis] = y[axis] > 1 ? step(words, axis) * stride : 0;
      slice.walk.first[0] += words.integer(kBegin + axis) * stride;
    }
    return slice;
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = x[at[0]]; });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    for (int axis = 0; axis < x.rank; ++axis) {
      const int64_t dim = x.dims[axis], begin = words[kBegin + axis], size = words[kSize + axis];
      if (step(words, axis) == 0) return Code::kStride;
      if (size < 1 || size > dim || begin >= dim) return Code::kBounds;
      const int64_t last = begin + (size - 1) * step(words, axis);
      if (last < 0 || last >= dim) return Code::kBounds;
      y->push(int32_t(size));
    }
    if (x.rows == 0) return Code::kOk;
    if (words[kBegin] != 0 || words[kStep] != 0 || y->size[0] != x.dims[0]) return Code::kRowsUnsupported;
    y->size[0] = x.rows;
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"begin", Coding::kInteger, kMaxRank},
                                              {"size", Coding::kInteger, kMaxRank},
                                              {"step", Coding::kLessOne, kMaxRank}};

  // Makes the attributes of slice_gradient: those of the step and the dims of x, so that x need not stay in memory.
  static constexpr int words_of_x(const Words& words, const Operands& operands, int, uint32_t* made) {
    const Shape x = operands[0];
    for (int i = 0; i < kStep + kMaxRank; ++i) made[i] = words[i];
    for (int axis = 0; axis < kMaxRank; ++axis)
      made[kStep + kMaxRank + axis] = axis < x.rank ? uint32_t(x.dims[axis]) : 0;
    return kStep + 2 * kMaxRank;
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kSliceGradient, .reads = kReads<gradient_of(0)>, .words = &words_of_x}};

 private:
  static constexpr int step(const Words& words, int axis) { return int(words[kStep + axis] + 1); }
};

inline int Concat::slice_words(const Words& words, const Operands& operands, int input, uint32_t* made) {
  const Shape x = operands[input];
  for (int i = 0; i < Slice::kStep + kMaxRank; ++i) made[i] = 0;
  for (int i = 0; i < input; ++i)
    made[Slice::kBegin + words.integer(0)] += uint32_t(operands[i].dims[words.integer(0)]);
  for (int axis = 0; axis < x.rank; ++axis) made[Slice::kSize + axis] = uint32_t(x.dims[axis]);
  return Slice::kStep + kMaxRank;
}

inline constexpr OpRule kReshapeRule = {.op = Op::kReshape,
                                        .name = "reshape",
                                        .numerics = Numerics::kMove,
                                        .shapes = &Reshape::shapes,
                                        .attributes = Reshape::kAttributes,
                                        .inputs = Copy::kInputs,
                                        .outputs = Copy::kOutputs,
                                        .gradients = Reshape::kGradients};
inline constexpr OpRule kTransposeRule = {.op = Op::kTranspose,
                                          .name = "transpose",
                                          .numerics = Numerics::kMove,
                                          .shapes = &Transpose::shapes,
                                          .attributes = Transpose::kAttributes,
                                          .inputs = Copy::kInputs,
                                          .outputs = Copy::kOutputs,
                                          .gradients = Transpose::kGradients};
inline constexpr OpRule kConcatRule = {.op = Op::kConcat,
                                       .name = "concat",
                                       .numerics = Numerics::kMove,
                                       .shapes = &Concat::shapes,
                                       .attributes = Concat::kAttributes,
                                       .inputs = Concat::kInputs,
                                       .outputs = Concat::kOutputs,
                                       .gradients = Concat::kGradients};
inline constexpr OpRule kPadRule = {.op = Op::kPad,
                                    .name = "pad",
                                    .numerics = Numerics::kMove,
                                    .shapes = &Pad::shapes,
                                    .attributes = Pad::kAttributes,
                                    .inputs = Copy::kInputs,
                                    .outputs = Copy::kOutputs,
                                    .gradients = Pad::kGradients};
inline constexpr OpRule kSliceRule = {.op = Op::kSlice,
                                      .name = "slice",
                                      .numerics = Numerics::kMove,
                                      .shapes = &Slice::shapes,
                                      .attributes = Slice::kAttributes,
                                      .inputs = Copy::kInputs,
                                      .outputs = Copy::kOutputs,
                                      .gradients = Slice::kGradients};
inline constexpr OpRule kCopyRule = {.op = Op::kCopy,
                                     .name = "copy",
                                     .numerics = Numerics::kMove,
                                     .shapes = &Copy::shapes,
                                     .attributes = {},
                                     .inputs = Copy::kInputs,
                                     .outputs = Copy::kOutputs,
                                     .gradients = Copy::kGradients};

}  // namespace nacre::inline NACRE_ISA
