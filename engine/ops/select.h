// Defines comparisons of two tensors, and the choice between two by a third, broadcast as in numpy (elementwise.h).
//
//   compare   y = a f b, one bool per element        f: 1 equal, 2 not_equal, 3 less, 4 less_equal, 5 greater,
//                                                    6 greater_equal; with a NaN all but not_equal are false
//   select    y = a if c is true, else b
//
// Backward; R_a is the set of axes along which a was repeated. compare has no gradient:
//
//   select    da = sum_{R_a} dy if c is true, else 0;   db = sum_{R_b} dy if c is false, else 0
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/elementwise.h"

namespace nacre::inline NACRE_ISA {

struct Compare {
  Walk<2> walk;
  uint32_t function;

  enum Function : uint32_t {  // stored in files; 0 is refused
    kEqual = 1,
    kNotEqual = 2,
    kLess = 3,
    kLessEqual = 4,
    kGreater = 5,
    kGreaterEqual = 6,
  };
  static constexpr uint32_t kLast = kGreaterEqual;
  enum Word { kFunction = 0 };

  static constexpr Compare from(const Words& words, const Operands& operands) {
    return {.walk = broadcast_walk(operands[0], operands[1], operands[operands.count - 1]),
            .function = words[kFunction]};
  }

  template <class T>
  constexpr void forward(const T* a, const T* b, Bool* y) const {
    using A = typename Element<T>::Accumulator;
    const auto each = [&](auto f) {
      walk.each_independent([&](const int32_t* at, int e) { y[e].byte = f(A(a[at[0]]), A(b[at[1]])) ? 1 : 0; });
    };
    switch (function) {
      case kEqual: return each([](A u, A v) { return u == v; });
      case kNotEqual: return each([](A u, A v) { return u != v; });
      case kLess: return each([](A u, A v) { return u < v; });
      case kLessEqual: return each([](A u, A v) { return u <= v; });
      case kGreater: return each([](A u, A v) { return u > v; });
      default: return each([](A u, A v) { return u >= v; });
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[kFunction] == 0 || words[kFunction] > kLast) return Code::kAttribute;
    return broadcast_shape(operands[0], operands[1], y);
  }

  static constexpr Attribute kAttributes[] = {{"function"}};
  static constexpr const char* kInputs[] = {"a", "b"};
  static constexpr const char* kOutputs[] = {"y"};
};

struct Select {
  Walk<3> walk;  // over y, with the offsets into a, b and c

  enum Operand { kA, kB, kC };  // a first: a step's type is that of its first operand

  static constexpr Select from(const Words&, const Operands& operands) {
    const Shape y = operands[operands.count - 1];
    const Walk<2> of_a_and_b = broadcast_walk(operands[kA], operands[kB], y),
                  of_c = broadcast_walk(operands[kC], operands[kC], y);
    Select op;
    op.walk.rank = y.rank;
    for (int axis = 0; axis < y.rank; ++axis) {
      op.walk.size[axis] = y[axis];
      op.walk.stride[0][axis] = of_a_and_b.stride[0][axis];
      op.walk.stride[1][axis] = of_a_and_b.stride[1][axis];
      op.walk.stride[2][axis] = of_c.stride[0][axis];
    }
    return op;
  }

  template <class T>
  constexpr void forward(const T* a, const T* b, const Bool* c, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = c[at[2]].byte != 0 ? a[at[0]] : b[at[1]]; });
  }

  // Computes the broadcast dims of a, b and c.
  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    Dims numbers;
    NACRE_TRY_CODE(broadcast_shape(operands[kA], operands[kB], &numbers));
    return broadcast_shape(operands[kC], Shape{numbers.rank, numbers.size, 0}, y);
  }

  // Makes the attributes of select_gradient: {input, rank, dims} of a or b, so that they need not stay in memory.
  static constexpr int words_of_input(const Words&, const Operands& operands, int input, uint32_t* made) {
    made[0] = input == kB ? 1 : 0;
    return 1 + words_of_dims(operands[input], made + 1);
  }

  static constexpr const char* kInputs[] = {"a", "b", "c"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {{.of = kOf<kA>,
                                             .by = Op::kSelectGradient,
                                             .reads = kReads<gradient_of(0), input_of(kC)>,
                                             .words = &words_of_input},
                                            {.of = kOf<kB>,
                                             .by = Op::kSelectGradient,
                                             .reads = kReads<gradient_of(0), input_of(kC)>,
                                             .words = &words_of_input}};
};

