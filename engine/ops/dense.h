// Fully connected layer.
//
//   x [.., in]   w [out, in]   b [out]   y [.., out]      rows = product of the leading dims
//
//   y_rk = clamp(b_k + sum_i x_ri w_ki)                                                          float
//   y_rk = clamp(zero_y + requant_k(b_k + sum_i (x_ri - zero_x) w_ki))                           int8, NUMERICS.md eq. 1
//   y_rk = clamp(b_k + s_k sum_i x_ri q_ki)                                                      weight-only: int8 q, float x
//   y_rk = clamp(b_k + s_k t_n sum_i (x_ri - z_n) q_ki)                                          hybrid: int8 x, scale t, zero z
//                                                                                                per row n of axis 0
#pragma once

#include "engine/ops/parameters.h"

namespace nacre {

struct Dense {
  int rows, in, out, rows_per_batch;
  bool per_channel;  // scales: one per output, or one
  Clamp clamp;
  int x_zero, y_zero;

  enum Word { kClamp = 0, kXZero = 3, kYZero = 4 };
  enum Operand { kX, kW, kBias, kScale, kXScale, kXZeroPoint };

  static Dense from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX], w = operands[kW];
    const int rows = x.product(0, x.rank - 1);
    return {.rows = rows,
            .in = w[1],
            .out = w[0],
            .rows_per_batch = x.rank > 1 ? x.product(1, x.rank - 1) : 1,
            .per_channel = operands.has(kScale) && operands[kScale][0] > 1,
            .clamp = Clamp::from(words, kClamp),
            .x_zero = words.integer(kXZero),
            .y_zero = words.integer(kYZero)};
  }

  uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  template <class T>
  void forward(const T* x, const T* w, Optional<const T> b, T* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        T sum = 0;
        for (int i = 0; i < in; ++i) sum += x[i] * w[k * in + i];
        y[k] = clamp.real(b ? sum + b[k] : sum);
      }
  }

  template <Rounding kRounding>
  void forward_int8(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                    const typename Requant<kRounding>::Stored* scale, int8_t* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        int32_t sum = dot(x, w + k * in, x_zero);
        if (b) sum = wrapping_add(sum, b[k]);
        const int32_t code = Requant<kRounding>::apply(sum, scale, per_channel ? k : 0);
        y[k] = clamp.code(wrapping_add(code, y_zero));
      }
  }

  void forward_weight_only(const float* x, const int8_t* w, Optional<const float> b, const float* scale, float* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        float sum = 0;
        for (int i = 0; i < in; ++i) sum += x[i] * float(w[k * in + i]);
        sum *= scale[per_channel ? k : 0];
        y[k] = clamp.real(b ? sum + b[k] : sum);
      }
  }

  void forward_hybrid(const int8_t* x, const int8_t* w, Optional<const float> b, const float* scale,
                      const float* x_scale, const int32_t* x_zeros, float* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out) {
      const int n = r / rows_per_batch;
      for (int k = 0; k < out; ++k) {
        const float sum = float(dot(x, w + k * in, x_zeros[n])) * (x_scale[n] * scale[per_channel ? k : 0]);
        y[k] = clamp.real(b ? sum + b[k] : sum);
      }
    }
  }

  static Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW];
    if (x.rank < 1 || w.rank != 2) return Code::kShapeRank;
    if (w[1] != x.last()) return Code::kShapeWeights;
    TRY_CODE(check_bias(operands, kBias, w[0]));
    TRY_CODE(check_scales(operands, kScale, w[0]));
    TRY_CODE(check_row_scales(operands, kXScale, x.rank > 1 ? x[0] : 1));
    TRY_CODE(check_terms(operands, w[1]));
    const ElementType codes = operands.has(kXScale) ? ElementType::kNone : operands.element(kX);
    TRY_CODE(check_zero(words.integer(kXZero), codes));
    TRY_CODE(check_zero(words.integer(kYZero), codes));
    TRY_CODE(check_clamp(words, kClamp, codes));
    for (int i = 0; i + 1 < x.rank; ++i) y->push(x[i]);
    y->push(w[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {
      {"clamp"}, {"low", Coding::kBound}, {"high", Coding::kBound}, {"x_zero"}, {"y_zero"}};
  static constexpr const char* kInputs[] = {"x", "w", "bias?", "scale?", "x_scale?", "x_zero?"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  // sum_i (x_i - zero) w_i. Unsigned products wrap where untrusted numbers would overflow; no valid model does.
  int32_t dot(const int8_t* x, const int8_t* w, int zero) const {
    uint32_t sum = 0;
    for (int i = 0; i < in; ++i) sum += uint32_t(x[i] - zero) * uint32_t(w[i]);
    return int32_t(sum);
  }
};

inline constexpr OpRule kDenseRule = {Op::kDense,         "dense",        Numerics::kMatmul, &Dense::shapes,
                                      Dense::kAttributes, Dense::kInputs, Dense::kOutputs};

}  // namespace nacre
