// The fused float epilogue of dense and the convolutions. The step that makes the sum s of an output's products also
// adds a residual r and applies an activation.
//
//   y_i = T(f(A(T(A(T(s + b_k)) + A(r_i)))))      T the type of every operand, A its accumulator
//
// This is what the steps matmul, add and activation would store, each rounding to T. Without r, the addition and its
// rounding are left out. The words {kind, low, high} name f (Clamp::Kind); low is alpha of leaky_relu. Bounds, which
// are those of the op add, are applied before the sum is rounded: T(clamp(A(T(s + b_k)) + A(r_i))).
//
// This header and its kernels are separate, so that firmware with only a float or an int8 epilogue links no exp and
// no erfc.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/parameters.h"
#include "engine/ops/real_functions.h"

namespace nacre::inline NACRE_ISA {

struct FusedEpilogue {
  Clamp clamp;

  // Finishes the sum of output channel k, which becomes element i of y.
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

// Checks the words of a function, whose kind is above kBounds.
constexpr Code check_function(const Clamp& function) {
  if (function.kind > Clamp::kGeluTanh || function.high != 0) return Code::kAttribute;
  const bool fits = function.kind == Clamp::kLeakyRelu ? is_finite(function.low) : function.low == 0;
  return fits ? Code::kOk : Code::kAttribute;
}

// The shape rule of the fused form of op O. It is that of the float form, except for the function; the residual has
// the shape of y. A step with neither residual nor function belongs to the float form, so no step fits two forms.
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

// The shape rule of op O for all its forms, which the operands tell apart. The step is fused if x and w are of one
// float type and there is a function, or a residual of that type.
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
