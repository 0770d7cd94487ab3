// Computes the logarithm of softmax over one axis.
//
//   y_i = (x_i - m) - ln sum_j exp(x_j - m),   m = max_j x_j
//
// The sum is at least 1, so its logarithm is finite. ln softmax(x) would be -infinity where softmax(x) underflows.
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
    each_team(outer, inner, [&](int o, int i) {
      const T* from = x + o * width * inner + i;
      T* to = y + o * width * inner + i;
      A peak = A(from[0]), sum = 0;
      for (int j : of_team(width)) peak = A(from[j * inner]) > peak ? A(from[j * inner]) : peak;
      peak = team_max(peak);
      for (int j : of_team(width)) sum += std::exp(A(from[j * inner]) - peak);
      const A log_sum = std::log(team_sum(sum));
      for (int j : of_team(width)) to[j * inner] = T(A(from[j * inner]) - peak - log_sum);
    });
  }

  template <class T>
  constexpr void gradient(const T* dy, const T* y, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each_team(outer, inner, [&](int o, int i) {
      const int first = o * width * inner + i;
      const T *d = dy + first, *v = y + first;
      T* to = dx + first;
      A sum = 0;
      for (int j : of_team(width)) sum += A(d[j * inner]);
      sum = team_sum(sum);
      for (int j : of_team(width)) to[j * inner] = T(A(d[j * inner]) - std::exp(A(v[j * inner])) * sum);
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
                                           .gradients = LogSoftmax::kGradients,
                                           .threads = {.teams = &elements_of_first}};
inline constexpr OpRule kLogSoftmaxGradientRule = {.op = Op::kLogSoftmaxGradient,
                                                   .name = "log_softmax_gradient",
                                                   .numerics = Numerics::kReduction,
                                                   .shapes = &LogSoftmax::shapes_gradient,
                                                   .attributes = LogSoftmax::kAttributes,
                                                   .inputs = LogSoftmax::kGradientInputs,
                                                   .outputs = LogSoftmax::kGradientOutputs,
                                                   .threads = {.teams = &elements_of_first}};

}  // namespace nacre::inline NACRE_ISA
