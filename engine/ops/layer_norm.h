// Normalizes the elements along the last axis.  Ba, Kiros & Hinton 2016, arXiv:1607.06450, eq. 3; with epsilon inside
// the root as in PyTorch, Keras and ONNX.
//
//   x, y [.., width]   scale, bias [width] (absent: 1, 0)
//
//   m_r = mean_j x_rj     s_r = 1 / sqrt(mean_j (x_rj - m_r)^2 + epsilon)     h_rj = (x_rj - m_r) s_r
//   y_rj = h_rj scale_j + bias_j
//
// Backward, with g_rj = dy_rj scale_j:
//
//   dx_rj     = s_r (g_rj - mean_k g_rk - h_rj mean_k(g_rk h_rk))
//   dscale_j += sum_r dy_rj h_rj     dbias_j += sum_r dy_rj
//
// The backward steps read x anyway, so they compute m and s again. That costs two sums per row and saves two tensors
// that would live from the forward pass to the backward one. If x is float16 or bfloat16, the parameters are float32,
// as in batch_norm.
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"
#include "engine/ops/parts.h"

namespace nacre::inline NACRE_ISA {

struct LayerNorm {
  int rows, width;
  float epsilon;

  static constexpr LayerNorm from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    return {.rows = x.product(0, x.rank - 1), .width = x.last(), .epsilon = words.real(0)};
  }

