// Defines smooth relatives of relu: x times a gate that depends on x.
//
//   gelu   y = x Phi(x), Phi the standard normal distribution.  Hendrycks & Gimpel 2016, arXiv:1606.08415
//     erf    Phi(x) = erfc(-x / sqrt(2)) / 2
//     tanh   Phi(x) = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)),  u = sqrt(2/pi) (x + 0.044715 x^3)
//   silu   y = x s,  s = 1 / (1 + exp(-x))                        ibid., section 2; also called swish
//
// Both forms of Phi keep their digits if Phi is small. Computed by 1 + erf or 1 + tanh, they would lose them.
//
// Backward, from x:
//
//   gelu erf    dx = dy (Phi + x exp(-x^2 / 2) / sqrt(2 pi))
//   gelu tanh   dx = dy (Phi + x Phi (1 - Phi) 2 u'),  u' = sqrt(2/pi) (1 + 3 0.044715 x^2)
//   silu        dx = dy s (1 + x (1 - s))
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"
#include "engine/ops/real_functions.h"

namespace nacre::inline NACRE_ISA {

struct Gelu {
  int elements;
  bool tanh;

  static constexpr double kInverseSqrt2Pi = 0.39894228040143267794;  // 1 / sqrt(2 pi)

  static constexpr Gelu from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(), .tanh = words[0] != 0};
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) y[i] = T(RealFunction::gelu(A(x[i]), tanh));
  }

  template <class T>
  constexpr void gradient(const T* x, const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) dx[i] = T(A(dy[i]) * slope(A(x[i])));
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[0] > 1) return Code::kAttribute;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    return same(operands[0], operands[1]) ? shapes(words, operands, dx) : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"tanh"}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kGradientInputs[] = {"x", "dy"};
  static constexpr const char* kGradientOutputs[] = {"dx"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kGeluGradient, .reads = kReads<input_of(0), gradient_of(0)>}};

 private:
  template <class A>
  constexpr A slope(A x) const {
    constexpr double kSlope = RealFunction::kSqrt2OverPi, kCubic = RealFunction::kGeluCubic;
    const A phi = RealFunction::gelu_gate(x, tanh);
    if (!tanh) return phi + x * std::exp(-x * x / 2) * A(kInverseSqrt2Pi);
    const A bend = phi * (1 - phi);  // far from 0, where x^2 may be infinite, it is 0
    return bend == 0 ? phi : phi + x * bend * 2 * A(kSlope) * (1 + 3 * A(kCubic) * x * x);
  }
};

struct Silu {
  int elements;

  static constexpr Silu from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) y[i] = T(RealFunction::silu(A(x[i])));
  }

  template <class T>
  constexpr void gradient(const T* x, const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) {
      const A v = A(x[i]), s = 1 / (1 + std::exp(-v));
      dx[i] = T(A(dy[i]) * s * (1 + v * (1 - s)));
    }
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    *y = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    return same(operands[0], operands[1]) ? shapes(words, operands, dx) : Code::kShapeInput;
  }

  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kSiluGradient, .reads = kReads<input_of(0), gradient_of(0)>}};
};

inline constexpr OpRule kGeluRule = {.op = Op::kGelu,
                                     .name = "gelu",
                                     .numerics = Numerics::kPointwise,
                                     .shapes = &Gelu::shapes,
                                     .attributes = Gelu::kAttributes,
                                     .inputs = Gelu::kInputs,
                                     .outputs = Gelu::kOutputs,
                                     .gradients = Gelu::kGradients};
inline constexpr OpRule kSiluRule = {.op = Op::kSilu,
                                     .name = "silu",
                                     .numerics = Numerics::kPointwise,
                                     .shapes = &Silu::shapes,
                                     .attributes = {},
                                     .inputs = Gelu::kInputs,
                                     .outputs = Gelu::kOutputs,
                                     .gradients = Silu::kGradients};
inline constexpr OpRule kGeluGradientRule = {.op = Op::kGeluGradient,
                                             .name = "gelu_gradient",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &Gelu::shapes_gradient,
                                             .attributes = Gelu::kAttributes,
                                             .inputs = Gelu::kGradientInputs,
                                             .outputs = Gelu::kGradientOutputs};
inline constexpr OpRule kSiluGradientRule = {.op = Op::kSiluGradient,
                                             .name = "silu_gradient",
                                             .numerics = Numerics::kPointwise,
                                             .shapes = &Silu::shapes_gradient,
                                             .attributes = {},
                                             .inputs = Gelu::kGradientInputs,
                                             .outputs = Gelu::kGradientOutputs};

}  // namespace nacre::inline NACRE_ISA
