// Defines functions of one real number, each once. The ops of activation.h and gelu.h and the fused epilogue call the
// same function, so they give the same bits.
//
//   leaky_relu   v for v > 0, else alpha v
//   sigmoid      1 / (1 + exp(-v));  tanh is std::tanh
//   hard_swish   v min(max(v + 3, 0), 6) / 6
//   silu         v / (1 + exp(-v))
//   gelu         v Phi(v); gelu_gate is Phi, in its form with erfc or in the one with tanh: gelu.h
#pragma once

#include <cmath>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

struct RealFunction {                                             // A: float or double
  static constexpr double kSqrtHalf = 0.70710678118654752440;     // sqrt(1/2)
  static constexpr double kSqrt2OverPi = 0.79788456080286535588;  // sqrt(2/pi)
  static constexpr double kGeluCubic = 0.044715;                  // the cubic coefficient of the paper

  template <class A>
  static constexpr A leaky_relu(A v, A alpha) {
    return v > 0 ? v : alpha * v;
  }
  template <class A>
  static constexpr A sigmoid(A v) {
    return 1 / (1 + std::exp(-v));
  }
  template <class A>
  static constexpr A tanh(A v) {
    return std::tanh(v);
  }
  template <class A>
  static constexpr A hard_swish(A v) {
    const A shifted = v + 3, gate = shifted < 0 ? 0 : shifted > 6 ? 6 : shifted;
    return v * gate / 6;
  }
  template <class A>
  static constexpr A silu(A v) {
    return v / (1 + std::exp(-v));
  }
  template <class A>
  static constexpr A gelu_gate(A v, bool tanh) {
    if (!tanh) return A(0.5) * std::erfc(-v * A(kSqrtHalf));
    return 1 / (1 + std::exp(-2 * A(kSqrt2OverPi) * (v + A(kGeluCubic) * v * v * v)));
  }
  template <class A>
  static constexpr A gelu(A v, bool tanh) {
    return v * gelu_gate(v, tanh);
  }
};

}  // namespace nacre::inline NACRE_ISA
