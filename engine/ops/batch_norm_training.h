// Batch normalisation in training, channels last.  Ioffe & Szegedy 2015, arXiv:1502.03167, algorithm 1 and section 3.
//
//   x, y [n.., channels], n = product of the leading dims     scale, bias, mean, inverse_deviation [channels]
//
//   mean_c = sum_r x_rc / n     variance_c = sum_r (x_rc - mean_c)^2 / n
//   inverse_deviation_c = 1 / sqrt(variance_c + epsilon)
//   y_rc = scale_c (x_rc - mean_c) inverse_deviation_c + bias_c
//
// update_statistics computes the running statistics at commit from three sums: mean_sum += mean, variance_sum +=
// variance, batches += 1. With `unbiased`, variance_sum adds n / (n - 1) times the variance, as PyTorch does; without
// it, the variance, as Keras does. The variance of one row is 0 in both.
//
// Backward, with u_rc = (x_rc - mean_c) inverse_deviation_c:
//
//   dx_rc = scale_c inverse_deviation_c (dy_rc - sum_q dy_qc / n - u_rc sum_q dy_qc u_qc / n)
//   dscale_c += sum_r dy_rc u_rc     dbias_c += sum_r dy_rc (bias_gradient)
//
// batches is float32; x, y and their gradients have the element type; all other tensors have the accumulator's type.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/norm.h"

namespace nacre::inline NACRE_ISA {

struct BatchNormTraining {
  int rows, channels;
  float epsilon;
  bool unbiased;

  enum Word { kEpsilon = 0, kUnbiased = 1 };
  enum Operand { kX, kScale, kBias, kMeanSum, kVarianceSum, kBatches };
  enum Output { kY, kMean, kInverseDeviation };