  constexpr uint64_t work() const { return 3 * uint64_t(uint32_t(rows)) * uint32_t(width); }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void forward(const T* x, Optional<const A> scale, Optional<const A> bias, T* y) const {
    for (int r : teams(rows)) {
      const T* from = x + r * width;
      T* to = y + r * width;
      const Moments<A> row = moments<A>(from);
      for (int j : of_team(width)) {
        const A h = row.normalized(A(from[j])), v = scale ? h * scale[j] : h;
        to[j] = T(bias ? v + bias[j] : v);
      }
    }
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_x(const T* x, Optional<const A> scale, const T* dy, T* dx) const {
    for (int r : teams(rows)) {
      const T *from = x + r * width, *d = dy + r * width;
      T* to = dx + r * width;
      const Moments<A> row = moments<A>(from);
      const auto g = [&](int j) { return scale ? A(d[j]) * scale[j] : A(d[j]); };
      A sum = 0, projection = 0;
      for (int j : of_team(width)) {
        sum += g(j);
        projection += g(j) * row.normalized(A(from[j]));
      }
      sum = team_sum(sum) / A(width);
      projection = team_sum(projection) / A(width);
      for (int j : of_team(width))
        to[j] = T(row.inverse_deviation * (g(j) - sum - row.normalized(A(from[j])) * projection));
    }
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_scale(const T* x, const T* dy, Update<A> dscale, Parts<A> parts = {}) const {
    if (parts.phase == 1) {
      for (int r : teams(rows)) {
        const Moments<A> row = moments<A>(x + r * width);
        if (leads()) parts.data[2 * r] = row.mean, parts.data[2 * r + 1] = row.inverse_deviation;
      }
    } else if (parts.phase == 2) {
      for (int j : teams(width)) {
        A sum = leads() ? dscale.data[j] : A(0);
        for (int r : of_team(rows)) {
          const Moments<A> row = {parts.data[2 * r], parts.data[2 * r + 1]};
          sum += A(dy[r * width + j]) * row.normalized(A(x[r * width + j]));
        }
        sum = team_sum(sum);
        if (leads()) dscale.data[j] = sum;
      }
    } else if (in_order()) {
      for (int r = 0; r < rows; ++r, x += width, dy += width) {
        const Moments<A> row = moments<A>(x);
        for (int j = 0; j < width; ++j) dscale.data[j] += A(dy[j]) * row.normalized(A(x[j]));
      }
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    NACRE_TRY_CODE(check(words, x));
    for (const int parameter : {1, 2})
      if (operands.has(parameter) && !is(operands, parameter, x.last()))
        return parameter == 1 ? Code::kShapeScale : Code::kShapeBias;
    *y = dims_of(x);
    return Code::kOk;
  }
  static constexpr Code shapes_x(const Words& words, const Operands& operands, Dims* dx) {
    const Shape x = operands[0];
    NACRE_TRY_CODE(check(words, x));
    if (operands.has(1) && !is(operands, 1, x.last())) return Code::kShapeScale;
    if (!same(x, operands[2])) return Code::kShapeInput;
    *dx = dims_of(x);
    return Code::kOk;
  }
  static constexpr Code shapes_scale(const Words& words, const Operands& operands, Dims*) {
    const Shape x = operands[0];
    NACRE_TRY_CODE(check(words, x));
    if (!same(x, operands[1])) return Code::kShapeInput;
    return is(operands, 2, x.last()) ? Code::kOk : Code::kShapeScale;
  }

  static constexpr Attribute kAttributes[] = {{"epsilon", Coding::kReal}};
  static constexpr const char* kInputs[] = {"x", "scale?", "bias?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kInputsX[] = {"x", "scale?", "dy"};
  static constexpr const char* kOutputsX[] = {"dx"};
  static constexpr const char* kInputsScale[] = {"x", "dy", "&dscale"};

  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kLayerNormGradientX, .reads = kReads<input_of(0), input_of(1), gradient_of(0)>},
      {.of = kOf<1>, .by = Op::kLayerNormGradientScale, .reads = kReads<input_of(0), gradient_of(0)>, .adds = true},
      {.of = kOf<2>, .by = Op::kBiasGradient, .reads = kReads<gradient_of(0)>, .adds = true, .words = &no_words},
  };

  // The parts of gradient_scale are the mean and the inverse deviation of each row. It has a team for each row and for
  // each column.
  static constexpr int64_t statistics_of(const Operands& operands) { return rows_of_first(operands) * 2; }
  static constexpr int64_t teams_of_scale(const Operands& operands) {
    return statistics_of(operands) + channels_of_first(operands);
  }

 private:
  static constexpr Code check(const Words& words, Shape x) {
    if (x.rank < 1) return Code::kShapeRank;
    return is_finite(words[0]) && words.real(0) >= 0 ? Code::kOk : Code::kAttribute;
  }

  template <class A>
  struct Moments {
    A mean, inverse_deviation;
    constexpr A normalized(A v) const { return (v - mean) * inverse_deviation; }
  };

  template <class A, class T>
  constexpr Moments<A> moments(const T* x) const {
    A sum = 0, squares = 0;
    for (int j : of_team(width)) sum += A(x[j]);
    const A mean = team_sum(sum) / A(width);
    for (int j : of_team(width)) squares += (A(x[j]) - mean) * (A(x[j]) - mean);
    return {mean, 1 / std::sqrt(team_sum(squares) / A(width) + A(epsilon))};
  }
};

inline constexpr OpRule kLayerNormRule = {.op = Op::kLayerNorm,
                                          .name = "layer_norm",
                                          .numerics = Numerics::kReduction,
                                          .shapes = &LayerNorm::shapes,
                                          .attributes = LayerNorm::kAttributes,
                                          .inputs = LayerNorm::kInputs,
                                          .outputs = LayerNorm::kOutputs,
                                          .gradients = LayerNorm::kGradients,
                                          .parameters = 0b110,
                                          .threads = {.teams = &rows_of_first}};
inline constexpr OpRule kLayerNormGradientXRule = {.op = Op::kLayerNormGradientX,
                                                   .name = "layer_norm_gradient_x",
                                                   .numerics = Numerics::kReduction,
                                                   .shapes = &LayerNorm::shapes_x,
                                                   .attributes = LayerNorm::kAttributes,
                                                   .inputs = LayerNorm::kInputsX,
                                                   .outputs = LayerNorm::kOutputsX,
                                                   .threads = {.teams = &rows_of_first}};
inline constexpr OpRule kLayerNormGradientScaleRule = {
    .op = Op::kLayerNormGradientScale,
    .name = "layer_norm_gradient_scale",
    .numerics = Numerics::kReduction,
    .shapes = &LayerNorm::shapes_scale,
    .attributes = LayerNorm::kAttributes,
    .inputs = LayerNorm::kInputsScale,
    .outputs = {},
    .threads = {.phases = 2, .parts = &LayerNorm::statistics_of, .teams = &LayerNorm::teams_of_scale}};

}  // namespace nacre::inline NACRE_ISA
