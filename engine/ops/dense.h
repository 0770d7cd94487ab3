// Defines the fully connected layer.
//
//   x [.., in]   w [out, in]   b [out]   y [.., out]      rows = product of the leading dims
//
//   y_rk = epilogue(sum_i x_ri w_ki, b_k)                                              epilogue.h
//
//   float  y_rk = clamp(sum_i x_ri w_ki + b_k)
//   fused  y_rk = f(sum_i x_ri w_ki + b_k + r_rk), r [.., out], f an activation             fused_epilogue.h
//   int8   y_rk = clamp(zero_y + requant_k(sum_i (x_ri - zero_x) w_ki + b_k))            NUMERICS.md eq. 1
//   int16  y_rk = clamp(requant_k(sum_i x_ri w_ki + b_k)), int8 weights             NUMERICS.md eq. 23 and 3
//
// Backward, of the float form without a clamp:
//
//   dx_ri = sum_k dy_rk w_ki      dw_ki += sum_r dy_rk x_ri      db_k += sum_r dy_rk (bias_gradient)
//
// Training that multiplies float8 codes, x and w E4M3 and dy E5M2, has steps t_x, t_w and t_dy [1]:
//
//   y = (t_x t_w) x w^T + b and dx = (t_dy t_w) dy w; both are dense, the second with the transpose of w
//   dw_ki += (t_dy t_x) sum_r dy_rk x_ri (dense_float8_gradient_w)
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/epilogue_shapes.h"
#include "engine/ops/fused_epilogue.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

struct Dense {
  int rows, in, out, rows_per_batch;
  int x_zero;
  Epilogue epilogue;

  enum Word { kClamp = 0, kXZero = 3, kYZero = 4, kForm = 5, kBlock = 6 };
  enum Operand { kX, kW, kBias, kScale, kResidual = kScale };

