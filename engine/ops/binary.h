// Defines functions of two real numbers, broadcast as in numpy (elementwise.h), as one op. Its attribute `function`
// says which.
//
//   a, b, y of at most 8 dims                     da = sum_{R_a} dy times              db = sum_{R_b} dy times
//
//   1 div                  a / b                  1 / b                                -a / b^2
//   2 pow                  a^b                    b a^(b - 1), 0 for b = 0             a^b ln a, 0 for a <= 0
//   3 maximum              the larger             1 for a >= b, else 0                 0 for a >= b, else 1
//   4 minimum              the smaller            1 for a <= b, else 0                 0 for a <= b, else 1
//   5 squared_difference   (a - b)^2              2 (a - b)                            -2 (a - b)
//   6 floor_div            floor(a / b)           0                                    0
//
// R_a is the set of axes along which a was repeated. The gradients of pow, maximum and minimum are TensorFlow's
// (python/ops/math_grad.py: _PowGrad, _MaximumMinimumGrad). If a or b is NaN, y is NaN; but pow(1, b) and pow(a, 0)
// are 1.
//
// int32 and int64 compute these functions modulo 2^bits, without gradients. div rounds towards 0; div and floor_div
// by 0 give 0. pow with b < 0 is 1 / a^|b| rounded towards 0, and 0 for a = 0. Integers have five more functions:
//
//   7 and, 8 or, 9 xor     of each bit
//   10 shift_left          a 2^b, 0 for b outside [0, bits)
//   11 shift_right         floor(a / 2^b) of a without a sign, 0 for b outside [0, bits)
#pragma once

#include <cmath>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/ops/elementwise.h"

namespace nacre::inline NACRE_ISA {

struct Binary {
  Walk<2> walk;
  uint32_t function;

  enum Function : uint32_t {  // stored in files; 0 is refused
    kDiv = 1,
    kPow = 2,
    kMaximum = 3,
    kMinimum = 4,
    kSquaredDifference = 5,
    kFloorDiv = 6,
    kAnd = 7,
    kOr = 8,
    kXor = 9,
    kShiftLeft = 10,
    kShiftRight = 11,
  };
  static constexpr uint32_t kLast = kFloorDiv, kLastOfWhole = kShiftRight;
  enum Word { kFunction = 0, kInput = 1 };  // kInput, of the gradient step: 0 for da, 1 for db

  static constexpr Binary from(const Words& words, const Operands& operands) {
    return {.walk = broadcast_walk(operands[0], operands[1], operands[operands.count - 1]),
            .function = words[kFunction]};
  }

  template <class T>
  constexpr void forward(const T* a, const T* b, T* y) const {
    using A = typename Element<T>::Accumulator;
    const auto each = [&](auto f) {
      walk.each_independent([&](const int32_t* at, int e) { y[e] = T(f(A(a[at[0]]), A(b[at[1]]))); });
    };
    switch (function) {
      case kDiv: return each([](A u, A v) { return u / v; });
      case kPow: return each([](A u, A v) { return std::pow(u, v); });
      case kMaximum: return each([](A u, A v) { return u != u || u > v ? u : v; });
      case kMinimum: return each([](A u, A v) { return u != u || u < v ? u : v; });
      case kSquaredDifference: return each([](A u, A v) { return (u - v) * (u - v); });
      default: return each([](A u, A v) { return std::floor(u / v); });
    }
  }

