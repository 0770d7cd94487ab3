// Defines sums, differences and products of two arrays, broadcast as in numpy: dims are aligned at the last axis, and
// a dim of 1 is repeated.
//
//   a, b, y of at most 8 dims
//
//   add  y = clamp(a + b)     sub  y = clamp(a - b)     mul  y = clamp(a b)                      float
//   add  y = a + b            sub  y = a - b            mul  y = a b         modulo 2^bits       int32, int64
//
//   add, sub  y = clamp(zero_y + (A +- B) M_y), A = (a - zero_a) 2^left_shift M_a, B alike    NUMERICS.md eq. 6
//   mul       y = clamp(zero_y + (a - zero_a) (b - zero_b) M)                                 NUMERICS.md eq. 7
//             int8, and int16 with zero points 0
//
// requant holds pairs int32 [3, 2] with rows M_a, M_b, M_y; that of a product is [1, 2].
//
// Backward, without a clamp. R_a is the set of axes along which a was repeated:
//
//   add  da = sum_{R_a} dy      sub  db = -sum_{R_b} dy (sum_to)      mul  da = sum_{R_a} dy b (mul_gradient), db alike
//
// If a or b of add is a constant, it is a parameter, and its gradient is made by bias_gradient.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/walk.h"

namespace nacre::inline NACRE_ISA {

constexpr bool is_whole_number(ElementType element) {
  return element == ElementType::kInt32 || element == ElementType::kInt64;
}

// Checks the clamp. Its bounds are real numbers or codes; steps on int32 and int64 have no clamp.
constexpr Code check_whole(const Words& words, int clamp, ElementType element) {
  return is_whole_number(element) && words[clamp] != Clamp::kNone ? Code::kAttribute : Code::kOk;
}

// Writes the shape of a broadcast pair. Returns kShapeInput or kOverflow if the pair cannot be broadcast.
constexpr Code broadcast_shape(Shape a, Shape b, Dims* y) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  *y = {};
  for (int axis = 0; axis < rank; ++axis) {
    const int i = axis - (rank - a.rank), j = axis - (rank - b.rank);
    const int size_a = i < 0 ? 1 : a[i], size_b = j < 0 ? 1 : b[j];
    if (size_a != size_b && size_a != 1 && size_b != 1) return Code::kShapeInput;
    y->push(size_a == 1 ? size_b : size_a);
  }
  int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis)
    if ((elements *= y->size[axis]) > INT32_MAX) return Code::kOverflow;
  return Code::kOk;
}

constexpr Walk<2> broadcast_walk(Shape a, Shape b, Shape y) {
  Walk<2> walk;
  walk.rank = y.rank;
  for (int axis = 0; axis < y.rank; ++axis) {
    walk.size[axis] = y[axis];
    const int i = axis - (y.rank - a.rank), j = axis - (y.rank - b.rank);
    walk.stride[0][axis] = i < 0 || a[i] == 1 ? 0 : stride_of(a, i);
    walk.stride[1][axis] = j < 0 || b[j] == 1 ? 0 : stride_of(b, j);
  }
  return walk;
}

// Returns multiply(v, requant) as a code of y.
template <Rounding kRounding, class Q>
constexpr Q to_code(int32_t v, const int32_t* requant, int y_zero, const Clamp& clamp) {
  return clamp.code<Q>(wrapping_add(multiply<kRounding>(v, {requant[0], requant[1]}), y_zero));
}

struct Sum {  // add and sub
  Walk<2> walk;
  Clamp clamp;
  int a_zero, b_zero, y_zero, left_shift;

  enum Word { kClamp = 0, kAZero = 3, kBZero = 4, kYZero = 5, kLeftShift = 6 };
  enum Operand { kA, kB, kRequant };

  static constexpr Sum from(const Words& words, const Operands& operands) {
    return {.walk = broadcast_walk(operands[kA], operands[kB], operands[operands.count - 1]),
            .clamp = Clamp::from(words, kClamp),
            .a_zero = words.integer(kAZero),
            .b_zero = words.integer(kBZero),
            .y_zero = words.integer(kYZero),
            .left_shift = words.integer(kLeftShift)};
  }