struct SelectGradient {
  // The outer walk goes over x, which is a or b. The inner walk goes over the elements of y in which one element of x
  // is repeated. Offsets are into dy and c.
  Walk<2> outer, inner;
  bool when;  // the value of c that chooses x

  enum Word { kInput = 0, kRank = 1 };

  static constexpr SelectGradient from(const Words& words, const Operands& operands) {
    const Shape y = operands[0];
    const Walk<2> all = broadcast_walk(y, operands[1], y);
    SelectGradient op = {.outer = {}, .inner = {}, .when = words[kInput] == 0};
    Dims x;
    if (broadcast_source(words, kRank, y, &x) != Code::kOk) return op;  // the shape rule refuses it
    for (int axis = 0; axis < y.rank; ++axis) {
      const int i = axis - (y.rank - x.rank);
      const bool repeated = i < 0 || (x.size[i] == 1 && y[axis] != 1);
      Walk<2>& walk = repeated ? op.inner : op.outer;
      walk.size[walk.rank] = y[axis];
      for (int n = 0; n < 2; ++n) walk.stride[n][walk.rank] = all.stride[n][axis];
      ++walk.rank;
    }
    return op;
  }

  template <class T>
  constexpr void forward(const T* dy, const Bool* c, T* dx) const {
    using A = typename Element<T>::Accumulator;
    outer.each_independent([&](const int32_t* at, int e) {
      A sum = 0;
      inner.each([&](const int32_t* i) {
        if ((c[at[1] + i[1]].byte != 0) == when) sum += A(dy[at[0] + i[0]]);
      });
      dx[e] = T(sum);
    });
  }

  constexpr uint64_t work() const {
    uint64_t elements = 1;
    for (const Walk<2>* walk : {&outer, &inner})
      for (int i = 0; i < walk->rank; ++i) elements *= uint64_t(walk->size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0], c = operands[1];
    if (words[kInput] > 1) return Code::kAttribute;
    if (c.rank > y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < c.rank; ++axis)
      if (c[axis] != 1 && c[axis] != y[y.rank - c.rank + axis]) return Code::kShapeInput;
    return broadcast_source(words, kRank, y, dx);
  }

  static constexpr Attribute kAttributes[] = {{"input"}, {"rank"}, {"dims", Coding::kInteger, kMaxRank}};
  static constexpr const char* kInputs[] = {"dy", "c"};
  static constexpr const char* kOutputs[] = {"dx"};
};

inline constexpr OpRule kCompareRule = {.op = Op::kCompare,
                                        .name = "compare",
                                        .numerics = Numerics::kPointwise,
                                        .shapes = &Compare::shapes,
                                        .attributes = Compare::kAttributes,
                                        .inputs = Compare::kInputs,
                                        .outputs = Compare::kOutputs};
inline constexpr OpRule kSelectRule = {.op = Op::kSelect,
                                       .name = "select",
                                       .numerics = Numerics::kPointwise,
                                       .shapes = &Select::shapes,
                                       .attributes = {},
                                       .inputs = Select::kInputs,
                                       .outputs = Select::kOutputs,
                                       .gradients = Select::kGradients};
inline constexpr OpRule kSelectGradientRule = {.op = Op::kSelectGradient,
                                               .name = "select_gradient",
                                               .numerics = Numerics::kReduction,
                                               .shapes = &SelectGradient::shapes,
                                               .attributes = SelectGradient::kAttributes,
                                               .inputs = SelectGradient::kInputs,
                                               .outputs = SelectGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