  // Sums and products are computed unsigned, so they cannot overflow.
  template <class T>
  constexpr void forward_whole(const T* a, const T* b, T* y) const {
    using U = std::make_unsigned_t<T>;
    constexpr U kBits = 8 * sizeof(T);
    const auto each = [&](auto f) {
      walk.each_independent([&](const int32_t* at, int e) { y[e] = T(f(a[at[0]], b[at[1]])); });
    };
    switch (function) {
      case kDiv: return each([](T u, T v) { return quotient(u, v); });
      case kPow: return each([](T u, T v) { return power(u, v); });
      case kMaximum: return each([](T u, T v) { return u > v ? u : v; });
      case kMinimum: return each([](T u, T v) { return u < v ? u : v; });
      case kSquaredDifference: return each([](T u, T v) { return (U(u) - U(v)) * (U(u) - U(v)); });
      case kFloorDiv: return each([](T u, T v) { return floor_quotient(u, v); });
      case kAnd: return each([](T u, T v) { return u & v; });
      case kOr: return each([](T u, T v) { return u | v; });
      case kXor: return each([](T u, T v) { return u ^ v; });
      case kShiftLeft: return each([](T u, T v) { return U(v) < kBits ? U(u) << U(v) : U(0); });
      default: return each([](T u, T v) { return U(v) < kBits ? U(u) >> U(v) : U(0); });
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const uint32_t last = is_whole_number(operands.element(0)) ? kLastOfWhole : kLast;
    if (words[kFunction] == 0 || words[kFunction] > last) return Code::kAttribute;
    return broadcast_shape(operands[0], operands[1], y);
  }

  static constexpr int words_of_gradient(const Words& words, const Operands&, int input, uint32_t* made) {
    made[kFunction] = words[kFunction];
    made[kInput] = uint32_t(input);
    return 2;
  }

  static constexpr Attribute kAttributes[] = {{"function"}};
  static constexpr const char* kInputs[] = {"a", "b"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {{.of = kOf<0>,
                                             .by = Op::kBinaryGradient,
                                             .reads = kReads<gradient_of(0), input_of(0), input_of(1)>,
                                             .words = &words_of_gradient},
                                            {.of = kOf<1>,
                                             .by = Op::kBinaryGradient,
                                             .reads = kReads<gradient_of(0), input_of(0), input_of(1)>,
                                             .words = &words_of_gradient}};

 private:
  template <class T>
  static constexpr T quotient(T u, T v) {
    using U = std::make_unsigned_t<T>;
    if (v == 0) return 0;
    return v == -1 ? T(U(0) - U(u)) : T(u / v);  // the lowest number / -1 would overflow
  }
  template <class T>
  static constexpr T floor_quotient(T u, T v) {
    const T q = quotient(u, v);
    const bool between = v != 0 && v != -1 && u % v != 0;
    return between && (u < 0) != (v < 0) ? T(q - 1) : q;
  }
  template <class T>
  static constexpr T power(T u, T v) {
    using U = std::make_unsigned_t<T>;
    if (v < 0) return u == 1 ? T(1) : u == -1 ? T(v % 2 == 0 ? 1 : -1) : T(0);
    U result = 1, square = U(u);
    for (; v > 0; v = T(v >> 1), square *= square)
      if ((v & 1) != 0) result *= square;
    return T(result);
  }
};

struct BinaryGradient {
  // The outer walk goes over x, which is a or b. The inner walk goes over the elements of y in which one element of x
  // is repeated. Offsets are into dy, a and b.
  Walk<3> outer, inner;
  uint32_t function, input;

  static constexpr BinaryGradient from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], a = operands[1], b = operands[2];
    const bool second = words[Binary::kInput] != 0;
    const Walk<2> of_a = broadcast_walk(y, a, y), of_b = broadcast_walk(y, b, y);
    const Shape x = second ? b : a;
    BinaryGradient op = {
        .outer = {}, .inner = {}, .function = words[Binary::kFunction], .input = words[Binary::kInput]};
    for (int axis = 0; axis < y.rank; ++axis) {
      const int i = axis - (y.rank - x.rank);
      const bool repeated = i < 0 || (x[i] == 1 && y[axis] != 1);
      Walk<3>& walk = repeated ? op.inner : op.outer;
      walk.size[walk.rank] = y[axis];
      walk.stride[0][walk.rank] = of_a.stride[0][axis];
      walk.stride[1][walk.rank] = of_a.stride[1][axis];
      walk.stride[2][walk.rank++] = of_b.stride[1][axis];
    }
    return op;
  }

  template <class T>
  constexpr void forward(const T* dy, const T* a, const T* b, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const auto each = [&](auto slope) {  // dx = sum dy slope(a, b)
      outer.each_independent([&](const int32_t* at, int e) {
        A sum = 0;
        inner.each(
            [&](const int32_t* i) { sum += A(dy[at[0] + i[0]]) * slope(A(a[at[1] + i[1]]), A(b[at[2] + i[2]])); });
        dx[e] = T(sum);
      });
    };
    const bool second = input != 0;
    switch (function) {
      case Binary::kDiv: return each([=](A u, A v) { return second ? -u / (v * v) : 1 / v; });
      case Binary::kPow: return each([=](A u, A v) { return second ? of_exponent(u, v) : of_base(u, v); });
      case Binary::kMaximum: return each([=](A u, A v) { return A((u != u || u >= v) != second); });
      case Binary::kMinimum: return each([=](A u, A v) { return A((u != u || u <= v) != second); });
      case Binary::kSquaredDifference: return each([=](A u, A v) { return second ? 2 * (v - u) : 2 * (u - v); });
      default: return each([](A, A) { return A(0); });
    }
  }

  constexpr uint64_t work() const {
    uint64_t elements = 1;
    for (int i = 0; i < outer.rank; ++i) elements *= uint64_t(outer.size[i]);
    for (int i = 0; i < inner.rank; ++i) elements *= uint64_t(inner.size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    if (words[Binary::kInput] > 1) return Code::kAttribute;
    Dims y;
    NACRE_TRY_CODE(Binary::shapes(words, {operands.tensor + 1, operands.count - 1, operands.rows}, &y));
    const Shape dy = operands[0];
    if (dy.rank != y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < y.rank; ++axis)
      if (dy[axis] != y.size[axis]) return Code::kShapeInput;
    *dx = dims_of(operands[words[Binary::kInput] != 0 ? 2 : 1]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"function"}, {"input"}};
  static constexpr const char* kInputs[] = {"dy", "a", "b"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  template <class A>
  static constexpr A of_base(A u, A v) {
    return v == 0 ? A(0) : v * std::pow(u, v - 1);
  }
  template <class A>
  static constexpr A of_exponent(A u, A v) {
    return u <= 0 ? A(0) : std::pow(u, v) * std::log(u);
  }
};

inline constexpr OpRule kBinaryRule = {.op = Op::kBinary,
                                       .name = "binary",
                                       .numerics = Numerics::kPointwise,
                                       .shapes = &Binary::shapes,
                                       .attributes = Binary::kAttributes,
                                       .inputs = Binary::kInputs,
                                       .outputs = Binary::kOutputs,
                                       .gradients = Binary::kGradients};
inline constexpr OpRule kBinaryGradientRule = {.op = Op::kBinaryGradient,
                                               .name = "binary_gradient",
                                               .numerics = Numerics::kReduction,
                                               .shapes = &BinaryGradient::shapes,
                                               .attributes = BinaryGradient::kAttributes,
                                               .inputs = BinaryGradient::kInputs,
                                               .outputs = BinaryGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
