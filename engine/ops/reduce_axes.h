// Computes sums, products and extremes over any set of axes, as one op. Its attribute `function` says which.
//
//   y_j = f over i in axes of x_ij                         dx_ij
//
//   1 sum    sum_i x_ij                                    dy_j
//   2 max    max_i x_ij                                    dy_j / n_j if x_ij = y_j, for n_j such elements; else 0
//   3 min    min_i x_ij                                    as for max
//   4 prod   prod_i x_ij                                   dy_j prod_{k != i} x_kj
//
// If x contains a NaN, y is NaN, and the NaN takes the gradient of max and min. Equal elements share the gradient
// (TensorFlow, python/ops/math_grad.py, _MinOrMaxGrad). The product of the other elements is y_j / x_ij. If one x_ij is
// 0, the product of the rest is that of this element, and 0 that of all others.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/walk.h"

namespace nacre::inline NACRE_ISA {

struct Reduce {
  Walk<1> outer, inner;  // over y, and over the elements of x from which one element of y is made
  uint32_t function;

  enum Function : uint32_t {  // stored in files; 0 is refused
    kSum = 1,
    kMax = 2,
    kMin = 3,
    kProd = 4,
  };
  static constexpr uint32_t kLast = kProd;
  enum Word { kFunction = 0, kAxes = 1, kKeepDims = 2 };

  static constexpr Reduce of(const Words& words, Shape x) {
    Reduce op = {.outer = {}, .inner = {}, .function = words[kFunction]};
    for (int axis = 0; axis < x.rank; ++axis) {
      Walk<1>& walk = (words[kAxes] >> axis & 1) != 0 ? op.inner : op.outer;
      walk.size[walk.rank] = x[axis];
      walk.stride[0][walk.rank++] = stride_of(x, axis);
    }
    return op;
  }
  static constexpr Reduce from(const Words& words, const Operands& operands) { return of(words, operands[0]); }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    const auto each = [&](auto step) {  // the first element, then step(acc, the next) of the rest
      outer.each_independent([&](const int32_t* at, int e) {
        A acc = 0;
        bool first = true;
        inner.each([&](const int32_t* i) {
          const A v = A(x[at[0] + i[0]]);
          acc = first ? v : step(acc, v);
          first = false;
        });
        y[e] = T(acc);
      });
    };
    switch (function) {
      case kSum: return each([](A acc, A v) { return acc + v; });
      case kMax: return each([](A acc, A v) { return acc != acc || acc > v ? acc : v; });
      case kMin: return each([](A acc, A v) { return acc != acc || acc < v ? acc : v; });
      default: return each([](A acc, A v) { return acc * v; });
    }
  }

  constexpr uint64_t work() const {
    uint64_t elements = 1;
    for (const Walk<1>* walk : {&outer, &inner})
      for (int i = 0; i < walk->rank; ++i) elements *= uint64_t(walk->size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kFunction] == 0 || words[kFunction] > kLast || words[kKeepDims] > 1) return Code::kAttribute;
    if (words[kAxes] >> x.rank != 0) return Code::kAttributeAxis;
    for (int axis = 0; axis < x.rank; ++axis) {
      const bool reduced = (words[kAxes] >> axis & 1) != 0;
      if (!reduced || words[kKeepDims] != 0) y->push(reduced ? 1 : x[axis]);
    }
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"function"}, {"axes"}, {"keep_dims"}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kReduceGradient, .reads = kReads<gradient_of(0), input_of(0), output_of(0)>}};
};

struct ReduceGradient {
  Reduce forward_step;

  static constexpr ReduceGradient from(const Words& words, const Operands& operands) {
    return {Reduce::of(words, operands[1])};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* x, const T* y, T* dx) const {
    using A = typename Element<T>::Accumulator;
    forward_step.outer.each_independent([&](const int32_t* at, int e) {
      const A d = A(dy[e]), result = A(y[e]);
      const T* from = x + at[0];
      T* to = dx + at[0];
      switch (forward_step.function) {
        case Reduce::kSum: forward_step.inner.each([&](const int32_t* i) { to[i[0]] = T(d); }); break;
        case Reduce::kProd: product(d, from, to); break;
        default: share(d, result, from, to);
      }
    });
  }

  constexpr uint64_t work() const { return 2 * forward_step.work(); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape dy = operands[0], y = operands[2];
    Dims expected = {};
    NACRE_TRY_CODE(Reduce::shapes(words, {operands.tensor + 1, 1, operands.rows}, &expected));
    if (dy.rank != expected.rank || !same(dy, y)) return Code::kShapeInput;
    for (int axis = 0; axis < expected.rank; ++axis)
      if (dy[axis] != expected.size[axis]) return Code::kShapeInput;
    *dx = dims_of(operands[1]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy", "x", "y"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  template <class A, class T>
  constexpr void share(A d, A result, const T* x, T* dx) const {
    const auto takes = [&](A v) { return v == result || (v != v && result != result); };
    A count = 0;
    forward_step.inner.each([&](const int32_t* i) { count += A(takes(A(x[i[0]]))); });
    forward_step.inner.each([&](const int32_t* i) { dx[i[0]] = T(takes(A(x[i[0]])) ? d / count : A(0)); });
  }

  template <class A, class T>
  constexpr void product(A d, const T* x, T* dx) const {
    A rest = d;  // times all elements that are not 0
    int zeros = 0;
    forward_step.inner.each([&](const int32_t* i) {
      const A v = A(x[i[0]]);
      if (v == 0) ++zeros;
      else rest *= v;
    });
    forward_step.inner.each([&](const int32_t* i) {
      const A v = A(x[i[0]]);
      dx[i[0]] = T(zeros == 0 ? rest / v : zeros == 1 && v == 0 ? rest : A(0));
    });
  }
};

inline constexpr OpRule kReduceRule = {.op = Op::kReduce,
                                       .name = "reduce",
                                       .numerics = Numerics::kReduction,
                                       .shapes = &Reduce::shapes,
                                       .attributes = Reduce::kAttributes,
                                       .inputs = Reduce::kInputs,
                                       .outputs = Reduce::kOutputs,
                                       .gradients = Reduce::kGradients};
inline constexpr OpRule kReduceGradientRule = {.op = Op::kReduceGradient,
                                               .name = "reduce_gradient",
                                               .numerics = Numerics::kReduction,
                                               .shapes = &ReduceGradient::shapes,
                                               .attributes = Reduce::kAttributes,
                                               .inputs = ReduceGradient::kInputs,
                                               .outputs = ReduceGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
