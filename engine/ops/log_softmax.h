// The logarithm of softmax over one axis.
//
//   y_i = (x_i - m) - ln sum_j exp(x_j - m),   m = max_j x_j
//
// The sum is at least 1, so that no y is -infinity for finite x, as ln softmax(x) may be.
//
// Backward, from y alone:   dx_i = dy_i - exp(y_i) sum_j dy_j
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct LogSoftmax {
  int outer, width, inner;

  enum Word { kAxis = 0 };

  static constexpr LogSoftmax from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    const int axis = words.integer(kAxis);
    return {.outer = x.product(0, axis), .width = x[axis], .inner = x.product(axis + 1, x.rank)};
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    const auto step = uint32_t(inner), size = uint32_t(width * inner);  // the index past the last may be beyond int
    each_independent(outer, inner, [&](int o, int first, int) {
      const T* from = x + uint32_t(o) * size;
      T* to = y + uint32_t(o) * size;
      const auto i = uint32_t(first);
      A peak = A(from[i]), sum = 0;
      for (uint32_t j = i; j < size; j += step) peak = A(from[j]) > peak ? A(from[j]) : peak;
      for (uint32_t j = i; j < size; j += step) sum += std::exp(A(from[j]) - peak);
      const A log_sum = std::log(sum);
      for (uint32_t j = i; j < size; j += step) to[j] = T(A(from[j]) - peak - log_sum);
    });
  }

  template <class T>
  constexpr void gradient(const T* dy, const T* y, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const auto step = uint32_t(inner), size = uint32_t(width * inner);
    each_independent(outer, inner, [&](int o, int first, int) {
      const T *d = dy + uint32_t(o) * size, *v = y + uint32_t(o) * size;
      T* to = dx + uint32_t(o) * size;
      const auto i = uint32_t(first);
      A sum = 0;
      for (uint32_t j = i; j < size; j += step) sum += A(d[j]);
      for (uint32_t j = i; j < size; j += step) to[j] = T(A(d[j]) - std::exp(A(v[j])) * sum);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[kAxis] >= uint32_t(operands[0].rank)) return Code::kAttributeAxis;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    return same(operands[0], operands[1]) ? shapes(words, operands, dx) : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"axis"}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kGradientInputs[] = {"dy", "y"};
  static constexpr const char* kGradientOutputs[] = {"dx"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kLogSoftmaxGradient, .reads = kReads<gradient_of(0), output_of(0)>}};
};

inline constexpr OpRule kLogSoftmaxRule = {.op = Op::kLogSoftmax,
                                           .name = "log_softmax",
                                           .numerics = Numerics::kReduction,
                                           .shapes = &LogSoftmax::shapes,
                                           .attributes = LogSoftmax::kAttributes,
                                           .inputs = LogSoftmax::kInputs,
                                           .outputs = LogSoftmax::kOutputs,
                                           .gradients = LogSoftmax::kGradients};
inline constexpr OpRule kLogSoftmaxGradientRule = {.op = Op::kLogSoftmaxGradient,
                                                   .name = "log_softmax_gradient",
                                                   .numerics = Numerics::kReduction,
                                                   .shapes = &LogSoftmax::shapes_gradient,
                                                   .attributes = LogSoftmax::kAttributes,
                                                   .inputs = LogSoftmax::kGradientInputs,
                                                   .outputs = LogSoftmax::kGradientOutputs};

}  // namespace nacre::inline NACRE_ISA
