// Batch normalisation at inference, channels last.  Ioffe & Szegedy 2015, arXiv:1502.03167, algorithm 2.
//
//   x, y [.., channels]   scale, bias, mean, variance [channels]
//
//   y_rc = scale_c (x_rc - mean_c) / sqrt(variance_c + epsilon) + bias_c
//
// The parameters are float32 where x is float16 or bfloat16: variances leave the range of float16.
#pragma once

#include <cmath>

#include "engine/numeric/element.h"
#include "engine/ops/parameters.h"

namespace nacre {

struct BatchNorm {
  int rows, channels;
  float epsilon;

  static BatchNorm from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    return {.rows = x.product(0, x.rank - 1), .channels = x.last(), .epsilon = words.real(0)};
  }

  template <class T, class A = typename Element<T>::Accumulator>
  void forward(const T* x, const A* scale, const A* bias, const A* mean, const A* variance, T* y) const {
    for (int c = 0; c < channels; ++c) {
      const A factor = scale[c] / std::sqrt(variance[c] + A(epsilon));
      for (auto i = uint32_t(c); i < uint32_t(rows * channels); i += uint32_t(channels))  // past the last: beyond int
        y[i] = T((A(x[i]) - mean[c]) * factor + bias[c]);
    }
  }

  static Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (x.rank < 1) return Code::kShapeRank;
    if (!is_finite(words[0]) || words.real(0) < 0) return Code::kAttribute;
    for (int i = 1; i <= 4; ++i)
      if (operands[i].rank != 1 || operands[i][0] != x.last()) return Code::kShapeWeights;
    *y = dims_of(x);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"epsilon", Coding::kReal}};
  static constexpr const char* kInputs[] = {"x", "scale", "bias", "mean", "variance"};
  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kBatchNormRule = {
    Op::kBatchNorm,         "batch_norm",       Numerics::kReduction, &BatchNorm::shapes,
    BatchNorm::kAttributes, BatchNorm::kInputs, BatchNorm::kOutputs};

}  // namespace nacre
