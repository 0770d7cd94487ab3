// Defines functions of one real number without parameters other than alpha and gamma, as one op. Its attribute
// `function` says which.
//
//   1 exp          e^x                                     dx = dy e^x
//   2 log          ln x                                    dx = dy / x
//   3 sqrt         sqrt(x)                                 dx = dy / (2 sqrt(x))
//   4 rsqrt        1 / sqrt(x)                             dx = -dy / (2 x sqrt(x))
//   5 reciprocal   1 / x                                   dx = -dy / x^2
//   6 abs          |x|                                     dx = dy sign(x)
//   7 neg          -x                                      dx = -dy
//   8 floor        the largest integer <= x                dx = 0
//   9 ceil         the smallest integer >= x               dx = 0
//   10 round       the nearest integer, half to even       dx = 0
//   11 sign        1, 0 or -1                              dx = 0
//   12 square      x^2                                     dx = 2 x dy
//   13 softplus    ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)          dx = dy / (1 + e^-x)
//   14 elu         x for x > 0, else alpha (e^x - 1)       dx = dy for x > 0, else alpha e^x dy
//   15 selu        gamma elu(x)                            dx = gamma times dx of elu
//   16 erf         2 / sqrt(pi) int_0^x e^-t^2 dt          dx = dy 2 / sqrt(pi) e^-x^2
//   17 softsign    x / (1 + |x|)                           dx = dy / (1 + |x|)^2
//   18 sin         sin x                                   dx = dy cos x
//   19 cos         cos x                                   dx = -dy sin x
//
// Outside its domain a function gives what IEEE 754 says: log(-1) and sqrt(-1) are NaN, log(0) and 1 / 0 infinite.
// One kernel holds all functions. So a firmware that links it links all the functions of <cmath> that they use.
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Unary {
  int elements;
  uint32_t function;
  float alpha, gamma;

  enum Function : uint32_t {  // stored in files; 0 is refused
    kExp = 1,
    kLog = 2,
    kSqrt = 3,
    kRsqrt = 4,
    kReciprocal = 5,
    kAbs = 6,
    kNeg = 7,
    kFloor = 8,
    kCeil = 9,
    kRound = 10,
    kSign = 11,
    kSquare = 12,
    kSoftplus = 13,
    kElu = 14,
    kSelu = 15,
    kErf = 16,
    kSoftsign = 17,
    kSin = 18,
    kCos = 19,
  };
  static constexpr uint32_t kLast = kCos;
  enum Word { kFunction = 0, kAlpha = 1, kGamma = 2 };

  static constexpr Unary from(const Words& words, const Operands& operands) {
    return {.elements = operands[0].elements(),
            .function = words[kFunction],
            .alpha = words.real(kAlpha),
            .gamma = words.real(kGamma)};
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    const A a = A(alpha), g = A(gamma);
    const auto each = [&](auto f) {
      for (int i : independent(elements)) y[i] = T(f(A(x[i])));
    };
    switch (function) {
      case kExp: return each([](A v) { return std::exp(v); });
      case kLog: return each([](A v) { return std::log(v); });
      case kSqrt: return each([](A v) { return std::sqrt(v); });
      case kRsqrt: return each([](A v) { return 1 / std::sqrt(v); });
      case kReciprocal: return each([](A v) { return 1 / v; });
      case kAbs: return each([](A v) { return std::fabs(v); });
      case kNeg: return each([](A v) { return -v; });
      case kFloor: return each([](A v) { return std::floor(v); });
      case kCeil: return each([](A v) { return std::ceil(v); });
      case kRound: return each([](A v) { return std::nearbyint(v); });
      case kSign: return each([](A v) { return sign(v); });
      case kSquare: return each([](A v) { return v * v; });
      case kSoftplus: return each([](A v) { return (v > 0 ? v : 0) + std::log1p(std::exp(-std::fabs(v))); });
      case kElu: return each([a](A v) { return v > 0 ? v : a * std::expm1(v); });
      case kSelu: return each([a, g](A v) { return g * (v > 0 ? v : a * std::expm1(v)); });
      case kErf: return each([](A v) { return std::erf(v); });
      case kSoftsign: return each([](A v) { return v / (1 + std::fabs(v)); });
      case kSin: return each([](A v) { return std::sin(v); });
      default: return each([](A v) { return std::cos(v); });
    }
  }

  template <class T>
  constexpr void gradient(const T* dy, const T* x, T* dx) const {
    using A = typename Element<T>::Accumulator;
    constexpr A kSlopeOfErf = A(1.12837916709551257390);  // 2 / sqrt(pi)
    const A a = A(alpha), g = A(gamma);
    const auto each = [&](auto slope) {
      for (int i : independent(elements)) dx[i] = T(slope(A(dy[i]), A(x[i])));
    };
    switch (function) {
      case kExp: return each([](A d, A v) { return d * std::exp(v); });
      case kLog: return each([](A d, A v) { return d / v; });
      case kSqrt: return each([](A d, A v) { return d / (2 * std::sqrt(v)); });
      case kRsqrt: return each([](A d, A v) { return -d / (2 * v * std::sqrt(v)); });
      case kReciprocal: return each([](A d, A v) { return -d / (v * v); });
      case kAbs: return each([](A d, A v) { return d * sign(v); });
      case kNeg: return each([](A d, A) { return -d; });
      case kSquare: return each([](A d, A v) { return 2 * v * d; });
      case kSoftplus: return each([](A d, A v) { return d / (1 + std::exp(-v)); });
      case kElu: return each([a](A d, A v) { return v > 0 ? d : a * std::exp(v) * d; });
      case kSelu: return each([a, g](A d, A v) { return g * (v > 0 ? d : a * std::exp(v) * d); });
      case kErf: return each([](A d, A v) { return d * kSlopeOfErf * std::exp(-v * v); });
      case kSoftsign: return each([](A d, A v) { return d / ((1 + std::fabs(v)) * (1 + std::fabs(v))); });
      case kSin: return each([](A d, A v) { return d * std::cos(v); });
      case kCos: return each([](A d, A v) { return -d * std::sin(v); });
      default: return each([](A, A v) { return v != v ? v : A(0); });  // floor, ceil, round, sign
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[kFunction] == 0 || words[kFunction] > kLast) return Code::kAttribute;
    if (!is_finite(words[kAlpha]) || !is_finite(words[kGamma])) return Code::kAttribute;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    return same(operands[0], operands[1]) ? shapes(words, operands, dx) : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"function"}, {"alpha", Coding::kReal}, {"gamma", Coding::kReal}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kGradientInputs[] = {"dy", "x"};
  static constexpr const char* kGradientOutputs[] = {"dx"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kUnaryGradient, .reads = kReads<gradient_of(0), input_of(0)>}};

 private:
  template <class A>
  static constexpr A sign(A v) {  // NaN stays NaN
    return v > 0 ? A(1) : v < 0 ? A(-1) : v == 0 ? A(0) : v;
  }
};

inline constexpr OpRule kUnaryRule = {.op = Op::kUnary,
                                      .name = "unary",
                                      .numerics = Numerics::kPointwise,
                                      .shapes = &Unary::shapes,
                                      .attributes = Unary::kAttributes,
                                      .inputs = Unary::kInputs,
                                      .outputs = Unary::kOutputs,
                                      .gradients = Unary::kGradients};
inline constexpr OpRule kUnaryGradientRule = {.op = Op::kUnaryGradient,
                                              .name = "unary_gradient",
                                              .numerics = Numerics::kPointwise,
                                              .shapes = &Unary::shapes_gradient,
                                              .attributes = Unary::kAttributes,
                                              .inputs = Unary::kGradientInputs,
                                              .outputs = Unary::kGradientOutputs};

}  // namespace nacre::inline NACRE_ISA