  static constexpr BatchNormTraining from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    return {.rows = x.product(0, x.rank - 1),
            .channels = x.last(),
            .epsilon = words.real(kEpsilon),
            .unbiased = words[kUnbiased] != 0};
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_x(const T* dy, const T* x, const A* scale, const A* mean, const A* inverse_deviation,
                            T* dx) const {
    each_columns(channels, [&](int first, int count) {
      const T *d = dy + first, *from = x + first;
      const A *m = mean + first, *v = inverse_deviation + first;
      A sum[kColumns] = {}, product[kColumns] = {};
      add_columns(rows, count, sum, [&](int r, int c) { return A(d[r * channels + c]); });
      add_columns(rows, count, product,
                  [&](int r, int c) { return A(d[r * channels + c]) * ((A(from[r * channels + c]) - m[c]) * v[c]); });
      for (int c = 0; c < count; ++c) sum[c] /= A(rows), product[c] /= A(rows);
      for (int r : of_team(rows))
        for (int c = 0; c < count; ++c) {
          const A u = (A(from[r * channels + c]) - m[c]) * v[c];
          dx[r * channels + first + c] =
              T(scale[first + c] * v[c] * (A(d[r * channels + c]) - sum[c] - u * product[c]));
        }
    });
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_scale(const T* dy, const T* x, const A* mean, const A* inverse_deviation,
                                Update<A> dscale) const {
    each_columns(channels, [&](int first, int count) {
      const T *d = dy + first, *from = x + first;
      A sum[kColumns] = {};
      add_columns(rows, count, sum,
                  [&](int r, int c) { return A(d[r * channels + c]) * (A(from[r * channels + c]) - mean[first + c]); });
      for (int c = 0; leads() && c < count; ++c) dscale.data[first + c] += sum[c] * inverse_deviation[first + c];
    });
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(channels); }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void forward(const T* x, const A* scale, const A* bias, Update<A> mean_sum, Update<A> variance_sum,
                         Update<float> batches, T* y, A* mean, A* inverse_deviation) const {
    each_columns(channels, [&](int first, int count) {
      const T* from = x + first;
      A m[kColumns] = {}, v[kColumns] = {};  // v holds the sum of squares until it is inverted
      add_columns(rows, count, m, [&](int r, int c) { return A(from[r * channels + c]); });
      for (int c = 0; c < count; ++c) m[c] /= A(rows);
      add_columns(rows, count, v, [&](int r, int c) {
        const A d = A(from[r * channels + c]) - m[c];
        return d * d;
      });
      for (int c = 0; c < count; ++c) {
        const A variance = v[c] / A(unbiased && rows > 1 ? rows - 1 : rows);
        v[c] = 1 / std::sqrt(v[c] / A(rows) + A(epsilon));
        if (!leads()) continue;
        mean_sum.data[first + c] += m[c], variance_sum.data[first + c] += variance;
        mean[first + c] = m[c], inverse_deviation[first + c] = v[c];
      }
      for (int r : of_team(rows))
        for (int c = 0; c < count; ++c)
          y[r * channels + first + c] =
              T((A(from[r * channels + c]) - m[c]) * (v[c] * scale[first + c]) + bias[first + c]);
    });
    if (in_order()) batches.data[0] += 1;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words[kUnbiased] > 1) return Code::kAttribute;
    NACRE_TRY_CODE(BatchNorm::check(words, operands, kScale, kBatches));
    if (!is(operands, kBatches, 1)) return Code::kShapeInput;
    y[kY] = dims_of(operands[kX]);
    y[kMean] = y[kInverseDeviation] = dims_of(operands[kScale]);
    return Code::kOk;
  }
  static constexpr Code shapes_x(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(BatchNorm::check_x(operands));
    NACRE_TRY_CODE(BatchNorm::check(words, operands, 2, 5));
    *dx = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_scale(const Words& words, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(BatchNorm::check_x(operands));
    return BatchNorm::check(words, operands, 2, 5);
  }

  static constexpr Attribute kAttributes[] = {{"epsilon", Coding::kReal}, {"unbiased"}};
  static constexpr const char* kInputs[] = {"x", "scale", "bias", "&mean_sum", "&variance_sum", "&batches"};
  static constexpr const char* kOutputs[] = {"y", "mean", "inverse_deviation"};
  static constexpr const char* kInputsX[] = {"dy", "x", "scale", "mean", "inverse_deviation"};
  static constexpr const char* kOutputsX[] = {"dx"};
  static constexpr const char* kInputsScale[] = {"dy", "x", "mean", "inverse_deviation", "&dscale"};

  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>,
       .by = Op::kBatchNormTrainingGradientX,
       .reads = kReads<gradient_of(0), input_of(kX), input_of(kScale), output_of(kMean), output_of(kInverseDeviation)>,
       .words = &no_words},
      {.of = kOf<kScale>,
       .by = Op::kBatchNormTrainingGradientScale,
       .reads = kReads<gradient_of(0), input_of(kX), output_of(kMean), output_of(kInverseDeviation)>,
       .adds = true,
       .words = &no_words},
      {.of = kOf<kBias>, .by = Op::kBiasGradient, .reads = kReads<gradient_of(0)>, .adds = true, .words = &no_words}};
};

inline constexpr OpRule kBatchNormTrainingRule = {
    .op = Op::kBatchNormTraining,
    .name = "batch_norm_training",
    .numerics = Numerics::kReduction,
    .shapes = &BatchNormTraining::shapes,
    .attributes = BatchNormTraining::kAttributes,
    .inputs = BatchNormTraining::kInputs,
    .outputs = BatchNormTraining::kOutputs,
    .gradients = BatchNormTraining::kGradients,
    .parameters = 1u << BatchNormTraining::kScale | 1u << BatchNormTraining::kBias,
    .threads = {.teams = &channels_of_first}};
inline constexpr OpRule kBatchNormTrainingGradientXRule = {.op = Op::kBatchNormTrainingGradientX,
                                                           .name = "batch_norm_training_gradient_x",
                                                           .numerics = Numerics::kReduction,
                                                           .shapes = &BatchNormTraining::shapes_x,
                                                           .attributes = {},
                                                           .inputs = BatchNormTraining::kInputsX,
                                                           .outputs = BatchNormTraining::kOutputsX,
                                                           .threads = {.teams = &channels_of_first}};
inline constexpr OpRule kBatchNormTrainingGradientScaleRule = {.op = Op::kBatchNormTrainingGradientScale,
                                                               .name = "batch_norm_training_gradient_scale",
                                                               .numerics = Numerics::kReduction,
                                                               .shapes = &BatchNormTraining::shapes_scale,
                                                               .attributes = {},
                                                               .inputs = BatchNormTraining::kInputsScale,
                                                               .outputs = {},
                                                               .threads = {.teams = &channels_of_first}};

}  // namespace nacre::inline NACRE_ISA