  static constexpr Dense from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX], w = operands[kW];
    const int rows = x.product(0, x.rank - 1);
    return {.rows = rows,
            .in = w[1],
            .out = w[0],
            .rows_per_batch = x.rank > 1 ? x.product(1, x.rank - 1) : 1,
            .x_zero = words.integer(kXZero),
            .epilogue = {.clamp = Clamp::from(words, kClamp),
                         .y_zero = words.integer(kYZero),
                         .per_channel = operands.has(kScale) && operands[kScale][0] > 1}};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  template <class T, class Y = T>
  constexpr void forward(const T* x, const T* w, Optional<const T> b, Y* y) const {
    each_independent(rows, out, [&](int r, int k, int e) { y[e] = epilogue.real<T, Y>(sum(x + r * in, w, k), b, k); });
  }

  template <class T>
  constexpr void forward_fused(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y) const {
    const FusedEpilogue fused = {epilogue.clamp};
    each_independent(rows, out,
                     [&](int r, int k, int e) { y[e] = fused.real(sum(x + r * in, w, k), b, k, residual, e); });
  }

  template <Rounding kRounding>
  constexpr void forward_int8(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                              const typename Requant<kRounding>::Stored* scale, int8_t* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.int8<kRounding>(dot(x + r * in, w + k * in, x_zero), b, scale, k);
    });
  }

  constexpr void forward_int8_to_int16(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                                       const int32_t* scale, int16_t* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.int8_to_int16(dot(x + r * in, w + k * in, x_zero), b, scale, k);
    });
  }
  constexpr void forward_int16(const int16_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale,
                               int16_t* y) const {
    each_independent(rows, out,
                     [&](int r, int k, int e) { y[e] = epilogue.int16(sum(x + r * in, w, k), b.data, scale, k); });
  }
  constexpr void forward_int16_wide(const int16_t* x, const int8_t* w, const int64_t* b, const int32_t* scale,
                                    int16_t* y) const {
    each_independent(rows, out,
                     [&](int r, int k, int e) { y[e] = epilogue.int16(sum(x + r * in, w, k), b, scale, k); });
  }

  constexpr void forward_int16_single(const int16_t* x, const int8_t* w, const int32_t* b, const int32_t* scale,
                                      int16_t* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.int16<Rounding::kSingle>(sum(x + r * in, w, k), b, scale, k);
    });
  }
  constexpr void forward_int16_wide_single(const int16_t* x, const int8_t* w, Optional<const int64_t> b,
                                           const int32_t* scale, int16_t* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.int16<Rounding::kSingle>(sum(x + r * in, w, k), b.data, scale, k);
    });
  }

  template <class T, class W, class S = float>  // int8 or int4 weights
  constexpr void forward_weight_only(const T* x, const W* w, Optional<const T> b, const S* scale, T* y,
                                     WordAt<kForm> form) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.weight_only<T>(sum(x + r * in, w, k), b, scale, form.value, k);
    });
  }

  // Weights are w_ki = S(c_kg (q_ki - z_kg)) with g = i / block. S is the type of the scales.
  template <class T, class W = Int4Pair, class S = float>  // int4 or int8 weights
  constexpr void forward_grouped(const T* x, const W* w, Optional<const T> b, const S* scale, const int8_t* zero, T* y,
                                 WordAt<kBlock> block) const {
    using A = typename Element<T>::Accumulator;
    const int size = int(block.value), groups = (in - 1) / size + 1;
    each_independent(rows, out, [&](int r, int k, int e) {
      A sum = 0;
      for (int i = 0; i < in; ++i) {
        const int g = k * groups + i / size;
        sum += A(x[r * in + i]) * A(decoded<S>(float(element<int>(w, k * in + i) - zero[g]), scale[g]));
      }
      y[e] = epilogue.scaled_in_sum<T, S>(sum, b, k);
    });
  }

  template <class T>
  constexpr void forward_dynamic(const int8_t* x, const int8_t* w, Optional<const T> b, const T* scale,
                                 PerRow<const T> x_scale, T* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.dynamic<T>(dot(x + r * in, w + k * in, 0), b, scale, x_scale[r], k);
    });
  }

  template <class T, class X = Float8E4M3>
  constexpr void forward_float8(const X* x, const Float8E4M3* w, Optional<const T> b, const float* scale,
                                PerRow<const float> x_scale, T* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.scaled<T>(sum(x + r * in, w, k), b, scale, x_scale[r], k);
    });
  }

  template <class T>  // terms T(x_ri t_r) T(w_ki c_k)
  constexpr void forward_float8_each(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const T* scale,
                                     PerRow<const T> x_scale, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_independent(rows, out, [&](int r, int k, int e) {
      const T t = x_scale[r], c = scale[epilogue.scale_index(k)];
      A sum = 0;
      for (int i = 0; i < in; ++i) sum += A(decoded(float(x[r * in + i]), t)) * A(decoded(float(w[k * in + i]), c));
      y[e] = epilogue.scaled_in_sum<T, T>(sum, b, k);
    });
  }

  constexpr void forward_float8_quantized(const Float8E4M3* x, const Float8E4M3* w, Optional<const float> b,
                                          const float* scale, PerRow<const float> x_scale, const float* y_scale,
                                          Float8E4M3* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      y[e] = epilogue.float8_quantized(sum(x + r * in, w, k), b, scale, x_scale[r], y_scale[0], k);
    });
  }

  constexpr void forward_hybrid(const int8_t* x, const int8_t* w, Optional<const float> b, const float* scale,
                                const float* x_scale, const int32_t* x_zeros, float* y) const {
    each_independent(rows, out, [&](int r, int k, int e) {
      const int n = r / rows_per_batch;
      y[e] = epilogue.scaled<float>(float(dot(x + r * in, w + k * in, x_zeros[n])), b, scale, x_scale[n], k);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW];
    if (x.rank < 1 || w.rank != 2) return Code::kShapeRank;
    if (w[1] != x.last()) return Code::kShapeWeights;
    NACRE_TRY_CODE(EpilogueShapes({w[0], w[1], x.rank - 1, kClamp, kForm}).check(words, operands));
    y->rank = x.rank;
    for (int i = 0; i + 1 < x.rank; ++i) y->size[i] = x[i];
    y->size[x.rank - 1] = w[0];
    return Code::kOk;
  }

  static constexpr Code shapes_int8_to_int16(const Words& words, const Operands& operands, Dims* y) {
    for (const int word : {int{kClamp}, kClamp + 1, kClamp + 2, int{kYZero}})
      if (words[word] != 0) return Code::kAttribute;
    return shapes(words, operands, y);
  }

  static constexpr Code shapes_fused(const Words& words, const Operands& operands, Dims* y) {
    return fused_shapes<Dense>(words, operands, y);
  }

  static constexpr auto kAttributes = joined(kClampAttributes, {{"x_zero"}, {"y_zero"}, {"form"}, {"block"}});
  static constexpr const char* kInputs[] = {
      "x", "w", "bias?", "scale_or_residual?", "x_scale_or_zero?", "x_zero_or_y_scale?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>, .by = Op::kDenseGradientX, .reads = kReads<gradient_of(0), input_of(kW)>},
      {.of = kOf<kW>, .by = Op::kDenseGradientW, .reads = kReads<gradient_of(0), input_of(kX)>, .adds = true},
      {.of = kOf<kBias>,
       .by = Op::kBiasGradient,
       .reads = kReads<gradient_of(0)>,
       .adds = true,
       .words = &bias_words<kClamp>}};

 private:
  // Returns sum_i x_i w_ki.
  template <class T, class W, class A = typename Element<T>::Accumulator>
  constexpr A sum(const T* x, const W* w, int k) const {
    A sum = 0;
    for (int i = 0; i < in; ++i) sum += A(x[i]) * element<A>(w, k * in + i);
    return sum;
  }

  // Returns sum_i (x_i - zero) w_i. The sum is unsigned: it wraps if that of an untrusted model would overflow. That
  // of a valid model does not.
  constexpr int32_t dot(const int8_t* x, const int8_t* w, int zero) const {
    uint32_t sum = 0;
    for (int i = 0; i < in; ++i) sum += (uint32_t(x[i]) - uint32_t(zero)) * uint32_t(w[i]);
    return int32_t(sum);
  }
};

