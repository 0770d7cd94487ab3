// The fused float epilogue of dense and the convolutions: a residual r and an activation, in the step that makes the
// sum s of an output's products.
//
//   y_i = T(f(A(T(A(T(s + b_k)) + A(r_i)))))      T the type of every operand, A its accumulator
//
// as the steps matmul, add and activation would store it, each rounding to T. Without r that sum and its rounding are
// left out. The words {kind, low, high} name f (Clamp::Kind); low is alpha of leaky_relu. Bounds, those of the op add,
// stand before the rounding of the sum instead: T(clamp(A(T(s + b_k)) + A(r_i))).
//
// A header, and entries, of their own: what links a float epilogue or an int8 one links no exp and no erfc.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/parameters.h"
#include "engine/ops/real_functions.h"

namespace nacre::inline NACRE_ISA {

struct FusedEpilogue {
  Clamp clamp;

  // Finishes the sum of output channel k, element i of y.
  template <class T, class A>
  constexpr T real(A sum, Optional<const T> b, int k, Optional<const T> residual, int i) const {
    A v = b ? sum + A(b[k]) : sum;
    if (residual) v = A(T(v)) + A(residual[i]);
    return clamp.kind <= Clamp::kBounds ? T(clamp.real(v)) : T(function(A(T(v))));
  }

 private:
  template <class A>
  constexpr A function(A v) const {
    switch (clamp.kind) {
      case Clamp::kLeakyRelu: return RealFunction::leaky_relu(v, A(std::bit_cast<float>(clamp.low)));
      case Clamp::kSigmoid: return RealFunction::sigmoid(v);
      case Clamp::kTanh: return RealFunction::tanh(v);
      case Clamp::kHardSwish: return RealFunction::hard_swish(v);
      case Clamp::kSilu: return RealFunction::silu(v);
      default: return RealFunction::gelu(v, clamp.kind == Clamp::kGeluTanh);
    }
  }
};

// Words of a function, of a kind above kBounds.
constexpr Code check_function(const Clamp& function) {
  if (function.kind > Clamp::kGeluTanh || function.high != 0) return Code::kAttribute;
  const bool fits = function.kind == Clamp::kLeakyRelu ? is_finite(function.low) : function.low == 0;
  return fits ? Code::kOk : Code::kAttribute;
}

// The shape rule of the fused form of op O: that of the float form, but for the function; the residual is as y. A step
// without a residual and a function is the float form's: no step fits two forms.
template <class O>
constexpr Code fused_shapes(const Words& words, const Operands& operands, Dims* y) {
  constexpr int kCount = O::kBlock + 1;
  uint32_t plain[size_t(kCount)];
  for (int i = 0; i < kCount; ++i) plain[i] = words[i];
  const Clamp function = Clamp::from(words, O::kClamp);
  const bool residual = operands.has(O::kResidual);
  if (function.kind > Clamp::kBounds) {
    NACRE_TRY_CODE(check_function(function));
    for (int i = 0; i < 3; ++i) plain[O::kClamp + i] = 0;
  } else if (!residual) {
    return Code::kAttribute;
  }
  NACRE_TRY_CODE(O::shapes({plain, kCount}, {operands.tensor, O::kResidual, operands.rows}, y));
  if (!residual) return Code::kOk;
  const Shape r = operands[O::kResidual];
  bool fits = r.rank == y->rank;
  for (int axis = 0; fits && axis < r.rank; ++axis) fits = r[axis] == y->size[axis];
  return fits ? Code::kOk : Code::kShapeInput;
}

// The rule of O for the tools, who know a step's form by its operands: fused where x, w and a residual are of one float
// type, or where x and w are and there is a function.
template <class O>
constexpr Code shapes_of_form(const Words& words, const Operands& operands, Dims* y) {
  const ElementType type = operands.element(O::kX);
  const bool real = type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
                    type == ElementType::kFloat64;
  const bool more =
      words[O::kClamp] > Clamp::kBounds || (operands.has(O::kResidual) && operands.element(O::kResidual) == type);
  const bool fused = real && more && operands.element(O::kW) == type;
  return fused ? fused_shapes<O>(words, operands, y) : O::shapes(words, operands, y);
}

}  // namespace nacre::inline NACRE_ISA
