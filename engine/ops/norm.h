// Normalizes batches at inference, channels last.  Ioffe & Szegedy 2015, arXiv:1502.03167, algorithm 2.
//
//   x, y [.., channels]   scale, bias, mean, variance [channels]
//
//   y_rc = scale_c (x_rc - mean_c) / sqrt(variance_c + epsilon) + bias_c
//
// If x is float16 or bfloat16, the parameters are float32, because variances exceed the range of float16.
//
// Backward, with constant mean and variance (a frozen layer; for training see batch_norm_training.h) and f_c = 1 /
// sqrt(variance_c + epsilon):
//
//   dx_rc = dy_rc scale_c f_c    dscale_c += f_c sum_r dy_rc (x_rc - mean_c)     dbias_c += sum_r dy_rc (bias_gradient)
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct BatchNorm {
  int rows, channels;
  float epsilon;

  static constexpr BatchNorm from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    return {.rows = x.product(0, x.rank - 1), .channels = x.last(), .epsilon = words.real(0)};
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void forward(const T* x, const A* scale, const A* bias, const A* mean, const A* variance, T* y) const {
    each_scaled(scale, variance, [&](int i, int c, A factor) { y[i] = T((A(x[i]) - mean[c]) * factor + bias[c]); });
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_x(const T* dy, const A* scale, const A* variance, T* dx) const {
    each_scaled(scale, variance, [&](int i, int, A factor) { dx[i] = T(A(dy[i]) * factor); });
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_scale(const T* dy, const T* x, const A* mean, const A* variance, Update<A> dscale) const {
    each_columns(channels, [&](int first, int count) {
      const T *d = dy + first, *v = x + first;
      A sum[kColumns] = {};
      add_columns(rows, count, sum,
                  [&](int r, int c) { return A(d[r * channels + c]) * (A(v[r * channels + c]) - mean[first + c]); });
      for (int c = 0; leads() && c < count; ++c)
        dscale.data[first + c] += sum[c] / std::sqrt(variance[first + c] + A(epsilon));
    });
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(channels); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    NACRE_TRY_CODE(check(words, operands, 1, 5));
    *y = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_x(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(check(words, operands, 1, 3));
    *dx = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_scale(const Words& words, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(check_x(operands));
    return check(words, operands, 2, 5);
  }

  // Checks that every operand from `first` to `end` is [channels].
  static constexpr Code check(const Words& words, const Operands& operands, int first, int end) {
    const Shape y = operands[0];
    if (y.rank < 1) return Code::kShapeRank;
    if (!is_finite(words[0]) || words.real(0) < 0) return Code::kAttribute;
    for (int i = first; i < end; ++i)
      if (!is(operands, i, y.last())) return Code::kShapeWeights;
    return Code::kOk;
  }

  // Checks that operand 1, x, has the dims of operand 0, dy.
  static constexpr Code check_x(const Operands& operands) {
    const Shape y = operands[0], x = operands[1];
    if (x.rank != y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < x.rank; ++axis)
      if (x[axis] != y[axis]) return Code::kShapeInput;
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"epsilon", Coding::kReal}};
  static constexpr const char* kInputs[] = {"x", "scale", "bias", "mean", "variance"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kInputsX[] = {"dy", "scale", "variance"};
  static constexpr const char* kOutputsX[] = {"dx"};
  static constexpr const char* kInputsScale[] = {"dy", "x", "mean", "variance", "&dscale"};

  enum Operand { kX, kScale, kBias, kMean, kVariance };
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>,
       .by = Op::kBatchNormGradientX,
       .reads = kReads<gradient_of(0), input_of(kScale), input_of(kVariance)>},
      {.of = kOf<kScale>,
       .by = Op::kBatchNormGradientScale,
       .reads = kReads<gradient_of(0), input_of(kX), input_of(kMean), input_of(kVariance)>,
       .adds = true},
      {.of = kOf<kBias>, .by = Op::kBiasGradient, .reads = kReads<gradient_of(0)>, .adds = true, .words = &no_words}};

 private:
  // Calls f(element, channel, factor of the channel). The calls are independent of each other.
  template <class A, class F>
  constexpr void each_scaled(const A* scale, const A* variance, F f) const {
    const auto factor_of = [&](int c) { return scale[c] / std::sqrt(variance[c] + A(epsilon)); };
    if constexpr (kThreads) {
      each_independent(rows, channels, [&](int, int c, int e) { f(e, c, factor_of(c)); });
    } else {
      for (int c = 0; c < channels; ++c) {
        const A factor = factor_of(c);
        for (int r = 0; r < rows; ++r) f(r * channels + c, c, factor);
      }
    }
  }
};

inline constexpr OpRule kBatchNormRule = {.op = Op::kBatchNorm,
                                          .name = "batch_norm",
                                          .numerics = Numerics::kReduction,
                                          .shapes = &BatchNorm::shapes,
                                          .attributes = BatchNorm::kAttributes,
                                          .inputs = BatchNorm::kInputs,
                                          .outputs = BatchNorm::kOutputs,
                                          .gradients = BatchNorm::kGradients,
                                          .parameters = 1u << BatchNorm::kScale | 1u << BatchNorm::kBias};
inline constexpr OpRule kBatchNormGradientXRule = {.op = Op::kBatchNormGradientX,
                                                   .name = "batch_norm_gradient_x",
                                                   .numerics = Numerics::kReduction,
                                                   .shapes = &BatchNorm::shapes_x,
                                                   .attributes = BatchNorm::kAttributes,
                                                   .inputs = BatchNorm::kInputsX,
                                                   .outputs = BatchNorm::kOutputsX};
inline constexpr OpRule kBatchNormGradientScaleRule = {.op = Op::kBatchNormGradientScale,
                                                       .name = "batch_norm_gradient_scale",
                                                       .numerics = Numerics::kReduction,
                                                       .shapes = &BatchNorm::shapes_scale,
                                                       .attributes = BatchNorm::kAttributes,
                                                       .inputs = BatchNorm::kInputsScale,
                                                       .outputs = {},
                                                       .threads = {.teams = &channels_of_first}};

}  // namespace nacre::inline NACRE_ISA