struct DenseGradientX {
  int rows, in, out;

  static constexpr DenseGradientX from(const Words&, const Operands& operands) {
    const Shape y = operands[0], w = operands[1];
    return {.rows = y.product(0, y.rank - 1), .in = w[1], .out = w[0]};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  template <class T>
  constexpr void forward(const T* dy, const T* w, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each_independent(rows, runs_of(in), [&](int r, int run, int) {
      const int first = run * kRun, count = length_of_run(in, run);
      A sum[kRun] = {};
      for (int k = 0; k < out; ++k) {
        const A d = A(dy[r * out + k]);
        const T* from = w + k * in + first;
        for (int i = 0; i < count; ++i) sum[i] += d * A(from[i]);
      }
      for (int i = 0; i < count; ++i) dx[r * in + first + i] = T(sum[i]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0], w = operands[1];
    NACRE_TRY_CODE(real_form(words));
    if (y.rank < 1 || w.rank != 2) return Code::kShapeRank;
    if (w[0] != y.last()) return Code::kShapeWeights;
    if (int64_t{y.product(0, y.rank - 1)} * w[1] > INT32_MAX) return Code::kElements;
    for (int i = 0; i + 1 < y.rank; ++i) dx->push(y[i]);
    dx->push(w[1]);
    return Code::kOk;
  }

  // Checks that every attribute is 0: the float form without a clamp. Other forms have no such gradients.
  static constexpr Code real_form(const Words& words) {
    for (int i = Dense::kClamp; i <= Dense::kBlock; ++i)
      if (words[i] != 0) return Code::kAttribute;
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy", "w"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct DenseGradientW {
  int rows, in, out;

  static constexpr DenseGradientW from(const Words&, const Operands& operands) {
    const Shape y = operands[0], x = operands[1];
    return {.rows = y.product(0, y.rank - 1), .in = x.last(), .out = y.last()};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  // Takes one run of a row of dw at a time, over all rows of x, so that the run stays in the cache.
  template <class T>
  constexpr void forward(const T* dy, const T* x, Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    each_independent(out, runs_of(in), [&](int k, int run, int) {
      const int first = run * kRun, count = length_of_run(in, run);
      A* sum = dw.data + k * in + first;
      for (int r = 0; r < rows; ++r) {
        const A d = A(dy[r * out + k]);
        const T* from = x + r * in + first;
        for (int i = 0; i < count; ++i) sum[i] += d * A(from[i]);
      }
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape y = operands[0], x = operands[1], w = operands[2];
    NACRE_TRY_CODE(DenseGradientX::real_form(words));
    if (y.rank < 1 || x.rank != y.rank || w.rank != 2) return Code::kShapeRank;
    for (int i = 0; i + 1 < y.rank; ++i)
      if (x[i] != y[i]) return Code::kShapeInput;
    return w[0] == y.last() && w[1] == x.last() ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr const char* kInputs[] = {"dy", "x", "&dw"};
};

struct DenseFloat8GradientW : DenseGradientW {
  static constexpr DenseFloat8GradientW from(const Words& words, const Operands& operands) {
    return {DenseGradientW::from(words, operands)};
  }

  constexpr void forward_codes(const Float8E5M2* dy, const Float8E4M3* x, const float* dy_step, const float* x_step,
                               Update<float> dw) const {
    const float step = dy_step[0] * x_step[0];
    each_independent(out, runs_of(in), [&](int k, int run, int) {
      const int first = run * kRun, count = length_of_run(in, run);
      float sum[kRun] = {};
      for (int r = 0; r < rows; ++r) {
        const float d = float(dy[r * out + k]);
        const Float8E4M3* from = x + r * in + first;
        for (int i = 0; i < count; ++i) sum[i] += d * float(from[i]);
      }
      for (int i = 0; i < count; ++i) dw.data[k * in + first + i] += sum[i] * step;
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* made) {
    if (!is(operands, 2, 1) || !is(operands, 3, 1)) return Code::kShapeScale;
    const Tensor real[] = {operands.tensor[0], operands.tensor[1], operands.tensor[4]};
    return DenseGradientW::shapes(words, {real, 3, operands.rows}, made);
  }

  static constexpr const char* kInputs[] = {"dy", "x", "dy_step", "x_step", "&dw"};
};

inline constexpr OpRule kDenseRule = {.op = Op::kDense,
                                      .name = "dense",
                                      .numerics = Numerics::kMatmul,
                                      .shapes = &shapes_of_form<Dense>,
                                      .attributes = Dense::kAttributes,
                                      .inputs = Dense::kInputs,
                                      .outputs = Dense::kOutputs,
                                      .gradients = Dense::kGradients,
                                      .parameters = 1u << Dense::kW | 1u << Dense::kBias};
inline constexpr OpRule kDenseGradientXRule = {.op = Op::kDenseGradientX,
                                               .name = "dense_gradient_x",
                                               .numerics = Numerics::kMatmul,
                                               .shapes = &DenseGradientX::shapes,
                                               .attributes = Dense::kAttributes,
                                               .inputs = DenseGradientX::kInputs,
                                               .outputs = DenseGradientX::kOutputs};
inline constexpr OpRule kDenseGradientWRule = {.op = Op::kDenseGradientW,
                                               .name = "dense_gradient_w",
                                               .numerics = Numerics::kMatmul,
                                               .shapes = &DenseGradientW::shapes,
                                               .attributes = Dense::kAttributes,
                                               .inputs = DenseGradientW::kInputs,
                                               .outputs = {}};
inline constexpr OpRule kDenseFloat8GradientWRule = {.op = Op::kDenseFloat8GradientW,
                                                     .name = "dense_float8_gradient_w",
                                                     .numerics = Numerics::kMatmul,
                                                     .shapes = &DenseFloat8GradientW::shapes,
                                                     .attributes = Dense::kAttributes,
                                                     .inputs = DenseFloat8GradientW::kInputs,
                                                     .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