  template <class T>
  constexpr void add(const T* a, const T* b, T* y) const {
    using A = typename Element<T>::Accumulator;
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(clamp.real(A(a[at[0]]) + A(b[at[1]]))); });
  }
  template <class T>
  constexpr void sub(const T* a, const T* b, T* y) const {
    using A = typename Element<T>::Accumulator;
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(clamp.real(A(a[at[0]]) - A(b[at[1]]))); });
  }

  template <class T>
  constexpr void add_whole(const T* a, const T* b, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(uint64_t(a[at[0]]) + uint64_t(b[at[1]])); });
  }
  template <class T>
  constexpr void sub_whole(const T* a, const T* b, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(uint64_t(a[at[0]]) - uint64_t(b[at[1]])); });
  }

  template <Rounding kRounding, class Q = int8_t>
  constexpr void add_codes(const Q* a, const Q* b, const int32_t* requant, Q* y) const {
    walk.each_independent([&](const int32_t* at, int e) {
      const int32_t sum = wrapping_add(scaled<kRounding>(a[at[0]] - a_zero, requant),
                                       scaled<kRounding>(b[at[1]] - b_zero, requant + 2));
      y[e] = to_code<kRounding, Q>(sum, requant + 4, y_zero, clamp);
    });
  }
  template <Rounding kRounding, class Q = int8_t>
  constexpr void sub_codes(const Q* a, const Q* b, const int32_t* requant, Q* y) const {
    walk.each_independent([&](const int32_t* at, int e) {
      const int32_t difference = wrapping_sub(scaled<kRounding>(a[at[0]] - a_zero, requant),
                                              scaled<kRounding>(b[at[1]] - b_zero, requant + 2));
      y[e] = to_code<kRounding, Q>(difference, requant + 4, y_zero, clamp);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const ElementType codes = operands.element(kA);
    for (const int word : {kAZero, kBZero, kYZero}) NACRE_TRY_CODE(check_zero(words.integer(word), codes));
    // For int8, 255 * 2^22 < 2^30; for int16, 2^15 * 2^15 = 2^30. So a shifted code and the sum of two of them fit
    // into int32.
    const uint32_t most = codes == ElementType::kInt8 ? 22 : codes == ElementType::kInt16 ? 15 : 0;
    if (words[kLeftShift] > most) return Code::kAttribute;
    NACRE_TRY_CODE(check_clamp(words, kClamp, codes));
    NACRE_TRY_CODE(check_whole(words, kClamp, codes));
    NACRE_TRY_CODE(check_pairs(operands, kRequant, 3));
    return broadcast_shape(operands[kA], operands[kB], y);
  }

  static constexpr auto kAttributes = joined(kClampAttributes, {{"a_zero"}, {"b_zero"}, {"y_zero"}, {"left_shift"}});
  static constexpr const char* kInputs[] = {"a", "b", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kAddGradients[] = {
      {.of = kOf<kA>, .by = Op::kSumTo, .reads = kReads<gradient_of(0)>, .words = &sum_words<kClamp>},
      {.of = kOf<kB>, .by = Op::kSumTo, .reads = kReads<gradient_of(0)>, .words = &sum_words<kClamp>},
      {.of = kOf<kA>,
       .by = Op::kBiasGradient,
       .reads = kReads<gradient_of(0)>,
       .adds = true,
       .words = &bias_words<kClamp>},
      {.of = kOf<kB>,
       .by = Op::kBiasGradient,
       .reads = kReads<gradient_of(0)>,
       .adds = true,
       .words = &bias_words<kClamp>}};
  static constexpr Gradient kSubGradients[] = {
      {.of = kOf<kA>, .by = Op::kSumTo, .reads = kReads<gradient_of(0)>, .words = &sum_words<kClamp>},
      {.of = kOf<kB>, .by = Op::kSumTo, .reads = kReads<gradient_of(0)>, .words = &sum_words<kClamp, true>}};

 private:
  template <Rounding kRounding>
  constexpr int32_t scaled(int32_t difference, const int32_t* requant) const {
    return multiply<kRounding>(wrapping_shift_left(difference, left_shift), {requant[0], requant[1]});
  }
};

struct Product {  // mul
  Walk<2> walk;
  Clamp clamp;
  int a_zero, b_zero, y_zero;

  enum Word { kClamp = 0, kAZero = 3, kBZero = 4, kYZero = 5 };
  enum Operand { kA, kB, kRequant };

  static constexpr Product from(const Words& words, const Operands& operands) {
    return {.walk = broadcast_walk(operands[kA], operands[kB], operands[operands.count - 1]),
            .clamp = Clamp::from(words, kClamp),
            .a_zero = words.integer(kAZero),
            .b_zero = words.integer(kBZero),
            .y_zero = words.integer(kYZero)};
  }

  template <class T>
  constexpr void forward(const T* a, const T* b, T* y) const {
    using A = typename Element<T>::Accumulator;
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(clamp.real(A(a[at[0]]) * A(b[at[1]]))); });
  }

  template <class T>
  constexpr void forward_whole(const T* a, const T* b, T* y) const {
    walk.each_independent([&](const int32_t* at, int e) { y[e] = T(uint64_t(a[at[0]]) * uint64_t(b[at[1]])); });
  }

  template <Rounding kRounding, class Q = int8_t>
  constexpr void forward_codes(const Q* a, const Q* b, const int32_t* requant, Q* y) const {
    walk.each_independent([&](const int32_t* at, int e) {
      y[e] = to_code<kRounding, Q>((a[at[0]] - a_zero) * (b[at[1]] - b_zero), requant, y_zero, clamp);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const ElementType codes = operands.element(kA);
    for (const int word : {kAZero, kBZero, kYZero}) NACRE_TRY_CODE(check_zero(words.integer(word), codes));
    NACRE_TRY_CODE(check_clamp(words, kClamp, codes));
    NACRE_TRY_CODE(check_whole(words, kClamp, codes));
    NACRE_TRY_CODE(check_pairs(operands, kRequant, 1));
    return broadcast_shape(operands[kA], operands[kB], y);
  }

  static constexpr auto kAttributes = joined(kClampAttributes, {{"a_zero"}, {"b_zero"}, {"y_zero"}});
  static constexpr const char* kInputs[] = {"a", "b", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {{.of = kOf<kA>,
                                             .by = Op::kMulGradient,
                                             .reads = kReads<gradient_of(0), input_of(kB)>,
                                             .words = &sum_words<kClamp>},
                                            {.of = kOf<kB>,
                                             .by = Op::kMulGradient,
                                             .reads = kReads<gradient_of(0), input_of(kA)>,
                                             .words = &sum_words<kClamp>}};
};

struct MulGradient {
  Walk<2> outer, inner;  // over a; over the elements of y in which one element of a is repeated; offsets into dy and b

  static constexpr MulGradient from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], b = operands[1];
    const Walk<2> all = broadcast_walk(y, b, y);
    MulGradient op;
    Dims a;
    if (broadcast_source(words, SumTo::kRank, y, &a) != Code::kOk) return op;  // the shape rule refuses it
    for (int axis = 0; axis < y.rank; ++axis) {
      const int i = axis - (y.rank - a.rank);
      const bool repeated = i < 0 || (a.size[i] == 1 && y[axis] != 1);
      Walk<2>& walk = repeated ? op.inner : op.outer;
      walk.size[walk.rank] = y[axis];
      for (int n = 0; n < 2; ++n) walk.stride[n][walk.rank] = all.stride[n][axis];
      ++walk.rank;
    }
    return op;
  }

  template <class T>
  constexpr void forward(const T* dy, const T* b, T* da) const {
    using A = typename Element<T>::Accumulator;
    outer.each_independent([&](const int32_t* at, int e) {
      A sum = 0;
      inner.each([&](const int32_t* i) { sum += A(dy[at[0] + i[0]]) * A(b[at[1] + i[1]]); });
      da[e] = T(sum);
    });
  }

  constexpr uint64_t work() const {
    uint64_t elements = 1;
    for (int i = 0; i < outer.rank; ++i) elements *= uint64_t(outer.size[i]);
    for (int i = 0; i < inner.rank; ++i) elements *= uint64_t(inner.size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* da) {
    const Shape y = operands[0], b = operands[1];
    NACRE_TRY_CODE(SumTo::shapes(words, operands, da));
    if (words[SumTo::kNegative] != 0) return Code::kAttribute;
    if (b.rank > y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < b.rank; ++axis)
      if (b[axis] != 1 && b[axis] != y[y.rank - b.rank + axis]) return Code::kShapeInput;
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy", "b"};
  static constexpr const char* kOutputs[] = {"da"};
};

inline constexpr OpRule kAddRule = {.op = Op::kAdd,
                                    .name = "add",
                                    .numerics = Numerics::kPointwise,
                                    .shapes = &Sum::shapes,
                                    .attributes = Sum::kAttributes,
                                    .inputs = Sum::kInputs,
                                    .outputs = Sum::kOutputs,
                                    .gradients = Sum::kAddGradients,
                                    .parameters = 1u << Sum::kA | 1u << Sum::kB};
inline constexpr OpRule kSubRule = {.op = Op::kSub,
                                    .name = "sub",
                                    .numerics = Numerics::kPointwise,
                                    .shapes = &Sum::shapes,
                                    .attributes = Sum::kAttributes,
                                    .inputs = Sum::kInputs,
                                    .outputs = Sum::kOutputs,
                                    .gradients = Sum::kSubGradients};
inline constexpr OpRule kMulRule = {.op = Op::kMul,
                                    .name = "mul",
                                    .numerics = Numerics::kPointwise,
                                    .shapes = &Product::shapes,
                                    .attributes = Product::kAttributes,
                                    .inputs = Product::kInputs,
                                    .outputs = Product::kOutputs,
                                    .gradients = Product::kGradients};
inline constexpr OpRule kMulGradientRule = {.op = Op::kMulGradient,
                                            .name = "mul_gradient",
                                            .numerics = Numerics::kReduction,
                                            .shapes = &MulGradient::shapes,
                                            .attributes = SumTo::kAttributes,
                                            .inputs = MulGradient::kInputs,
                                            .outputs = MulGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
